"""A user's own data set, divided by hash like the tasks of this package."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from grpodyn.config.validation import StrictModel
from grpodyn.tasks.rows import DatasetTask, Row


class PlainOptions(StrictModel):
    """Columns of the data set."""

    prompt: str = "prompt"
    answer: str | None = "answer"
    columns: dict[str, str] = Field(default_factory=dict)
    """What a reward reads, and the column that holds it."""


class PlainRows(DatasetTask):
    """Rows as they are, under the names that rewards read."""

    name = "dataset"
    options_type = PlainOptions
    options_at = "task"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with its columns renamed."""
        options = self.options
        prompt = self.column(row, options.prompt, "prompt")
        if not isinstance(prompt, str):
            raise ValueError(f"its prompt is a {type(prompt).__name__}; to divide by hash, prompts must be text")
        taken = {"prompt": prompt}
        if options.answer is not None:
            taken["answer"] = self.column(row, options.answer, "answer")
        taken |= {name: self.column(row, column, f"columns.{name}") for name, column in options.columns.items()}
        used = {options.prompt, options.answer, *options.columns.values()}
        return {name: value for name, value in row.items() if name not in used} | {"answer": ""} | taken
