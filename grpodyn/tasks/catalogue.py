"""Finds a task by name. A task whose data is somewhere else (a file, a hub dataset) implements `Task` just the same."""

from __future__ import annotations

from collections.abc import Callable

from grpodyn.errors import UnknownNameError
from grpodyn.tasks.arithmetic_format import ArithmeticFormat
from grpodyn.tasks.joint_commands import JointCommands
from grpodyn.tasks.string_commands import StringCommands
from grpodyn.tasks.task import Task

_TASKS: dict[str, Callable[[], Task]] = {
    known.name: known for known in (ArithmeticFormat, JointCommands, StringCommands)
}


def task_names() -> list[str]:
    """Return the names that `task` knows."""
    return sorted(_TASKS)


def task(name: str) -> Task:
    """Return the task of that name.

    Raises:
        UnknownNameError: with the closest known name.
    """
    if name not in _TASKS:
        raise UnknownNameError.among("task", name, _TASKS)
    return _TASKS[name]()
