"""Loads rows from a file or from the hub; no code of a data set runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grpodyn.errors import ConfigError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

BUILDERS: Final = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
"""File endings that `datasets` reads, by the name of its builder."""


@dataclass(frozen=True)
class Source:
    """Where rows are."""

    dataset: str
    """A hub name, a folder, or a file."""
    subset: str | None = None
    revision: str | None = None

    def load(self, split: str) -> Dataset:
        """Return the rows of one split; a file is all `train`, of which a part is named as in `train[:90%]`.

        Raises:
            ConfigError: there is no such file, data set or split.
        """
        import datasets  # heavy, and only training needs it

        return self._loaded(datasets.load_dataset, split)

    def load_all(self) -> DatasetDict:
        """Return the rows of every split.

        Raises:
            ConfigError: there is no such file or data set.
        """
        import datasets  # heavy, and only training needs it

        return self._loaded(datasets.load_dataset, None)

    def _loaded(self, load_dataset: Callable[..., Any], split: str | None) -> Any:
        from datasets.exceptions import DatasetsError

        file = Path(self.dataset).expanduser()
        builder = BUILDERS.get(file.suffix.lower())
        if builder is not None and not file.is_file():
            raise ConfigError(f"task.dataset {self.dataset!r}: there is no such file")
        try:
            if builder is not None:
                return load_dataset(builder, data_files={"train": str(file)}, split=split)
            return load_dataset(self.dataset, self.subset, revision=self.revision, split=split)
        except StopIteration as error:  # what the JSON builder makes of an empty file
            raise ConfigError(f"task.dataset {self.dataset!r} holds no rows") from error
        # RuntimeError: a data set that is a program, which is not run.
        except (OSError, ValueError, RuntimeError, DatasetsError) as error:
            reason = _reason(error)
            of = "" if split is None else f" (split {split!r})"
            raise ConfigError(
                f"task.dataset {self.dataset!r}{of} cannot be loaded: {reason}; give a hub name, or a "
                f"{', '.join(BUILDERS)} file"
            ) from error


def _reason(error: BaseException) -> str:
    """Return the first line of what went wrong at the bottom: `datasets` wraps it in words that do not say it."""
    innermost = error
    while innermost.__cause__ is not None and str(innermost.__cause__).strip():
        innermost = innermost.__cause__
    said = str(innermost).strip()
    return said.splitlines()[0] if said else type(error).__name__
