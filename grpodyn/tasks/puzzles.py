"""The generators of reasoning-gym, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic import Field

from grpodyn.config.validation import StrictModel
from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.tasks.rows import Row, RowsTask


class PuzzleOptions(StrictModel):
    """Which puzzles."""

    generator: str
    """A name of reasoning-gym's, such as `chain_sum`."""
    size: int = Field(default=2000, ge=10)
    """Puzzles generated; the same one twice counts once."""
    seed: int = Field(default=0, ge=0)
    settings: dict[str, Any] = Field(default_factory=dict)
    """The generator's own, such as `min_terms`."""


class ReasoningGym(RowsTask):
    """`entry` tells the reward `reasoning_gym` which puzzle it was: the generator itself judges the answer.

    Raises:
        ConfigError: reasoning-gym is not installed, or refuses the settings.
        UnknownNameError: it has no such generator.
    """

    name = "reasoning_gym"
    options_type = PuzzleOptions
    template = "{prompt}\nWrite the final answer between <answer> and </answer>."

    def rows(self) -> tuple[Iterable[Row], None]:
        """Return the puzzles."""
        made = self._generated()
        settings = {"seed": self.options.seed, "size": self.options.size, **self.options.settings}
        entry = {"generator": self.options.generator, "settings": settings}
        return (
            {
                "prompt": str(puzzle["question"]),
                "answer": "" if puzzle["answer"] is None else str(puzzle["answer"]),
                "entry": json.dumps(entry | {"index": index}),
            }
            for index, puzzle in enumerate(made)
        ), None

    def _generated(self) -> Any:
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError as error:
            raise ConfigError(f"the task {self.name} needs reasoning-gym: pip install 'grpodyn[tasks]'") from error
        generator, settings = self.options.generator, self.options.settings
        if generator not in DATASETS:
            raise UnknownNameError.among("generator of reasoning-gym", generator, DATASETS)
        try:
            made = reasoning_gym.create_dataset(generator, seed=self.options.seed, size=self.options.size, **settings)
            made[0]  # some settings fail only here
        # Its checks are assertions, and what they let through ends in whatever the generator runs into.
        except (AssertionError, TypeError, ValueError, KeyError, IndexError) as error:
            raise ConfigError(
                f"reasoning-gym's generator {generator!r} refuses task.options.settings {settings!r}: {error}"
            ) from error
        return made
