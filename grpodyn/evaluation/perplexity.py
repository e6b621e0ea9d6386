"""Perplexity of fixed text, per token and per word, and by how much it changed, paired over the windows of the text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from grpodyn.errors import UsageError
from grpodyn.evaluation.text import Windows
from grpodyn.evaluation.token_scores import token_log_probabilities
from grpodyn.statistics import Interval
from grpodyn.statistics.means import standard_error
from grpodyn.statistics.samples import Clusters

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WindowLosses:
    """What a model makes of a text, window by window."""

    nats: Floats
    """(windows,): −Σ ln p over the window's scored tokens."""
    tokens: Floats
    """(windows,): scored tokens."""
    words: Floats
    """(windows,): words that begin in them."""

    @property
    def perplexity(self) -> float:
        """exp(Σ nats / Σ tokens)."""
        return _exp(float(self.nats.sum() / self.tokens.sum()))

    @property
    def word_perplexity(self) -> float:
        """exp(Σ nats / Σ words): comparable between tokenizers. nan if no word begins in what is scored."""
        words = float(self.words.sum())
        return _exp(float(self.nats.sum()) / words) if words > 0 else math.nan


def window_losses(model: Any, windows: Windows) -> WindowLosses:
    """Return a model's losses on a text."""
    scores = token_log_probabilities(model, windows.rows)
    return WindowLosses(
        nats=np.array([-float(each.sum()) for each in scores]),
        tokens=np.array([len(each) for each in scores], np.float64),
        words=np.array(windows.words, np.float64),
    )


def perplexity_ratio(before: WindowLosses, after: WindowLosses, level: float = 0.95) -> Interval:
    """Return perplexity after over perplexity before, per token; above 1 is worse.

    exp of the mean change of the loss per token, its interval over windows: the same windows are easy or hard for both,
    which the difference takes out. Windows of one document are taken to be independent.

    Raises:
        UsageError: the two are not of the same windows.
    """
    if before.tokens.shape != after.tokens.shape or (before.tokens != after.tokens).any():
        raise UsageError(
            f"losses of {before.tokens.size} and of {after.tokens.size} windows are not of one text cut alike; measure "
            "both with the same text, tokenizer and window"
        )
    change = Clusters(after.nats - before.nats, before.tokens)
    half = math.nan
    if change.sums.size > 1:
        half = float(student.isf((1 - level) / 2, change.sums.size - 1)) * standard_error(change)
    return Interval(_exp(change.mean), _exp(change.mean - half), _exp(change.mean + half), level)


def _exp(value: float) -> float:
    # A model that broke can be wrong by more nats than a float can say.
    return math.inf if value > 700 else math.exp(value)
