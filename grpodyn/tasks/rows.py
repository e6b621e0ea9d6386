"""Tasks whose rows come from data: a file, the hub, or a generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import BaseModel

from grpodyn.config.validation import StrictModel, validate
from grpodyn.errors import ConfigError, did_you_mean
from grpodyn.tasks.source import Source
from grpodyn.tasks.splits import hash_order, split_of
from grpodyn.tasks.task import SPLITS, Examples, Split, as_split

if TYPE_CHECKING:
    from datasets import Dataset

Row = Mapping[str, Any]
PUBLISHED_TEST: Final = "test"
NOT_FOR_TRAINING: Final = (PUBLISHED_TEST, "prompt")
"""Splits of a data set that are not divided: its test, and what some (mbpp) keep to show in prompts."""


class NoOptions(StrictModel):
    """A task without options."""


class RowsTask(ABC):
    """A task made of rows with a `prompt`, an `answer`, and what its rewards read beside them.

    A prompt's split is a function of its SHA-256. Where the data has a published test, that is `report`, and no prompt
    of it is in another split; what the hash would have put into `report` is trained on then.

    Args:
        options: of the task, as in a config.

    Raises:
        ConfigError: an option is unknown, or its value wrong.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[BaseModel]] = NoOptions
    template: ClassVar[str] = "{prompt}"
    """What a prompt is put into unless the config says otherwise."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options: Any = validate(self.options_type, dict(options or {}), f"task.options of {self.name}")

    @abstractmethod
    def rows(self) -> tuple[Iterable[Row], Iterable[Row] | None]:
        """Return the rows to divide, and those of a published test if there is one."""

    def split(self, name: str) -> Examples:
        """Return the examples of one split, in a fixed shuffled order."""
        rows = self._splits[as_split(name)]
        return Examples(tuple(row["prompt"] for row in rows), tuple(row["answer"] for row in rows))

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset`: `prompt`, `answer`, and columns of the task's own."""
        from datasets import Dataset  # heavy, and only training needs it

        return Dataset.from_list([dict(row) for row in self._splits[as_split(split)]])

    @cached_property
    def _splits(self) -> dict[Split, list[Row]]:
        divided, test = self.rows()
        found: dict[Split, list[Row]] = {split: [] for split in SPLITS}
        published = list(_distinct(test)) if test is not None else []
        seen = {row["prompt"] for row in published}
        for row in _distinct(divided):
            if row["prompt"] in seen:
                continue
            split = split_of(row["prompt"])
            found["train" if published and split == "report" else split].append(row)
        found["report"] += published
        return {split: sorted(rows, key=lambda row: hash_order(row["prompt"])) for split, rows in found.items()}


class DatasetTask(RowsTask):
    """A task whose rows are those of a data set.

    Args:
        options: of the task, as in a config.
        source: where the data set is; by default `home`.

    Raises:
        ConfigError: as `RowsTask`; or the task has no data set of its own, and none is given.
    """

    home: ClassVar[Source | None] = None
    """Where the data set is published."""
    options_at: ClassVar[str] = "task.options"
    """Where in a run config its options stand."""

    def __init__(self, options: Mapping[str, Any] | None = None, source: Source | None = None) -> None:
        super().__init__(options)
        found = source or self.home
        if found is None:
            raise ConfigError(f"the task {self.name} reads a data set of yours: set task.dataset to a file or hub name")
        self.source = found

    @abstractmethod
    def convert(self, row: Row) -> dict[str, Any]:
        """Return a row of the data set as a row of the task.

        Raises:
            ValueError: it has no answer, or one that cannot be read; says what is wrong with it.
        """

    def rows(self) -> tuple[Iterable[Row], Iterable[Row] | None]:
        """Return the converted rows of all splits but the test, and those of the test.

        Raises:
            ConfigError: the data set cannot be loaded, lacks a column, or holds a row without an answer.
        """
        splits = self.source.load_all()
        divided = [part for name, part in splits.items() if name not in NOT_FOR_TRAINING] or list(splits.values())
        test = splits.get(PUBLISHED_TEST) if len(splits) > 1 else None
        pool = (row for part in divided for row in self._converted(part))
        return pool, None if test is None else self._converted(test)

    def column(self, row: Row, name: str, option: str) -> Any:
        """Return a value of a row.

        Args:
            row: of the data set.
            name: of the column.
            option: of the task, that named it.

        Raises:
            ConfigError: there is no such column.
        """
        if name not in row:
            raise ConfigError(
                f"the task {self.name} reads the column {name!r}, which {self.source.dataset!r} does not have"
                f"{did_you_mean(name, row)} (it has: {', '.join(row)}); name another in {self.options_at}.{option}"
            )
        return row[name]

    def text(self, row: Row, name: str, option: str) -> str:
        """Return a value of a row that is text; arguments and errors as `column`.

        Raises:
            ValueError: it is none, or empty.
        """
        value = self.column(row, name, option)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"its {name} is {value!r}, expected text")
        return value

    def _converted(self, data: Any) -> Iterator[Row]:
        for place, row in enumerate(data):
            try:
                converted = self.convert(row)
            except ValueError as error:
                raise ConfigError(f"row {place} of {self.source.dataset!r} is no {self.name}: {error}") from error
            yield converted


def _distinct(rows: Iterable[Row]) -> Iterator[Row]:
    seen: set[str] = set()
    for row in rows:
        if row["prompt"] not in seen:
            seen.add(row["prompt"])
            yield row
