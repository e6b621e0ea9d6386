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
"""Parts are called the place of the gain if they hold this share of it together, measured together …"""
SURELY_MOST = 0.5
"""… and the interval of what they hold stays above this one."""
FEW = 0.25
"""A word that names a place names no more than this share of all parts, a block of layers counted by its layers (one
part and two single ones are always few)."""
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
    size: int = 1
    """How many layers are in it, of a block of layers."""
    is_target: bool = True
    """Whether LoRA on linear modules reaches it."""

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
    confirmed: bool | None = None
    """Whether fresh prompts showed the named parts again; None where no part is named."""


def decide(gain: Interval, equivalence: Interval, effects: Sequence[Effect], together: Effect | None = None) -> Verdict:
    """Return the verdict on a partition.

    Args:
        gain: trained − base, in accuracy.
        equivalence: the same with the level of two one-sided tests (0.90).
        effects: the parts, with simultaneous intervals.
        together: the parts that `to_measure` names, changed and put back together.
    """
    whole = of_the_gain(gain, equivalence)
    if whole is not None:
        return whole
    if not effects:
        return Verdict("too noisy", (), "no part was tested")
    harmful, others = _split(effects)
    rest = _of_the_parts(others, effects, together)
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


def to_measure(effects: Sequence[Effect]) -> tuple[str, ...]:
    """Return the parts that are called the place of the gain if they hold it together, which has to be measured.

    Effects of single parts do not say what several hold together: parts that need each other, or stand in for each
    other, do not add up. None where the verdict does not hang on it.
    """
    _, others = _split(effects)
    if _several(others, effects) is not None:
        return ()
    place = _place(others, effects)
    return tuple(e.name for e in place) if len(place) > 1 else ()


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


def _split(effects: Sequence[Effect]) -> tuple[list[Effect], list[Effect]]:
    """Return the harmful parts, and the others."""
    harmful = [e for e in effects if e.lost.value <= -HARM and e.lost.high < 0]
    return harmful, [e for e in effects if e not in harmful]


def _of_the_parts(effects: Sequence[Effect], every: Sequence[Effect], together: Effect | None) -> Verdict:
    if not effects:
        return Verdict("distributed", (), "no other part holds anything")
    if len(every) == 1:
        return Verdict("distributed", (), f"all that has changed is {every[0].name}: there is nothing to tell it from")
    several = _several(effects, every)
    if several is not None:
        return several
    place = _place(effects, every)
    union = together if len(place) > 1 else next(iter(place), None)
    return _localised(place, union, effects, every) or _not_localised(place, union, effects)


def _localised(
    place: Sequence[Effect], union: Effect | None, effects: Sequence[Effect], every: Sequence[Effect]
) -> Verdict | None:
    if union is not None and _surely_most(union, parts=len(place)):
        names = tuple(e.name for e in place)
        return Verdict("localised", names, f"{holding(names)} {union.share.value:.2f} of the gain")
    # One part may surely hold half where it and others do not hold most of it.
    for top in _place(effects, every, most=1):
        if _surely_most(top, parts=1):
            return Verdict("localised", (top.name,), f"{holding([top.name])} {top.share.value:.2f} of the gain")
    return None


def _not_localised(place: Sequence[Effect], union: Effect | None, effects: Sequence[Effect]) -> Verdict:
    names = [e.name for e in place]
    widest = max(_half_width(e) for e in effects)
    if place and union is None:
        return Verdict("too noisy", (), f"what {listed(names)} hold together was not measured")
    if union is not None and union.share.value >= MOST:
        said = f"{holding(names)} {union.share.value:.2f} of the gain, but {union.share.low:.2f} to "
        return Verdict("too noisy", (), f"{said}{union.share.high:.2f}: use more prompts")
    if not widest < WIDE:
        return Verdict("too noisy", (), f"the intervals reach ± {widest:.2f} of the gain, too wide to tell parts apart")
    seen = f": {holding(names)} {union.share.value:.2f} of it" if union is not None else ""
    return Verdict("distributed", (), f"no part, and no few parts, hold most of the gain{seen}")


