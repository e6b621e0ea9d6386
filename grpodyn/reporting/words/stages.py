"""What each stage of a run taught and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median
from typing import Any

from grpodyn.reporting.blocks import Block, Level, Sentence, Table, Verdict
from grpodyn.reporting.numbers import shown


def stages(found: Any) -> Iterator[Block]:
    """Set the stages of a run side by side; `found` is a `Stages`."""
    yield Verdict("What did each stage do?", _told(found), _level(found), because=found.notes)
    texts = list(dict.fromkeys(name for one in found.stages for name in one.perplexity))
    retested = list(found.retested)
    columns = ("", *(f"{place}. {one.name}" for place, one in enumerate(found.stages, 1)))
    rows = [
        ("kind", [one.kind for one in found.stages]),
        ("steps", [f"{one.start}–{one.end}" for one in found.stages]),
        ("ended", [_ended(one) for one in found.stages]),
        ("last test of the stage", [shown(one.test) for one in found.stages]),
        ("held-out accuracy, T=1", [_change(one.before.accuracy, one.after.accuracy) for one in found.stages]),
        ("held-out accuracy, greedy", [_change(one.before.greedy, one.after.greedy) for one in found.stages]),
    ]
    rows += [(f"perplexity, {name}", [_of(one.perplexity, name, ".4g") for one in found.stages]) for name in texts]
    rows += [(f"again: {name}", [_of(one.retested, name) for one in found.stages]) for name in retested]
    rows += [
        ("moved by the stage itself", [_layers(one.moved) for one in found.stages]),
        ("moved since the beginning", [_layers(one.displacement) for one in found.stages]),
        ("spectral shift since the beginning", [_layers(one.spectral_shift) for one in found.stages]),
    ]
    told = tuple((name, *cells) for name, cells in rows if any(cell != "–" for cell in cells))
    yield Table("Stage beside stage; of layers the median, and the least and the greatest", columns, told)
    kinds = {one.kind for one in found.stages}
    if kinds == {"sft", "grpo"} and not math.isfinite(found.level):
        yield Sentence(
            "Steps of fine-tuning and of GRPO are not alike in tokens, learning rate or optimizer state: how far each "
            "moved is a fact about these settings, not about the methods."
        )


def _told(found: Any) -> str:
    return "; ".join(_line(one) for one in found.stages) + "."


def _line(stage: Any) -> str:
    parts = [f"{stage.name} (steps {stage.start}–{stage.end}, {_ended(stage)})"]
    if math.isfinite(stage.after.accuracy):
        parts.append(f"held-out accuracy {_change(stage.before.accuracy, stage.after.accuracy)}")
    parts += [f"perplexity of {name} {shown(a)} → {shown(b)}" for name, (a, b) in stage.perplexity.items()]
    return parts[0] + (f": {', '.join(parts[1:])}" if parts[1:] else "")


def _ended(stage: Any) -> str:
    return "not ended" if stage.outcome is None else str(stage.outcome).replace("_", " ")


def _level(found: Any) -> Level:
    if any(one.outcome in ("stalled", "not_viable") for one in found.stages):
        return "warning"
    return "note"


def _change(before: float, after: float, form: str = ".3g") -> str:
    if math.isnan(before) and math.isnan(after):
        return "–"
    return f"{shown(before, form)} → {shown(after, form)}"


def _of(measured: Any, name: str, form: str = ".3g") -> str:
    before, after = measured.get(name, (math.nan, math.nan))
    return _change(before, after, form)


def _layers(values: Any) -> str:
    known = [value for value in values if math.isfinite(value)]
    return f"{shown(median(known))} ({shown(min(known))} to {shown(max(known))})" if known else "–"
