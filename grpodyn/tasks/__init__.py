"""Tasks: prompts with right answers, found by name."""

from __future__ import annotations

from grpodyn.tasks.catalogue import published, takes_dataset, task, task_names, word_for_word
from grpodyn.tasks.task import SPLITS, Examples, Split, Task

__all__ = ["SPLITS", "Examples", "Split", "Task", "published", "takes_dataset", "task", "task_names", "word_for_word"]
