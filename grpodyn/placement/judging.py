"""How much gain is lost by choosing with a predictor, judged by training each part alone. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.stats import spearmanr

from grpodyn.ablation.results import Ablation, ArmResult
from grpodyn.placement.parts import FAMILIES, Family, Scores, family, of_arm

LEAST_PARTS = 3
"""Fewer trained parts than this are no choice."""


@dataclass(frozen=True)
class Predictor:
    """A way to choose a part before training it."""

    name: str
    source: str
    """What has to be there: two checkpoints, a trace …"""
    share: float = 1.0
    """Of the source run that it looks at."""


@dataclass(frozen=True)
class Choice:
    """What one predictor comes to on one task."""

    predictor: Predictor
    task: str
    family: Family
    leader: str
    """The part of the highest score among those that were trained."""
    lost: float
    """Accuracy that the best part gains more than the leader."""
    lost_share: float
    """The same as a share of the best part's gain."""
    correlation: float
    """Spearman's, of scores and gains over parts; nan where all scores are equal or a trained part has none."""


@dataclass(frozen=True)
class LeftOut:
    """Choosing the predictor too: the best one on all other tasks, scored on the one left out."""

    family: Family
    task: str
    chosen: tuple[Predictor, ...]
    """All that lose equally little on the others."""
    lost_share: float
    """The mean over these."""


def gains(result: Ablation) -> dict[str, dict[str, float]]:
    """Return task → part → accuracy gained by an adapter on it alone at its best rate; unfinished arms absent."""
    bases = {base.task: base.accuracy for base in result.bases}
    found: dict[str, dict[str, float]] = {task: {} for task in bases}
    for task, part, arm in _parts(result):
        found[task][part] = arm.accuracy.value - bases[task]
    return found


def half_widths(result: Ablation) -> dict[str, dict[str, float]]:
    """Return task → part → half of the 95 % interval of its accuracy over seeds; nan for one seed."""
    found: dict[str, dict[str, float]] = {base.task: {} for base in result.bases}
    for task, part, arm in _parts(result):
        found[task][part] = (arm.accuracy.high - arm.accuracy.low) / 2
    return found


def _parts(result: Ablation) -> Iterator[tuple[str, str, ArmResult]]:
    tasks = {base.task for base in result.bases}
    for arm in result.arms:
        part = of_arm(arm.arm)
        if part is not None and arm.task in tasks and not math.isnan(arm.accuracy.value):
            yield arm.task, part, arm


def choose(predictor: Predictor, task: str, scores: Scores, gained: Mapping[str, float]) -> list[Choice]:
    """Return what following a predictor gains on a task, by layers and by module types.

    Parts without a score are not chosen; a family in which fewer than three parts were trained, none gains anything or
    none has a score, is left out.
    """
    found = []
    for kind in FAMILIES:
        trained = {part: gain for part, gain in gained.items() if family(part) == kind}
        known = [part for part in trained if math.isfinite(scores.get(part, math.nan))]
        if len(trained) < LEAST_PARTS or not known or max(trained.values()) <= 0:
            continue
        # Of equal scores the first part in the order of training, which no gain decides.
        leader = max(known, key=lambda part: scores[part])
        best = max(trained.values())
        lost = best - trained[leader]
        found.append(
            Choice(
                predictor=predictor,
                task=task,
                family=kind,
                leader=leader,
                lost=lost,
                lost_share=lost / best,
                correlation=_correlation(scores, trained),
            )
        )
    return found


def by_chance(task: str, gained: Mapping[str, float]) -> dict[Family, float]:
    """Return the share of the best part's gain that a part drawn at random loses on average."""
    found: dict[Family, float] = {}
    for kind in FAMILIES:
        values = [gain for part, gain in gained.items() if family(part) == kind]
        if len(values) >= LEAST_PARTS and max(values) > 0:
            found[kind] = fmean((max(values) - value) / max(values) for value in values)
    return found


def leave_one_out(choices: Sequence[Choice]) -> list[LeftOut]:
    """Return, for each task, what the predictor that loses least on all other tasks loses on it.

    Only predictors that say something of every task take part.
    """
    found = []
    for kind in FAMILIES:
        of_kind = [choice for choice in choices if choice.family == kind]
        tasks = list(dict.fromkeys(choice.task for choice in of_kind))
        table = {
            predictor: {choice.task: choice.lost_share for choice in of_kind if choice.predictor == predictor}
            for predictor in dict.fromkeys(choice.predictor for choice in of_kind)
        }
        whole = {predictor: lost for predictor, lost in table.items() if set(lost) == set(tasks)}
        if len(tasks) < 2 or not whole:
            continue
        for task in tasks:
            elsewhere = {p: fmean(lost for other, lost in of.items() if other != task) for p, of in whole.items()}
            least = min(elsewhere.values())
            chosen = tuple(p for p, lost in elsewhere.items() if math.isclose(lost, least, abs_tol=1e-12))
            found.append(LeftOut(kind, task, chosen, fmean(whole[p][task] for p in chosen)))
    return found


def _correlation(scores: Scores, gained: Mapping[str, float]) -> float:
    known = [scores.get(part, math.nan) for part in gained]
    if not all(map(math.isfinite, known)) or len(set(known)) < 2 or len(set(gained.values())) < 2:
        return math.nan
    return float(spearmanr(known, list(gained.values())).statistic)
