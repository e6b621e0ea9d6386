"""The `task` section of a run config: where prompts and answers come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from grpodyn.config.validation import StrictModel
from grpodyn.tasks import published, takes_dataset


class TaskConfig(StrictModel):
    """A task of this package by `name`, or a `dataset` (hub name, or a .jsonl, .json, .parquet or .csv file).

    A task that reads a data set, such as `gsm8k`, takes a `dataset` beside its `name`, in place of the published one.
    """

    name: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    """Of the named task, such as the columns of its data set."""
    dataset: str | None = None
    subset: str | None = None
    """Configuration of a hub dataset, such as `main` of gsm8k."""
    revision: str | None = None
    split: str = "train"
    prompt: str = "prompt"
    """Column with the prompt: text, or a list of messages."""
    answer: str | None = "answer"
    """Column handed to reward functions as `answer`; null if there is none. All other columns are handed on too."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Other columns under the names that rewards read, such as `tests: test_list`."""
    splits: Literal["own", "hash"] = "own"
    """`hash` divides a dataset without splits of its own into train, choose, confirm and report, by its prompts."""
    template: str | None = None
    """Text that a prompt is put into, in place of `{prompt}`; null for the task's own."""
    chat: bool = False
    """Whether a text prompt is wrapped as a user's message, so that the model's chat template applies."""
    system: str | None = None
    """With `chat`, a system's message before it."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first so many prompts."""
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt; null for what the model's context leaves beside a completion."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """What becomes of a longer one."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.name is None and self.dataset is None:
            raise ValueError(
                "name and dataset are both null; give the `name` of a task of this package, or a `dataset`"
            )
        if self.name is not None and self.dataset is not None and not takes_dataset(self.name):
            raise ValueError(
                f"name is {self.name!r} and dataset is {self.dataset!r}; give one of them: this task reads no data set"
            )
        if self.template is not None and "{prompt}" not in self.template:
            raise ValueError(f"template is {self.template[:60]!r}, expected text with {{prompt}} in it")
        if self.system is not None and not self.chat:
            raise ValueError("system is a message of a conversation; set chat to true, or leave it out")
        if self.name is not None:
            dataset_only = ("answer", "columns", "prompt", "splits")
            self._refuse(dataset_only, f"belong to a `dataset` alone; the task {self.name!r} has its own columns")
            if not takes_dataset(self.name):
                self._refuse(("revision", "subset"), f"belong to a `dataset`; the task {self.name!r} reads none")
            elif self.dataset is None:
                home = published(self.name)
                own = "" if home is None else f" (the task's own is {home.dataset})"
                self._refuse(("revision", "subset"), f"say which part of a data set is meant; name `dataset` too{own}")
        else:
            self._refuse(("options",), "belong to a named task")
        return self

    def _refuse(self, keys: Sequence[str], why: str) -> None:
        # Compared with the default, not with what was written: a resolved config writes them all.
        fields = type(self).model_fields
        foreign = [key for key in keys if getattr(self, key) != fields[key].get_default(call_default_factory=True)]
        if foreign:
            raise ValueError(f"{', '.join(foreign)} {why}")
