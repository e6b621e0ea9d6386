"""Figures of a part that was chosen by its figures come from prompts that took no part in choosing it."""

from __future__ import annotations

from pathlib import Path

from grpodyn.attribution.result import Attribution, PartitionSums, PartResult, Range, VerdictResult, read, write
from grpodyn.lora import statements, stored


def within(value: float) -> Range:
    return Range(value=value, low=value - 0.05, high=value + 0.05, level=0.95)


def part(name: str, kept: float, lost: float, partition: str = "layers") -> PartResult:
    return PartResult(
        partition=partition,
        part=name,
        kind="layer",
        keep_only=within(0.5),
        put_back=within(0.5),
        kept=within(kept),
        lost=within(lost),
        share=within((kept + lost) / 2),
        is_target=True,
        tensors=7,
    )


def attribution() -> Attribution:
    reading = VerdictResult(word="localised", parts=("layer 3",), text="layer 3 holds it", confirmed=True)
    return Attribution(
        created_at="2026-01-01T00:00:00+00:00",
        sources={"evaluator": "exact", "prompts": {"choose": {"prompts": 500, "sha256": "0"}}},
        base=within(0.1),
        final=within(0.6),
        gain=within(0.5),
        greedy={},
        parts=(part("layer 3", 0.95, 0.93), part("layer 5", 0.02, 0.01)),
        partitions=(PartitionSums(name="layers", kept_sum=within(0.97), lost_sum=within(0.94)),),
        truncation=(),
        shapley=None,
        null=(),
        confirm=(part("layer 3", 0.81, 0.77, "confirm"),),
        verdict="localised",
        reading=reading,
        verdicts={"layers": reading},
        leading="layers",
        resolution=0.05,
        evaluations=40,
        tokens=1000,
        seconds=3.0,
        notes=(),
    )


def test_a_named_part_is_shown_with_the_figures_of_fresh_prompts() -> None:
    lines = {line.statistic: line for line in statements.of_patch_test(stored.of(attribution()))}
    named = lines["put_back_layer 3"]
    assert named.value == 0.77
    assert "alone keeps 0.81 of the gain" in named.statement
    assert named.statement.endswith("on prompts that took no part in choosing it")
    # The others were not chosen by theirs, and were not measured again.
    other = lines["put_back_layer 5"]
    assert other.value == 0.01
    assert "took no part" not in other.statement


def test_a_file_from_before_does_not_say_whether_its_verdict_was_confirmed(tmp_path: Path) -> None:
    file = tmp_path / "attribution.json"
    write(file, attribution())
    assert read(file).reading.confirmed is True
    file.write_text(file.read_text().replace('"confirmed": true', '"was": 1'))
    assert read(file).reading.confirmed is None
