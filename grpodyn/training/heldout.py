"""Held-out accuracy and what else is retained, before, during and after training, into the run's `evaluations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import TrainerCallback

from grpodyn.config.run import EvaluateConfig
from grpodyn.evaluation import held_out_accuracy, kept_losses
from grpodyn.evaluation.kept_losses import Kept
from grpodyn.evaluation.retention import DRIFT, PERPLEXITY, STAGE, Retention
from grpodyn.recording.recorder import is_first_rank
from grpodyn.tasks import Examples
from grpodyn.training.display import Display
from grpodyn.training.sampled import SampledTest


class EvaluationSink(Protocol):
    """What keeps evaluations; the recorder does."""

    run_dir: Path
    """Where losses by window and prompt are kept."""

    @property
    def recorded(self) -> bool:
        """Whether `run_dir` holds what has been recorded."""
        ...

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
        examples: Examples | None,
        tokenizer: Any,
        sink: EvaluationSink,
        display: Display,
        base_is_known: bool = False,
        retention: Retention | None = None,
        sampled: SampledTest | None = None,
    ) -> None:
        self._config = config
        self._examples = examples
        self._tokenizer = tokenizer
        self._sink = sink
        self._display = display
        self._base_is_known = base_is_known
        self._retention = retention
        self._sampled = sampled

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure the base; a run that goes on has that already."""
        at_start = state.global_step == 0
        if self._retention is not None:
            try:
                self._retention.begin(model, self._sink.run_dir, at_start, is_first_rank() and self._sink.recorded)
            except OSError as error:
                self._display.say(f"the answers of the base are not kept ({error}): after a resume there is no drift")
        if at_start and not self._base_is_known:
            self._measure(0, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure if it is time to, and at the last step; not when somebody waits for the run to stop."""
        step, every = state.global_step, self._config.every
        if step >= state.max_steps or (every is not None and step % every == 0):
            self._measure(step, model)

    def _measure(self, step: int, model: Any) -> None:
        # One evaluation is one row of the trace.
        metrics: dict[str, float] = {}
        if self._examples is not None:
            measured = held_out_accuracy(
                model, self._tokenizer, self._examples, self._config.temperatures, self._config.batch_size
            )
            metrics |= measured.metrics()
            self._display.say(
                f"step {step}: held-out accuracy {measured.accuracy:.3f} at T=1, {measured.greedy:.3f} greedy, "
                f"{measured.best:.3f} at its best temperature ({measured.best_temperature:g}), {measured.n} prompts"
            )
        if self._sampled is not None:
            found = self._sampled.measure(model)
            metrics |= found.metrics()
            self._display.say(
                f"step {step}: held-out pass@1 {found.accuracy:.3f} of {found.samples} samples, {found.greedy:.3f} "
                f"greedy, {found.truncated:.3f} cut off, {found.prompts} prompts"
            )
        if self._retention is not None:
            retained = self._retention.measure(model, step)
            metrics |= retained.metrics
            self._keep(step, retained.kept)
            self._display.say(f"step {step}: {_in_words(retained.metrics)}")
        self._sink.add_evaluation(step, metrics)

    def _keep(self, step: int, kept: Sequence[Kept]) -> None:
        if not (is_first_rank() and self._sink.recorded):
            return
        try:
            kept_losses.append(self._sink.run_dir, kept)
        except OSError as error:
            # A full disk ends no training; the means are in the trace if that could be written.
            self._display.say(f"step {step}: losses by window are not kept ({error})")


def _in_words(metrics: Mapping[str, float]) -> str:
    said = [
        f"perplexity of {name.removeprefix(PERPLEXITY)} {value:.3f}"
        for name, value in metrics.items()
        if name.startswith(PERPLEXITY)
    ]
    said += [
        f"{name.removeprefix(STAGE).removesuffix('/accuracy')} {value:.3f}"
        for name, value in metrics.items()
        if name.startswith(STAGE) and name.endswith("/accuracy")
    ]
    if DRIFT in metrics:
        said.append(f"KL from the start {metrics[DRIFT]:.3f} nats a completion")
    return ", ".join(said)
