"""Tasks: prompts with right answers, found by name."""

from __future__ import annotations

from grpodyn.tasks.catalogue import task, task_names
from grpodyn.tasks.task import SPLITS, Examples, Split, Task

__all__ = ["SPLITS", "Examples", "Split", "Task", "task", "task_names"]
