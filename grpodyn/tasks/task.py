"""What a task is: prompts with right answers, split once for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from grpodyn.errors import UnknownNameError

if TYPE_CHECKING:
    from datasets import Dataset

Split = Literal["train", "choose", "confirm", "report"]
"""`train` is for updates, `choose` for picking among variants, `confirm` for checking a pick, `report` for the number
that is quoted. A number measured on a split that also made a decision is not held out any more."""

SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True)
class Examples:
    """Prompts and their right answers, in a fixed order; the two have the same length."""

    prompts: tuple[str, ...]
    answers: tuple[str, ...]
    columns: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, hash=False)
    """What rewards read beside the answer, such as tests; each as long as the prompts. With a column `prompt`, the
    prompts are conversations, which stand in it, and `prompts` holds them as the chat template writes them."""

    @property
    def templated(self) -> bool:
        """Whether the prompts' text has the special tokens of a chat template in it."""
        return "prompt" in self.columns

    def __post_init__(self) -> None:
        if len(self.prompts) != len(self.answers):
            raise ValueError(f"{len(self.prompts)} prompts but {len(self.answers)} answers; give one answer a prompt")

    def __len__(self) -> int:
        return len(self.prompts)

    def head(self, n: int) -> Examples:
        """Return the first `n` examples (all of them if there are fewer)."""
        return self.picked(range(min(n, len(self))))

    def picked(self, places: Iterable[int]) -> Examples:
        """Return some examples, in the order of their places."""
        chosen = list(places)
        columns = {name: tuple(values[i] for i in chosen) for name, values in self.columns.items()}
        return Examples(tuple(self.prompts[i] for i in chosen), tuple(self.answers[i] for i in chosen), columns)

    def repeated(self, times: int) -> Examples:
        """Return every example so many times, side by side."""
        return self.picked(i for i in range(len(self)) for _ in range(times))


@runtime_checkable
class Task(Protocol):
    """Prompts in four disjoint splits; `answer` is the one completion that is right, word for word."""

    @property
    def name(self) -> str:
        """Name in a run config and in the manifest."""
        ...

    def split(self, name: str) -> Examples:
        """Return the examples of one split.

        Raises:
            UnknownNameError: the task has no split of that name.
        """
        ...

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset` with the columns `prompt` and `answer`, as TRL takes it."""
        ...


def as_split(name: str) -> Split:
    """Return `name` as a split.

    Raises:
        UnknownNameError: naming the four splits.
    """
    for split in SPLITS:
        if split == name:
            return split
    raise UnknownNameError.among("split", name, SPLITS)


def dataset_of(examples: Examples) -> Dataset:
    """Return examples as a `datasets.Dataset` with the columns `prompt` and `answer`."""
    from datasets import Dataset  # heavy, and only training needs it

    return Dataset.from_dict({"prompt": list(examples.prompts), "answer": list(examples.answers)})
