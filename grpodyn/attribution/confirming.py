"""A verdict held to prompts that took no part in naming its parts. Pure: no model, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grpodyn.attribution import shares, verdict
from grpodyn.attribution.shares import Partition
from grpodyn.attribution.verdict import Verdict
from grpodyn.statistics import Interval


def checked(found: Verdict, confirmed: Partition | None, notes: list[str]) -> Verdict:
    """Return the verdict with the figures of fresh prompts, or a weaker one if those do not show it again.

    Args:
        found: the verdict on the prompts of `choose`.
        confirmed: the named parts on those of `confirm`, their union last; None if they were not measured there.
        notes: what was lost is noted here.
    """
    if not found.parts:
        return found
    beside = f"{found.beside} (on the prompts of `choose` alone)" if found.beside else ""
    if confirmed is None:
        return replace(found, beside=beside, confirmed=False)
    single = [s for s in confirmed.shares if s.part.name in found.parts]
    whole = confirmed.shares[-1].share
    holds = {
        "localised": verdict.surely_most(whole),
        "redundant": all(s.kept.low > verdict.SURELY and verdict.small(s.lost) for s in single),
        "joint": all(s.lost.low > verdict.SURELY and verdict.small(s.kept) for s in single),
        "harmful": all(s.lost.value < 0 for s in single) and min(s.lost.high for s in single) < 0,
    }[found.word]
    if holds:
        return replace(found, text=_confirmed_text(found, single, whole), beside=beside, confirmed=True)
    notes.append(f"on the prompts of `choose` the verdict was {found.word} ({found.text}); on those of `confirm` not")
    if found.word == "localised" and whole.value < verdict.MOST:
        seen = f"{verdict.holding(found.parts)} {_shown(whole)} on fresh prompts"
        return Verdict("distributed", (), f"no part, and no few parts, surely hold most of the gain: {seen}")
    return Verdict("too noisy", (), "what the prompts of `choose` name does not show again on those of `confirm`")


def _confirmed_text(found: Verdict, single: Sequence[shares.PartShare], whole: Interval) -> str:
    """Return a verdict's sentence with the figures of prompts that took no part in naming the parts."""
    if found.word == "localised":
        return f"{verdict.holding(found.parts)} {_shown(whole)} of the gain on fresh prompts"
    if found.word == "harmful":
        worst = min((s.lost for s in single), key=lambda lost: lost.value)
        better = Interval(-worst.value, -worst.high, -worst.low, worst.level)
        what = f"without the change of {verdict.listed(found.parts)} accuracy is higher"
        return f"{what}, on fresh prompts by up to {_shown(better)} of the gain"
    return f"{found.text}, on fresh prompts too"


def _shown(interval: Interval) -> str:
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
