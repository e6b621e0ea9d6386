"""Held-out accuracy before, during and after training, into the run's `evaluations`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from transformers import TrainerCallback

from grpodyn.config.run import EvaluateConfig
from grpodyn.evaluation import held_out_accuracy
from grpodyn.tasks import Examples
from grpodyn.training.display import Display


class EvaluationSink(Protocol):
    """What keeps evaluations; the recorder does."""

    def add_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep what was measured at a step."""
        ...


class EvaluateHeldOut(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Measures the base before the first step, then every so many steps, and at the last step.

    Each time at T=1, greedily, and over a grid of temperatures: what a temperature alone gives is not learning.
    Must come after the recorder among the callbacks: what is measured before the first step needs a recorder that has
    begun.
    """

    def __init__(
        self,
        config: EvaluateConfig,
        examples: Examples,
        tokenizer: Any,
        sink: EvaluationSink,
        display: Display,
        base_is_known: bool = False,
    ) -> None:
        self._config = config
        self._examples = examples
        self._tokenizer = tokenizer
        self._sink = sink
        self._display = display
        self._base_is_known = base_is_known

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the base; a run that goes on has that already."""
        if state.global_step == 0 and not self._base_is_known:
            self._measure(0, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure if it is time to, and at the last step; not when somebody waits for the run to stop."""
        step, every = state.global_step, self._config.every
        if step >= state.max_steps or (every is not None and step % every == 0):
            self._measure(step, model)

    def _measure(self, step: int, model: Any) -> None:
        measured = held_out_accuracy(
            model, self._tokenizer, self._examples, self._config.temperatures, self._config.batch_size
        )
        self._sink.add_evaluation(step, measured.metrics())
        self._display.say(
            f"step {step}: held-out accuracy {measured.accuracy:.3f} at T=1, {measured.greedy:.3f} greedy, "
            f"{measured.best:.3f} at its best temperature ({measured.best_temperature:g}), {measured.n} prompts"
        )
