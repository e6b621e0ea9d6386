"""Figures of a part that was chosen by its figures come from prompts that took no part in choosing it."""

from __future__ import annotations

from pathlib import Path

from grpodyn.attribution.result import Attribution, VerdictResult, read, write
from grpodyn.lora import statements, stored
from tests.lora.built import attribution, part


def confirmed() -> Attribution:
    reading = VerdictResult(word="localised", parts=("layer 3",), text="layer 3 holds it", confirmed=True)
    parts = (part("layer 3", 0.95, 0.93, "layers"), part("layer 5", 0.02, 0.01, "layers"))
    changed = {"parts": parts, "reading": reading, "confirm": (part("layer 3", 0.81, 0.77, "confirm"),)}
    return attribution().model_copy(update=changed)


def test_a_named_part_is_shown_with_the_figures_of_fresh_prompts() -> None:
    lines = {line.statistic: line for line in statements.of_patch_test(stored.of(confirmed()))}
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
    write(file, confirmed())
    assert read(file).reading.confirmed is True
    file.write_text(file.read_text().replace('"confirmed": true', '"was": 1'))
    assert read(file).reading.confirmed is None
