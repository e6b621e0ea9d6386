"""A task whose prompts are put into a template; which split a prompt belongs to stays what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpodyn.tasks.task import Examples, Task

if TYPE_CHECKING:
    from datasets import Dataset

PLACE: Final = "{prompt}"
"""Where the prompt goes; other braces are themselves."""


def present(prompt: str, template: str) -> str:
    """Return a prompt in a template.

    >>> present("2+2=", "Add {up}: {prompt}?")
    'Add {up}: 2+2=?'
    """
    return template.replace(PLACE, prompt)


class Presented:
    """A task behind a template."""

    def __init__(self, task: Task, template: str) -> None:
        self._task, self.template = task, template

    @property
    def name(self) -> str:
        """The task's own."""
        return self._task.name

    def split(self, name: str) -> Examples:
        """Return the examples of one split."""
        plain = self._task.split(name)
        return Examples(tuple(present(prompt, self.template) for prompt in plain.prompts), plain.answers)

    def to_dataset(self, split: str) -> Dataset:
        """Return the split as a `datasets.Dataset`."""
        return self._task.to_dataset(split).map(lambda row: {"prompt": present(row["prompt"], self.template)})
