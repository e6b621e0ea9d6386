"""Held-out accuracy, exact rather than sampled."""

from __future__ import annotations

from grpodyn.evaluation.accuracy import (
    TEMPERATURES,
    HeldOutAccuracy,
    exact_accuracy,
    greedy_accuracy,
    held_out_accuracy,
)
from grpodyn.evaluation.answer_scores import AnswerScores, score_answers

__all__ = [
    "TEMPERATURES",
    "AnswerScores",
    "HeldOutAccuracy",
    "exact_accuracy",
    "greedy_accuracy",
    "held_out_accuracy",
    "score_answers",
]
