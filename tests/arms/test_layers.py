"""Where arms moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.arms.arm import Arm
from grpodyn.arms.layers import compare_layers, layer_shares
from tests.simulation.recorded import record


def arm(tmp_path: Path, label: str, *layers: tuple[float, ...]) -> Arm:
    runs = [record(tmp_path / f"{label}{i}", layers={1: [9, 9, 9], 5: row}) for i, row in enumerate(layers)]
    return Arm(label, tuple(runs))


def test_shares_are_of_the_last_whole_record(tmp_path: Path) -> None:
    run = record(tmp_path / "run", layers={1: [1, 1, 2], 5: [1, 1, 8], 6: [1, float("nan"), 1]})
    shares = layer_shares(run)
    assert list(shares.values()) == pytest.approx([0.1, 0.1, 0.8])
    assert list(shares) == ["model.layers.0", "model.layers.1", "model.layers.2"]


def test_arms_that_move_elsewhere_are_told_apart(tmp_path: Path) -> None:
    a = arm(tmp_path, "G=4", (1, 1, 2), (1, 1.02, 2), (1, 0.98, 2))
    b = arm(tmp_path, "G=16", (2, 1, 1), (2, 1.02, 1), (2, 0.98, 1))
    found = compare_layers([a, b])
    assert [one.separation.separable for one in found.shares] == [True, False, True]
    assert found.shares[0].mean == pytest.approx(0.5, abs=0.01)
    assert found.notes[0].startswith("G=16 moves elsewhere than G=4, in shares of displacement: model.layers.0 (0.250")


def test_arms_that_move_alike(tmp_path: Path) -> None:
    a = arm(tmp_path, "G=4", (1, 1, 2), (1, 1.2, 2), (1, 0.8, 2))
    b = arm(tmp_path, "G=16", (1, 1.1, 2), (1, 1.3, 2), (1, 0.7, 2))
    (note,) = compare_layers([a, b]).notes
    assert note.startswith("G=16 and G=4 move alike as far as can be told")
    assert "not separable" in note


def test_without_the_probe_a_sentence_says_so(tmp_path: Path) -> None:
    bare = Arm("G=16", (record(tmp_path / "bare", metrics={1: {"reward": 0.1}}),))
    found = compare_layers([arm(tmp_path, "G=4", (1, 1, 2)), bare])
    assert found.shares == ()
    assert "bare lack layer_delta; record the probe" in found.notes[0]
