"""Where the reward is going, and what is going wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.rule import rules
from grpodyn.figures.text import counted
from grpodyn.reporting.blocks import Block, Level, Sentence, Table, Verdict
from grpodyn.reporting.numbers import ranged, shown

_VERDICTS: dict[str, tuple[str, Level]] = {
    "rising": ("Yes, the reward is still rising", "good"),
    "plateau": ("No, the reward is on a plateau", "note"),
    "schedule_limited": ("Not any more: the learning rate's schedule may hold the reward", "note"),
    "falling": ("No, the reward is falling", "warning"),
    "no_trend": ("No trend can be told from the noise", "note"),
    "cannot_tell_yet": ("That cannot be told yet", "unknown"),
    "fault": ("No, and there are signs of a fault", "critical"),
}


def forecast(course: Any) -> Block:
    """Say where a reward is going; `course` is a `RewardCourse`."""
    found = course.forecast
    answer, level = _VERDICTS.get(found.verdict, (found.verdict, "unknown"))
    more = []
    if found.level is not None:
        more.append(f"now {ranged(found.level)}")
    if found.final is not None and course.ahead is not None and found.last_step < (found.max_steps or 0):
        more.append(f"{ranged(found.final)} expected at step {found.max_steps}")
    if found.saving is not None and found.stop_step is not None:
        more.append(f"less than {shown(found.epsilon)} is left to gain from step {found.stop_step} on")
    tail = f" ({'; '.join(more)})" if more else ""
    return Verdict("Is the reward still rising?", f"{answer}{tail}.", level, because=(*found.why, *found.notes))


def forecast_table(course: Any) -> Iterator[Block]:
    """Tabulate a forecast's numbers and the forms that were fitted; `course` is a `RewardCourse`."""
    found = course.forecast
    rows = (
        ("reward now", ranged(found.level)),
        (f"reward at step {found.max_steps}", ranged(found.final)),
        ("asymptote", ranged(found.asymptote)),
        ("gain that is left", ranged(found.remaining_gain)),
        ("slow start until step", ranged(found.phases.slow, ".0f")),
        ("rapid phase from step", ranged(found.phases.rapid, ".0f")),
        ("plateau from step", ranged(found.phases.plateau, ".0f")),
        ("step from which little is left", "–" if found.stop_step is None else str(found.stop_step)),
    )
    told = tuple(row for row in rows if row[1] != "–")
    if told:
        yield Table("Forecast, with 80 % intervals", ("", "value"), told)
    if found.candidates:
        best = min(one.aicc for one in found.candidates)
        fits = tuple(
            (one.model, f"+{one.aicc - best:.1f}", shown(one.r2), _parameters(one.parameters), one.rejected)
            for one in found.candidates
        )
        yield Table("Forms that were fitted", ("form", "AICc", "R²", "parameters", "not identified"), fits, folded=True)


def findings(found: Any) -> Iterator[Block]:
    """Say what is going wrong; `found` is a `Diagnosis`."""
    yield Verdict("Is anything going wrong?", _found(found), _level(found), because=tuple(found.incomplete))
    rows = tuple(
        (
            rules()[one.id].title,
            one.severity,
            "–" if one.onset_step is None else str(one.onset_step),
            "; ".join(one.evidence),
            " ".join(patches.settings_of(one.patch)) if one.patch else (one.config_key or "–"),
        )
        for one in found.findings
    )
    if rows:
        yield Table("Findings", ("finding", "severity", "since step", "evidence", "change"), rows)
    if found.unchecked:
        reasons: dict[str, list[str]] = {}
        for one in found.unchecked:
            reasons.setdefault(one.why, []).append(one.id)
        lacking = tuple((", ".join(ids), why) for why, ids in reasons.items())
        yield Table("Not checked, for want of data", ("finding", "why"), lacking, folded=True)
    if not found.checked:
        yield Sentence("no rule could be checked: the record holds nothing that they look at", missing=True)


def _found(found: Any) -> str:
    if not found.checked:
        return "That cannot be told: no rule could be checked."
    if not found.findings:
        return f"Nothing was found by the {counted(len(found.checked), 'rule')} that could be checked."
    titles = [
        f"{rules()[one.id].title} ({one.severity}{_since(one.onset_step)})"
        for one in found.findings
        if one.severity != "info"
    ]
    if not titles:
        return f"No fault; {counted(len(found.findings), 'thing')} worth knowing: see below."
    return f"{'; '.join(titles)}."


def _since(step: int | None) -> str:
    return "" if step is None else f", since step {step}"


def _level(found: Any) -> Level:
    if not found.checked:
        return "unknown"
    levels: dict[str, Level] = {"critical": "critical", "warning": "warning", "info": "note"}
    return levels.get(found.worst or "", "good")


def _parameters(values: Any) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())
