"""What moved, when, how straight, and in how many directions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from grpodyn.figures.text import counted
from grpodyn.reporting.blocks import Block, Sentence, Table, Verdict
from grpodyn.reporting.numbers import percent, shown

_MOST_LAYERS = 100


def dynamics(found: Any) -> Iterator[Block]:
    """Say what of the layers' movement is missing; `found` is a `LayerDynamics`."""
    for note in found.notes:
        yield Sentence(note, missing=True)


def movement(found: Any) -> Iterator[Block]:
    """Say where a run moved, and that this is no contribution; `found` is a `Movement`."""
    most = max(found.modules, key=_share, default=None)
    layer = max(found.layers, key=_share, default=None)
    answer = "Nothing moved."
    if most is not None and layer is not None and not math.isnan(_share(most)):
        answer = (
            f"Most in {most.group} ({percent(_share(most))} of the squared displacement) and in layer {layer.group} "
            f"({percent(_share(layer))} of it, {percent(1 / len(found.layers))} being an equal part)."
        )
    yield Verdict(
        "Where did the weights move?",
        answer,
        "note",
        because=("this is movement, which is no contribution to the reward", *found.notes),
    )
    yield _groups("module type", found.modules)
    if len(found.layers) <= _MOST_LAYERS:
        yield _groups("layer", found.layers, folded=True)
    if found.ranks is not None:
        ranks = found.ranks
        cap = "" if math.isnan(ranks.share_of_cap) else f", {percent(ranks.share_of_cap)} of the adapter's rank"
        yield Sentence(
            f"At step {ranks.step} the displacement has an effective rank of {shown(ranks.effective_rank)} in the "
            f"median of {ranks.matrices} matrices ({shown(ranks.effective_rank_low)} to "
            f"{shown(ranks.effective_rank_high)}){cap}; {shown(ranks.energy_rank_90)} directions hold "
            "90 % of its energy."
        )


def path(found: Any) -> Iterator[Block]:
    """Say how straight the way was; `found` is a `PathAndDisplacement`."""
    known = [way.coherence[-1] for way in found.layers or found.tensors if math.isfinite(way.coherence[-1])]
    if known:
        yield Sentence(
            f"Displacement over path length at step {found.steps[-1]} lies between {shown(min(known))} and "
            f"{shown(max(known))}: 1 is a straight line, a walk at random of as many steps gives about "
            f"{shown(1 / math.sqrt(max(found.steps[-1], 1)))}."
        )
    for note in found.notes:
        yield Sentence(note)


def rank_notes(found: Any) -> Iterator[Block]:
    """Say what limits the ranks; `found` is a `RankCourse`."""
    if len(found.steps) < 3:
        yield Sentence(f"{counted(len(found.steps), 'sweep')} recorded, at step {', '.join(map(str, found.steps))}.")
    for note in found.notes:
        yield Sentence(note)


def _share(group: Any) -> float:
    return float(group.displacement_share)


def _groups(name: str, groups: Any, folded: bool = False) -> Table:
    columns = (name, "displacement", "share", "relative", "path", "coherence", "gradient share", "effective rank")
    rows = tuple(
        (
            str(one.group),
            shown(one.displacement),
            percent(one.displacement_share),
            shown(one.relative_displacement),
            shown(one.path),
            shown(one.coherence, ".2f"),
            percent(one.gradient_share),
            shown(one.effective_rank),
        )
        for one in groups
    )
    return Table(f"Movement by {name}", columns, rows, folded)
