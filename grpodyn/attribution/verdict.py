"""From shares of the gain to one word about a partition. Pure: no model, no torch, no randomness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grpodyn.statistics import Interval

Word = Literal["localised", "distributed", "redundant", "joint", "harmful", "flat", "too noisy"]

NEGLIGIBLE = 0.03
"""A gain that lies inside ± this, in accuracy, is called none (two one-sided tests at 5 %)."""
LARGE = 0.5
"""A part whose effect is at least this share of the gain is enough for it, or needed for it …"""
SURELY = 0.25
"""… if its interval stays above this one; and an effect up to this share is small."""
HARM = 0.15
"""A part without which accuracy rises by this share of the gain, beyond its interval, is harmful."""
MOST = 0.7
"""Parts are called the place of the gain if they hold this share of it together."""
FEW = 0.25
"""… and are no more than this share of all parts (two are always few)."""
LEADS = 2.0
"""A part that is named holds at least so many times an equal share (of very few parts: a large one)."""
WIDE = 0.35
"""Half-width of an interval, in shares of the gain, from which nothing is read off it."""


@dataclass(frozen=True)
class Effect:
    """What a verdict needs to know of one part; all are shares of the gain."""

    name: str
    kept: Interval
    lost: Interval
    share: Interval

    @property
    def enough(self) -> bool:
        """Whether this part alone has most of the gain."""
        return _large(self.kept)

    @property
    def needed(self) -> bool:
        """Whether most of the gain goes without this part."""
        return _large(self.lost)


@dataclass(frozen=True)
class Verdict:
    """One word, the parts it is about, and what it means."""

    word: Word
    parts: tuple[str, ...]
    text: str
    beside: str = ""
    """What holds of the other parts, where a harmful one takes the word."""


def decide(gain: Interval, equivalence: Interval, effects: Sequence[Effect]) -> Verdict:
    """Return the verdict on a partition.

    Args:
        gain: trained − base, in accuracy.
        equivalence: the same with the level of two one-sided tests (0.90).
        effects: the parts, with simultaneous intervals.
    """
    whole = of_the_gain(gain, equivalence)
    if whole is not None:
        return whole
    if not effects:
        return Verdict("too noisy", (), "no part was tested")
    harmful = [e for e in effects if e.lost.value <= -HARM and e.lost.high < 0]
    others = [e for e in effects if e not in harmful]
    rest = _of_the_parts(others, len(effects))
    if not harmful:
        return rest
    names = tuple(e.name for e in sorted(harmful, key=lambda e: e.lost.value))
    worst = min(e.lost.value for e in harmful)
    return Verdict(
        "harmful",
        names,
        f"without the change of {listed(names)} accuracy is higher, by up to {-worst:.2f} of the gain",
        beside=f"of the other parts: {rest.word}" + (f" ({listed(rest.parts)})" if rest.parts else ""),
    )


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> listed(["layer 3"]), listed(["layer 3", "layer 5", "norms"])
    ('layer 3', 'layer 3, layer 5 and norms')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "no part"


def strength(effect: Effect) -> float:
    """Return the largest of a part's effects, whichever way it shows."""
    return max(abs(effect.kept.value), abs(effect.lost.value))


def of_the_gain(gain: Interval, equivalence: Interval) -> Verdict | None:
    """Return the verdict where there is no gain to attribute, else None."""
    if gain.high < 0 and gain.value <= -NEGLIGIBLE:
        return Verdict("harmful", (), f"training lowered accuracy by {-gain.value:.3f}: there is no gain to attribute")
    if equivalence.low > -NEGLIGIBLE and equivalence.high < NEGLIGIBLE:
        return Verdict("flat", (), f"the whole change moves accuracy by less than {NEGLIGIBLE:g}: nothing to attribute")
    if not gain.low > 0:
        return Verdict(
            "too noisy",
            (),
            f"the gain of {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f}) may be none: use more prompts",
        )
    return None


def _of_the_parts(effects: Sequence[Effect], parts: int) -> Verdict:
    if not effects:
        return Verdict("distributed", (), "no other part holds anything")
    enough = [e for e in effects if e.enough]
    needed = [e for e in effects if e.needed]
    spare = [e for e in enough if _small(e.lost)]
    idle = [e for e in needed if _small(e.kept)]
    if len(spare) >= 2 and len(spare) == len(enough):
        names = _by_strength(spare)
        return Verdict("redundant", names, f"{listed(names)} are each enough alone, and none of them is needed")
    if len(idle) >= 2 and len(idle) == len(needed):
        names = _by_strength(idle)
        return Verdict("joint", names, f"{listed(names)} are all needed, and none of them does it alone")
    place = _place(effects, parts)
    if place:
        names = tuple(e.name for e in place)
        held = sum(e.share.value for e in place)
        return Verdict("localised", names, f"{listed(names)} hold{'s' * (len(names) == 1)} {held:.2f} of the gain")
    widest = max(_half_width(e) for e in effects)
    if not widest < WIDE:
        return Verdict("too noisy", (), f"the intervals reach ± {widest:.2f} of the gain, too wide to tell parts apart")
    return Verdict("distributed", (), "no part, and no few parts, hold most of the gain")


def _place(effects: Sequence[Effect], parts: int) -> list[Effect]:
    """Return the fewest parts that hold most of the gain together, if they are few and each surely holds some."""
    at_most = max(2, math.floor(FEW * parts))
    found: list[Effect] = []
    held = 0.0
    for effect in sorted(effects, key=lambda e: -e.share.value)[:at_most]:
        if effect.share.low <= 0 or effect.share.value < min(LEADS / parts, LARGE):
            break
        found.append(effect)
        held += effect.share.value
        if held >= MOST:
            return found
    # One part that is surely large is a place even where parts overlap so much that shares do not add up.
    top = found[:1]
    return top if top and _large(top[0].share) else []


def _large(interval: Interval) -> bool:
    return interval.value >= LARGE and interval.low > SURELY


def _small(interval: Interval) -> bool:
    return interval.value <= SURELY and interval.high < LARGE


def _half_width(effect: Effect) -> float:
    # nan where prompts are too few for any interval: not `< WIDE` then.
    widths = [(i.high - i.low) / 2 for i in (effect.kept, effect.lost)]
    return math.nan if any(math.isnan(w) for w in widths) else max(widths)


def _by_strength(effects: Sequence[Effect]) -> tuple[str, ...]:
    return tuple(e.name for e in sorted(effects, key=lambda e: -strength(e)))


def overall(verdicts: Mapping[str, Verdict]) -> str:
    """Return the name of the partition whose verdict says most; the first given wins ties.

    >>> overall({"layers": Verdict("distributed", (), ""), "modules": Verdict("localised", ("up_proj",), "")})
    'modules'
    """
    order = ("localised", "joint", "redundant", "harmful", "distributed", "flat", "too noisy")
    return min(verdicts, key=lambda name: order.index(verdicts[name].word))
