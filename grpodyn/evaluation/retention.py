"""What a model can still do besides its task: fixed texts, earlier stages, and how far its policy has moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grpodyn.evaluation import kept_losses
from grpodyn.evaluation.answer_scores import score_answers
from grpodyn.evaluation.drift import StartSamples, forward_drift, sample_start
from grpodyn.evaluation.kept_losses import Kept
from grpodyn.evaluation.perplexity import window_losses
from grpodyn.evaluation.text import HeldOutText, Windows, windows
from grpodyn.tasks import Examples

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PERPLEXITY = "perplexity/"
WORD_PERPLEXITY = "word_perplexity/"
DRIFT = "kl/forward"
DRIFT_PER_TOKEN = "kl/forward_per_token"  # noqa: S105  # no password
STAGE = "stage/"


@dataclass(frozen=True)
class Stage:
    """Prompts of an earlier stage of training, or of another task, with their right answers."""

    name: str
    examples: Examples


@dataclass(frozen=True)
class Measured:
    """One look at what was retained."""

    metrics: Mapping[str, float]
    """As a row of the `evaluations` group takes them."""
    kept: tuple[Kept, ...]
    """Window by window and prompt by prompt, so that changes can be judged on pairs."""


@dataclass
class Retention:
    """Measures a model beside its task, always on the same windows and prompts.

    Args:
        tokenizer: of the model.
        texts: what perplexity is measured on.
        window: tokens of a window.
        most_windows: windows of each text at most.
        stages: what is tested again.
        drift_prompts: prompts of the task that drift is measured on; none for no drift.
        max_new_tokens: where a completion is cut off.
        batch_size: prompts of a forward pass.

    Raises:
        ConfigError: the tokenizer does not know a text.
    """

    tokenizer: PreTrainedTokenizerBase
    texts: Sequence[HeldOutText] = ()
    window: int = 256
    most_windows: int = 200
    stages: Sequence[Stage] = ()
    drift_prompts: Sequence[str] = ()
    max_new_tokens: int = 512
    batch_size: int = 256
    _cut: list[tuple[HeldOutText, Windows]] = field(init=False, repr=False)
    _start: StartSamples | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self._cut = [(text, windows(text, self.tokenizer, self.window, self.most_windows)) for text in self.texts]

    def begin(self, model: Any, run_dir: Path, at_start: bool, keep: bool) -> None:
        """Sample the starting policy, or take up again what a run that goes on has sampled.

        Args:
            model: the model.
            run_dir: the run.
            at_start: whether the model is still the one that training starts from.
            keep: whether to write what it answered into the run.

        Raises:
            OSError: it cannot be written; drift is measured all the same until the run ends.
        """
        if not self.drift_prompts:
            return
        if at_start:
            self._start = sample_start(
                model,
                self.tokenizer,
                self.drift_prompts,
                max_new_tokens=self.max_new_tokens,
                batch_size=self.batch_size,
            )
            if keep:
                kept_losses.write_start(run_dir, self._start)
        else:
            self._start = kept_losses.read_start(run_dir)

    def measure(self, model: Any, step: int) -> Measured:
        """Return what the model retains at a step."""
        metrics: dict[str, float] = {}
        kept: list[Kept] = []
        for text, cut in self._cut:
            losses = window_losses(model, cut)
            metrics[f"{PERPLEXITY}{text.name}"] = losses.perplexity
            if not math.isnan(losses.word_perplexity):
                metrics[f"{WORD_PERPLEXITY}{text.name}"] = losses.word_perplexity
            kept.append(Kept.of_text(step, text, losses))
        for stage in self.stages:
            scores = score_answers(
                model, self.tokenizer, stage.examples.prompts, stage.examples.answers, (1.0,), self.batch_size
            )
            right = np.exp(scores.log_probability[0])
            metrics[f"{STAGE}{stage.name}/accuracy"] = float(right.mean())
            metrics[f"{STAGE}{stage.name}/greedy_accuracy"] = float(scores.greedy.mean())
            kept.append(Kept.of_stage(step, stage.name, right))
        if self._start is not None:
            drift = forward_drift(model, self._start)
            metrics[DRIFT] = drift.per_completion
            metrics[DRIFT_PER_TOKEN] = drift.per_token
            kept.append(Kept.of_drift(step, drift))
        return Measured(metrics, tuple(kept))
