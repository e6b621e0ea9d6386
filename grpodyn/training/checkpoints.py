"""Checkpoints: one at least every two minutes, and finding the last one that is whole."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

FOLDER = "checkpoints"
"""Name inside a run directory."""
SECONDS_BETWEEN = 120.0

_NAME = re.compile(r"checkpoint-(\d+)")
# The trainer writes it after everything that resuming needs: if it is whole, so is the rest.
_WRITTEN_LAST = "trainer_state.json"


class CheckpointClock(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Asks for a checkpoint when the last one is too long ago, whatever the step count says."""

    def __init__(self, seconds: float = SECONDS_BETWEEN, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._last = clock()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start to count."""
        self._last = self._clock()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Ask for a checkpoint if one is due."""
        if args.save_strategy != "no" and self._clock() - self._last >= self._seconds:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count from here."""
        self._last = self._clock()


def last_whole(folder: Path) -> tuple[int, Path] | None:
    """Return the step and the path of the last checkpoint that was written to its end, or None."""
    return max(_whole(folder), default=None)


def remove_partial(folder: Path) -> list[Path]:
    """Delete the checkpoints that a kill left half written, so that they do not count among those kept."""
    whole = {path for _, path in _whole(folder)}
    partial = [path for path in _all(folder).values() if path not in whole]
    for path in partial:
        shutil.rmtree(path)
    return partial


def _whole(folder: Path) -> list[tuple[int, Path]]:
    return [(step, path) for step, path in _all(folder).items() if _state_step(path) == step]


def _all(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return {int(match[1]): path for match, path in named if match is not None}


def _state_step(checkpoint: Path) -> int | None:
    try:
        state = json.loads((checkpoint / _WRITTEN_LAST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state.get("global_step") if isinstance(state, dict) else None
