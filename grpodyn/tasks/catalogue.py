"""Finds a task by name. A task whose data is somewhere else (a file, a hub dataset) implements `Task` just the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.tasks.arithmetic_format import ArithmeticFormat
from grpodyn.tasks.arithmetic_stages import STAGE_TASKS, ArithmeticCurriculum
from grpodyn.tasks.choices import ArcChallenge, MultipleChoice
from grpodyn.tasks.gsm8k import Gsm8k
from grpodyn.tasks.joint_commands import JointCommands
from grpodyn.tasks.letter_shifts import LetterShifts
from grpodyn.tasks.programs import Mbpp, OpenCoder, Programs
from grpodyn.tasks.puzzles import ReasoningGym
from grpodyn.tasks.rows import DatasetTask, RowsTask
from grpodyn.tasks.source import Source
from grpodyn.tasks.string_commands import StringCommands
from grpodyn.tasks.sum_commands import SumCommands
from grpodyn.tasks.task import Task

_MADE_HERE: dict[str, Callable[[], Task]] = {
    known.name: known
    for known in (
        ArithmeticCurriculum,
        ArithmeticFormat,
        JointCommands,
        LetterShifts,
        StringCommands,
        SumCommands,
        *STAGE_TASKS,
    )
}
_OF_DATASETS: dict[str, type[DatasetTask]] = {
    known.name: known for known in (ArcChallenge, Gsm8k, Mbpp, MultipleChoice, OpenCoder, Programs)
}
_OF_ROWS: dict[str, type[RowsTask]] = {**_OF_DATASETS, ReasoningGym.name: ReasoningGym}


def task_names() -> list[str]:
    """Return the names that `task` knows."""
    return sorted([*_MADE_HERE, *_OF_ROWS])


def word_for_word(name: str) -> bool:
    """Return whether the right completion of a task is its answer, word for word, so that its probability is exact."""
    return name in _MADE_HERE


def takes_dataset(name: str) -> bool:
    """Return whether a task reads a data set, which a config may replace by another of the same kind."""
    return name in _OF_DATASETS


def published(name: str) -> Source | None:
    """Return the data set that a task reads unless a config names another; None if it has none of its own."""
    return _OF_DATASETS[name].home if name in _OF_DATASETS else None


def task(name: str, options: Mapping[str, Any] | None = None, source: Source | None = None) -> Task:
    """Return the task of that name.

    Args:
        name: of the task.
        options: what the task lets a config set.
        source: the data set, for a task that reads one; by default the published one.

    Raises:
        UnknownNameError: with the closest known name.
        ConfigError: the task has no such option, or reads no data set.
    """
    if name not in _MADE_HERE and name not in _OF_ROWS:
        raise UnknownNameError.among("task", name, task_names())
    if source is not None and not takes_dataset(name):
        raise ConfigError(
            f"the task {name} reads no data set, but task.dataset is {source.dataset!r}; leave one of them out "
            f"(those that read one: {', '.join(sorted(_OF_DATASETS))})"
        )
    if name in _MADE_HERE:
        if options:
            raise ConfigError(f"the task {name} has no options, but task.options has {', '.join(options)}")
        return _MADE_HERE[name]()
    if name in _OF_DATASETS:
        return _OF_DATASETS[name](options, source)
    return _OF_ROWS[name](options)


def option_names(name: str) -> list[str]:
    """Return the options that a task takes."""
    return list(_OF_ROWS[name].options_type.model_fields) if name in _OF_ROWS else []
