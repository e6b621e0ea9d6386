"""What a run lost beside what it gained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpodyn.reporting.blocks import Block, Level, Sentence, Table, Verdict
from grpodyn.reporting.numbers import percent, ranged, shown

_TOP = 5


def retention(found: Any) -> Iterator[Block]:
    """Say what was lost; `found` is a `Forgetting`."""
    worse = [f"perplexity of {one.text} × {ranged(one.ratio)}" for one in found.perplexity if one.ratio.low > 1]
    worse += [
        f"accuracy of {one.name} {ranged(one.difference, '+.3f')}" for one in found.stages if one.difference.high < 0
    ]
    measured = len(found.perplexity) + len(found.stages)
    answer = "No loss can be told from what was measured."
    level: Level = "good"
    if worse:
        answer, level = f"Yes: {'; '.join(worse)}.", "warning"
    elif not measured:
        answer, level = (
            "Neither texts nor earlier stages were measured; how far the policy moved stands below.",
            "unknown",
        )
    yield Verdict("Did the model forget anything?", answer, level, because=(*found.notes, found.no_cause))
    rows = tuple(
        (f"perplexity, {one.text}", shown(one.before, ".4g"), shown(one.after, ".4g"), f"× {ranged(one.ratio)}")
        for one in found.perplexity
    ) + tuple(
        (f"stage {one.name}", shown(one.before), shown(one.after), ranged(one.difference, "+.3f"))
        for one in found.stages
    )
    if rows:
        yield Table("Before and after, with 95 % intervals", ("", "before", "after", "change"), rows)
    if found.kl:
        last = found.kl[-1]
        yield Sentence(
            f"Drift from the start at step {last.step}: {ranged(last.forward_kl)} nats a completion, "
            f"{shown(last.per_token)} a token."
        )
    if found.layers:
        top = sorted(found.layers.items(), key=lambda pair: -pair[1])[:_TOP]
        named = ", ".join(f"{name} {percent(share)}" for name, share in top)
        yield Sentence(f"Largest shares of displacement meanwhile: {named}.")
