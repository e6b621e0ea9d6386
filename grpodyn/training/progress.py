"""The callback that feeds a display from the trainer's events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback

from grpodyn.training.display import SHOWN_METRICS, Display, Moment


class ProgressDisplay(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Shows step, reward, entropy, completion length, the recorder's cost and the time left.

    Args:
        display: where to show it.
        recorder_fraction: returns the recorder's share of the step time so far.
    """

    def __init__(self, display: Display, recorder_fraction: Callable[[], float]) -> None:
        self._display = display
        self._recorder_fraction = recorder_fraction
        self._metrics: dict[str, float] = {}
        self._first_step = 0
        self._started = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Remember where the run starts, so that a resumed one estimates from its own speed."""
        self._first_step = state.global_step
        self._started = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show the step that has just ended, unless its log comes next and shows it."""
        if not control.should_log:
            self._show(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Show what the trainer logs of a step; its closing log at the end is of no step."""
        values = {key: (logs or {}).get(key) for key in SHOWN_METRICS}
        self._metrics |= {key: float(value) for key, value in values.items() if isinstance(value, int | float)}
        if logs is not None and "loss" in logs:
            self._show(state)

    def _show(self, state: Any) -> None:
        if not state.is_world_process_zero:
            return
        done = state.global_step - self._first_step
        elapsed = time.monotonic() - self._started
        left = elapsed / done * (state.max_steps - state.global_step) if done else math.nan
        self._display.show(
            Moment(state.global_step, state.max_steps, dict(self._metrics), self._recorder_fraction(), left)
        )
