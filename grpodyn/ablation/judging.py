"""From the comparisons of all tasks to one verdict in words; p is adjusted for all primary comparisons. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from grpodyn.ablation.outcome import TaskOutcome, one_sided, smallest_seen
from grpodyn.ablation.plan import TaskPlan
from grpodyn.ablation.protocol import ADVISED, TEMPERATURE, Study
from grpodyn.ablation.results import VERSION, Ablation, ArmResult, Base, Comparison, VerdictKind
from grpodyn.ablation.schedule import Find
from grpodyn.errors import UsageError
from grpodyn.statistics import holm, required_pairs


def conclude(
    study: Study,
    plans: Sequence[TaskPlan],
    find: Find,
    *,
    protocol_sha256: str,
    trained: int,
    notes: Sequence[str] = (),
) -> Ablation:
    """Return the result of a study as far as it has come.

    Args:
        study: the protocol.
        plans: its tasks.
        find: looks a job up among the records.
        protocol_sha256: of the protocol's file.
        trained: how many trainings there are.
        notes: what did not go as planned.
    """
    outcomes = [TaskOutcome(study.testing(plan.candidate), plan, find) for plan in plans]
    primary = [pair for outcome in outcomes for pair in outcome.primary()]
    adjusted = holm([comparison.p for comparison, _ in primary])
    # That the opposite holds is a finding too, and asks for the same correction.
    opposite = holm([_opposite(comparison, differences) for comparison, differences in primary])
    judged = [
        _judged(replace(comparison, p_holm=p), differences, against, study.alpha, len(primary))
        for (comparison, differences), p, against in zip(primary, adjusted, opposite, strict=True)
    ]
    kind, verdict = _verdict(judged)
    descriptive = [comparison for outcome in outcomes for comparison in outcome.described()]
    bases = [base for outcome in outcomes if (base := outcome.base()) is not None]
    arms = [arm for outcome in outcomes for arm in outcome.arms()]
    return Ablation(
        schema_version=VERSION,
        name=study.name,
        verdict=verdict,
        verdict_kind=kind,
        reading=tuple(_reading(judged)),
        candidate=plans[0].candidate if len({plan.candidate for plan in plans}) == 1 else "",
        bases=tuple(bases),
        arms=tuple(arms),
        comparisons=(*judged, *descriptive),
        level=study.measure.level,
        alpha=study.alpha,
        protocol_sha256=protocol_sha256,
        splits={plan.name: dict(plan.setup["splits"]) for plan in plans},
        trained=trained,
        missing=sum(outcome.missing for outcome in outcomes),
        notes=(*notes, *_notes(plans, bases, arms)),
    )


def _opposite(of: Comparison, differences: Sequence[float]) -> float:
    return math.nan if of.outcome == "not tested" else one_sided(differences, "less")


def _judged(of: Comparison, differences: Sequence[float], against: float, alpha: float, family: int) -> Comparison:
    if of.outcome == "not tested":
        return of
    # At the strictest level that Holm may ask for, as `needs_seeds`.
    of = replace(of, smallest_seen=smallest_seen(differences, alpha / family))
    if of.p_holm < alpha:
        return replace(of, outcome="confirmed")
    if against < alpha:
        return replace(of, outcome="refuted")
    return replace(of, needs_seeds=_needs(differences, alpha, family))


def _needs(differences: Sequence[float], alpha: float, family: int) -> int | None:
    """Seeds at which a difference as found would show, at the strictest level that Holm may ask for."""
    if len(differences) < 2 or fmean(differences) <= 0 or stdev(differences) == 0:
        return None
    try:
        pairs = required_pairs(fmean(differences), stdev(differences), level=1 - alpha / family, two_sided=False)
    except UsageError:
        return None
    return max(len(differences) + 1, pairs)


def _verdict(primary: Sequence[Comparison]) -> tuple[VerdictKind, str]:
    tested = [comparison for comparison in primary if comparison.outcome != "not tested"]
    if any(comparison.outcome == "refuted" for comparison in tested):
        return "refuted", "refuted"
    if not primary:
        return "not tested", "not tested: the study makes no primary comparison"
    if len(tested) < len(primary):
        return "not tested", f"not tested: {len(tested)} of {len(primary)} primary comparisons have results"
    still_open = [comparison for comparison in tested if comparison.outcome == "not separable"]
    return ("not separable", _not_separable(still_open)) if still_open else ("confirmed", "confirmed")


def _not_separable(still_open: Sequence[Comparison]) -> str:
    seeds = min(comparison.seeds for comparison in still_open)
    start = f"not separable at {seeds} seed{'' if seeds == 1 else 's'}"
    if seeds < 2:
        return f"{start}: one seed has no error bar"
    needs = [comparison.needs_seeds for comparison in still_open]
    known = [number for number in needs if number is not None]
    if len(known) < len(needs):
        return f"{start}: the difference found points the other way"
    return f"{start}: needs about {max(known)}"


def _reading(primary: Sequence[Comparison]) -> list[str]:
    lines = []
    for c in primary:
        claim = "not worse than" if c.test == "not_worse" else "better than"
        if c.outcome == "not tested":
            why = "no result (an arm is missing, or both are one adapter)"
            if c.seeds and not math.isnan(c.difference.value):
                why = f"not judged before all seeds are there; {c.difference} over {c.seeds} so far"
            lines.append(f"{c.task}: {c.a} {claim} {c.b}: {why}")
            continue
        margin = f" (margin {c.margin:.3f})" if c.test == "not_worse" else ""
        line = f"{c.task}: {c.a} {claim} {c.b}{margin}: {c.outcome}; difference {c.difference}, {c.seeds} seeds"
        if not math.isnan(c.p_holm):
            line += f", p {c.p:.3g} (Holm {c.p_holm:.3g})"
        if c.outcome == "not separable" and not math.isnan(c.smallest_seen):
            line += f"; this many seeds show {c.smallest_seen:.3f} or more in 8 of 10 studies"
        lines.append(line)
    return lines


def _notes(plans: Sequence[TaskPlan], bases: Sequence[Base], arms: Sequence[ArmResult]) -> list[str]:
    notes = [f"{plan.name}: {note}" for plan in plans for note in plan.notes]
    notes += [f"{plan.name}: no arm {arm}: {why}" for plan in plans for arm, why in plan.impossible.items()]
    for plan in plans:
        if plan.candidate != ADVISED:
            notes.append(
                f"{plan.name}: the advice is all-linear itself, or there is none; {plan.candidate} is tested in its "
                f"place, at {plan.budget:,} of {plan.all_linear_parameters:,} parameters"
            )
    notes += [f"{arm.task}: a training of {arm.arm} failed: {why}" for arm in arms for why in arm.failed]
    by_task = {base.task: base for base in bases}
    for arm in arms:
        base = by_task.get(arm.task)
        if base is not None and arm.arm != TEMPERATURE and arm.accuracy.value <= base.best:
            notes.append(
                f"{arm.task}: {arm.arm} reaches {arm.accuracy.value:.3f}, the untouched base {base.best:.3f} at T="
                f"{base.best_temperature:g}: a temperature alone does as much"
            )
        if arm.at_edge:
            notes.append(
                f"{arm.task}: the best learning rate of {arm.arm} ({arm.learning_rate:g}) is the last one tried"
            )
    return notes
