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
from grpodyn.evaluation.skill_gain import EntropyMatch, SkillGain, match_temperature, skill_gain
from grpodyn.evaluation.token_entropy import token_entropy

__all__ = [
    "TEMPERATURES",
    "AnswerScores",
    "EntropyMatch",
    "HeldOutAccuracy",
    "SkillGain",
    "exact_accuracy",
    "greedy_accuracy",
    "held_out_accuracy",
    "match_temperature",
    "score_answers",
    "skill_gain",
    "token_entropy",
]