def _several(effects: Sequence[Effect], every: Sequence[Effect]) -> Verdict | None:
    """Return the verdict where a few parts can stand in for each other, or need each other."""
    enough = [e for e in effects if e.enough]
    needed = [e for e in effects if e.needed]
    spare = [e for e in enough if small(e.lost)]
    idle = [e for e in needed if small(e.kept)]
    if len(spare) >= 2 and len(spare) == len(enough) and _few(spare, every) and _lead(spare, effects, "kept"):
        names = _by_strength(spare)
        return Verdict("redundant", names, f"{listed(names)} are each enough alone, and none of them is needed")
    if len(idle) >= 2 and len(idle) == len(needed) and _few(idle, every) and _lead(idle, effects, "lost"):
        names = _by_strength(idle)
        return Verdict("joint", names, f"{listed(names)} are all needed, and none of them does it alone")
    return None


def _place(effects: Sequence[Effect], every: Sequence[Effect], most: int | None = None) -> list[Effect]:
    """Return the fewest parts that may hold most of the gain together.

    Each surely holds some, and more than an equal share; they are few, and not all that could be named; and each
    surely holds more than any part that is not named. If their shares do not add up to most of the gain, as many as are
    so: what they hold together may still be most of it.
    """
    ranked = sorted(effects, key=lambda e: -e.share.value)
    size = sum(e.size for e in every)
    found: list[Effect] = []
    for count, effect in enumerate(ranked[:most], start=1):
        named = ranked[:count]
        equal = LEADS * effect.size / size
        if not effect.share.low > 0 or effect.share.value < min(equal, LARGE):
            break
        if not _few(named, every) or _all(named, every):
            break
        if _lead(named, effects, "share"):
            found = named
            if sum(e.share.value for e in named) >= MOST:
                break
    return found


def _few(named: Sequence[Effect], every: Sequence[Effect]) -> bool:
    return len(named) == 1 or sum(e.size for e in named) <= max(2, math.floor(FEW * sum(e.size for e in every)))


def _all(named: Sequence[Effect], every: Sequence[Effect]) -> bool:
    """Whether nothing that could be named is left: neither of all parts nor of those that LoRA reaches."""
    nameable = {e.name for e in every if e.is_target} or {e.name for e in every}
    return nameable <= {e.name for e in named}


def _lead(named: Sequence[Effect], effects: Sequence[Effect], by: Literal["kept", "lost", "share"]) -> bool:
    """Whether each named part surely has a larger effect than each other one.

    The intervals hold at once, so where two do not overlap the larger is the larger. A block of many layers has to lead
    one of few by more: by as much as if the effects of layers added up.
    """
    names = {e.name for e in named}
    others = [e for e in effects if e.name not in names]

    def leads(one: Effect, other: Effect) -> bool:
        larger = max(1.0, one.size / other.size) if one.is_target and other.is_target else 1.0
        low, high = getattr(one, by).low, getattr(other, by).high
        return bool(low > max(0.0, high) * larger)

    return all(leads(one, other) for one in named for other in others)


def _surely_most(union: Effect, parts: int) -> bool:
    """Whether parts are the place of the gain; a single one also if it is only surely half of it."""
    return surely_most(union.share) and (parts == 1 or union.share.value >= MOST)


def surely_most(share: Interval) -> bool:
    """Whether the interval of a share supports that it is most of the gain."""
    return share.low > SURELY_MOST


def holding(names: Sequence[str]) -> str:
    """Return names with the verb that fits them.

    >>> holding(["layer 3"]), holding(["layer 3", "layer 5"])
    ('layer 3 holds', 'layer 3 and layer 5 together hold')
    """
    return f"{listed(names)} {'holds' if len(names) == 1 else 'together hold'}"


def small(interval: Interval) -> bool:
    """Whether an effect is small, and surely not large."""
    return interval.value <= SURELY and interval.high < LARGE


def _large(interval: Interval) -> bool:
    return interval.value >= LARGE and interval.low > SURELY


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
