"""Tasks whose prompts can be read in several ways, of which one is wanted.

A base that was taught every reading, each in its share, answers by a reading drawn at random. What training must change
is which reading it takes. The wanted one is never the likeliest, so no temperature finds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from grpodyn.tasks.splits import split_all
from grpodyn.tasks.task import Examples, Split, as_split, dataset_of

if TYPE_CHECKING:
    from datasets import Dataset


class ReadingTask(ABC):
    """A task with several readings of every prompt; the last one is wanted, and right is its answer word for word."""

    name: ClassVar[str]
    shares: ClassVar[tuple[float, ...]]
    """How often the base meets each reading; they sum to 1. The last is the wanted one, and the rarest."""

    @classmethod
    @abstractmethod
    def prompts(cls) -> tuple[str, ...]:
        """Return every prompt of the task, all of one length."""

    @classmethod
    @abstractmethod
    def read(cls, prompt: str, reading: int) -> str:
        """Return the answer to a prompt under one of its readings; the answers of two readings differ."""

    @classmethod
    def answer(cls, prompt: str) -> str:
        """Return the right answer: that of the wanted reading."""
        return cls.read(prompt, len(cls.shares) - 1)

    def split(self, name: str) -> Examples:
        """Return the examples of one split, in a fixed shuffled order."""
        return _splits(type(self))[as_split(name)]

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset` with the columns `prompt` and `answer`."""
        return dataset_of(self.split(split))


@cache
def _splits(task: type[ReadingTask]) -> dict[Split, Examples]:
    return split_all({prompt: task.answer(prompt) for prompt in task.prompts()})
