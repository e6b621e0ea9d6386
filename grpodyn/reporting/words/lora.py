"""Which adapter to train next, where this run's change is stored, and what trained adapters gave."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from grpodyn.lora.rungs import RUNG_NAMES
from grpodyn.reporting.blocks import Block, Command, Level, Sentence, Table, Verdict
from grpodyn.reporting.numbers import percent, ranged, shown


def advice(found: Any) -> Iterator[Block]:
    """Say which adapter to train next; `found` is an `Advice`."""
    yield Verdict(
        "Which adapter should the next run train?",
        f"{found.verdict[:1].upper()}{found.verdict[1:]}.",
        "good" if found.rung > 1 else "note",
        because=(
            f"rests on rung {found.rung} of 3, {RUNG_NAMES[found.rung]}",
            f"smallest difference it could have seen: {found.smallest_difference}",
            *found.warnings,
        ),
    )
    config, training = found.peft_config, found.training
    rows = [
        ("rank, alpha", f"{config.get('r')}, {config.get('lora_alpha')}"),
        ("target modules", ", ".join(f"{name} × {count}" for name, count in found.target_counts.items())),
        ("sits on", found.where),
        ("trainable parameters", f"{found.trainable_params:,} of {found.all_linear_params:,} (all linear, same rank)"),
        ("covers", f"{percent(found.coverage)} of the weights of the blocks"),
        ("learning rate", _rate(training)),
    ]
    yield Table("The advised adapter, as PEFT resolves it", ("", "value"), tuple(rows))
    told = tuple(
        (one.statement, ranged_over(one), ", ".join(one.references)) for one in found.evidence if not one.is_spread
    )
    if told:
        yield Table("What it rests on", ("statement", "value, range over the run", "references"), told)
    conflicts = tuple((one.topic, "; ".join(one.positions), one.here) for one in found.conflicts)
    if conflicts:
        yield Table("Where studies disagree", ("topic", "positions", "here"), conflicts, folded=True)
    yield Sentence(f"Next cheapest experiment: {found.next_experiment.question}")
    for command in found.next_experiment.commands:
        yield Command(command)
    yield Sentence(found.next_experiment.reading)


def ranged_over(one: Any) -> str:
    """Return a statement's number with its range over windows of the run."""
    if math.isnan(one.value):
        return "–"
    return shown(one.value) if math.isnan(one.low) else f"{shown(one.value)} ({shown(one.low)} to {shown(one.high)})"


def contribution(found: Any) -> Iterator[Block]:
    """Say where a run's change is stored; `found` is an `Attribution`."""
    because = [found.reading.beside] if found.reading.beside else []
    if found.baseline is not None:
        because.append(
            f"the base at its best temperature ({found.baseline['temperature']:g}) reaches "
            f"{shown(found.baseline['accuracy'])}, the trained model {ranged(found.final)}: so much is confidence alone"
        )
    because += ["where a change is stored need not be where the next run should train: an ablation tells", *found.notes]
    yield Verdict(
        "Where is what the run learned stored?",
        f"{found.verdict}: {found.reading.text}.",
        "note",
        because=tuple(because),
    )
    for name, title in (("modules", "module type"), ("layers", "layer")):
        rows = tuple(
            (
                part.part if part.is_target else f"{part.part} (no LoRA target)",
                ranged(part.keep_only),
                ranged(part.put_back),
                ranged(part.kept, ".2f"),
                ranged(part.lost, ".2f"),
            )
            for part in found.of_partition(name)
        )
        if rows:
            columns = (title, "keep only", "put back", "kept alone", "lost without")
            yield Table(f"Accuracy and share of the gain by {title}", columns, rows, folded=name == "layers")


def adapters(found: Any) -> Iterator[Block]:
    """Say what adapters gave that were trained against each other; `found` is an `Ablation`."""
    levels: dict[str, Level] = {"confirmed": "good", "refuted": "warning"}
    yield Verdict(
        "Does the advice hold when it is trained?",
        found.verdict if found.verdict.endswith(".") else f"{found.verdict}.",
        levels.get(found.verdict_kind, "unknown"),
        because=(*found.reading, *found.notes),
    )
    rows = tuple(
        (
            f"{arm.arm}, {arm.task}",
            f"{arm.trainable_params:,}",
            f"{arm.learning_rate:g}",
            ranged(arm.accuracy),
            ranged(arm.greedy),
            ranged(arm.gain_kept, ".2f"),
        )
        for arm in found.arms
    )
    columns = ("arm", "trainable parameters", "learning rate", "accuracy, T=1", "greedy", "gain kept")
    yield Table("Arms, each at its own best learning rate; intervals over seeds", columns, rows)
    compared = tuple(
        (f"{one.a} − {one.b}, {one.task}", ranged(one.difference, "+.3f"), shown(one.p_holm), one.outcome)
        for one in found.comparisons
    )
    if compared:
        yield Table("Comparisons, paired by seed", ("arms", "difference", "p, Holm", "outcome"), compared)


def _rate(training: Any) -> str:
    if training.learning_rate is None:
        return str(training.basis)
    span = "" if training.low is None or training.low == training.high else f" ({training.low:g} to {training.high:g})"
    return f"{training.learning_rate:g}{span}: {training.basis}"
