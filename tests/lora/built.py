"""Patch tests and ablations as their files hold them, made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpodyn.ablation import results
from grpodyn.attribution.result import Attribution, PartitionSums, PartResult, Range, TruncationResult, VerdictResult
from grpodyn.statistics import Interval

SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def within(value: float, half: float = 0.05) -> Range:
    return Range(value=value, low=value - half, high=value + half, level=0.95)


def part(name: str, kept: float, lost: float, partition: str, **fields: Any) -> PartResult:
    return PartResult(
        partition=partition,
        part=name,
        kind="layer" if partition == "layers" else "module",
        keep_only=within(0.1 + 0.5 * kept),
        put_back=within(0.6 - 0.5 * lost),
        kept=within(kept),
        lost=within(lost),
        share=within((kept + lost) / 2),
        tensors=7,
        **{"is_target": True, **fields},
    )


def attribution(
    word: str = "localised",
    named: tuple[str, ...] = ("layer 3",),
    layers: Mapping[int, tuple[float, float]] | None = None,
    types: Mapping[str, tuple[float, float]] | None = None,
    ranks: Mapping[int, float] | None = None,
    leading: str = "layers",
    **fields: Any,
) -> Attribution:
    by_layer = layers if layers is not None else {i: (0.9, 0.9) if i == 3 else (0.01, 0.01) for i in range(6)}
    by_type = types if types is not None else dict.fromkeys(SEVEN, (0.2, 0.1))
    parts = [part(f"layer {i}", *effect, "layers", layers=(i,), stack="model.layers") for i, effect in by_layer.items()]
    parts += [part("embeddings", 0.02, 0.01, "layers", is_target=False)]
    parts += [part(name, *effect, "modules") for name, effect in by_type.items()]
    kept = ranks if ranks is not None else {1: 0.5, 2: 0.8, 4: 0.97, 8: 0.99}
    reading = VerdictResult(word=word, parts=named, text=f"{', '.join(named) or 'nothing'} hold it")
    return Attribution(
        created_at="2026-01-01T00:00:00+00:00",
        sources={"evaluator": "exact", "prompts": {"choose": {"prompts": 500, "sha256": "0"}}},
        base=within(0.1),
        final=within(0.6),
        gain=within(0.5),
        greedy={"base": 0.0, "final": 0.7},
        parts=tuple(parts),
        partitions=(PartitionSums(name="layers", kept_sum=within(0.95), lost_sum=within(0.95)),),
        truncation=tuple(
            TruncationResult(rank=r, accuracy=within(0.1 + 0.5 * k), kept=within(k)) for r, k in kept.items()
        ),
        shapley=None,
        null=(),
        confirm=(),
        verdict=word,
        reading=reading,
        verdicts={leading: reading},
        leading=leading,
        resolution=0.05,
        evaluations=40,
        tokens=1000,
        seconds=3.0,
        notes=(),
        **fields,
    )


def interval(value: float, half: float = 0.02) -> Interval:
    return Interval(value, value - half, value + half, 0.95)


def arm(name: str, size: int, kept: float, lora: Mapping[str, Any], rate: float = 3e-6) -> results.ArmResult:
    return results.ArmResult(
        task="t",
        arm=name,
        what=name,
        trainable_params=size,
        lora=lora,
        learning_rate=rate,
        rates_tried={"1e-06": 0.4, "3e-06": 0.5, "9e-06": 0.45},
        at_edge=False,
        seeds=tuple(range(10)),
        accuracy=interval(0.1 + 0.5 * kept),
        greedy=interval(0.6),
        best=interval(0.6),
        pass_at={},
        gain_kept=interval(kept),
        steps_to_level=interval(40, 5),
        reached=10,
        kl=interval(0.1 if name == "advised" else 0.2),
        skill_gain=interval(0.3),
        perplexity_ratio={},
        seconds=8.0 if name == "advised" else 10.0,
        failed=(),
    )


def ablation(kind: results.VerdictKind, needs: int | None = None) -> results.Ablation:
    placed = {"r": 8, "lora_alpha": 32, "target_modules": list(SEVEN), "layers_to_transform": [3]}
    everywhere = {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"}
    compared = results.Comparison(
        "t", "advised", "all-linear", "not_worse", 10, interval(-0.01), 0.03, 0.01, 0.03, 0.015, kind, needs
    )
    return results.Ablation(
        schema_version=results.VERSION,
        name="a",
        verdict=f"{kind}: advised against all-linear",
        verdict_kind=kind,
        reading=(),
        candidate="advised",
        bases=(),
        arms=(arm("advised", 7424, 0.97, placed), arm("all-linear", 89_088, 1.0, everywhere)),
        comparisons=(compared,),
        level=0.95,
        alpha=0.05,
        protocol_sha256="",
        splits={},
        trained=40,
        missing=0,
        notes=(),
    )
