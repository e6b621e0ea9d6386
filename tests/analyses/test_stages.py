"""Stages beside each other, held to a run whose stages were set by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError
from grpodyn.reporting import words
from grpodyn.trace.reader import Run
from tests.simulation.staged_run import write_staged_run
from tests.simulation.whole_run import write_whole_run


def analyse(run: Run) -> Any:
    return registry.analysis("stages").run(run)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return analyse(write_staged_run(tmp_path_factory.mktemp("stages") / "run", layers=3))


def test_each_stage_has_what_was_measured_at_its_two_ends(found: Any) -> None:
    sft, grpo = found.stages
    assert (sft.name, sft.kind, sft.start, sft.end, sft.outcome) == ("sft", "sft", 0, 10, "done")
    assert (grpo.name, grpo.kind, grpo.start, grpo.end, grpo.outcome) == ("grpo", "grpo", 10, 30, "done")
    # Accuracy is step/100 and the perplexity 10 + step/10.
    assert (sft.before.accuracy, sft.after.accuracy) == (0.0, pytest.approx(0.1))
    assert (grpo.before.accuracy, grpo.after.accuracy) == (pytest.approx(0.1), pytest.approx(0.3))
    assert grpo.perplexity == {"prose": (pytest.approx(11.0), pytest.approx(13.0))}
    assert found.accuracy == ((0, 0.0), (10, pytest.approx(0.1)), (30, pytest.approx(0.3)))


def test_what_a_stage_moved_is_no_difference_of_displacements(found: Any) -> None:
    sft, grpo = found.stages
    # Layer l is at (l+1)·1e-5·step of ‖W₀‖; the second stage was noted to have moved every layer by 1, of ‖W₀‖ = √6·10.
    assert np.allclose(sft.displacement, 1e-4 * np.array([1, 2, 3]), rtol=1e-5)
    assert sft.moved == sft.displacement
    assert np.allclose(grpo.displacement, 3e-4 * np.array([1, 2, 3]), rtol=1e-5)
    assert np.allclose(grpo.moved, 1 / (math.sqrt(6) * 10), rtol=1e-5)


def test_spectra_are_the_median_over_a_layers_matrices(found: Any) -> None:
    # Matrices of a layer have 1, 2 and 9 times the step.
    assert found.stages[0].spectral_shift == pytest.approx([0.02] * 3)
    assert found.stages[1].spectral_shift == pytest.approx([0.06] * 3)
    assert not found.notes


def test_what_is_missing_is_said_with_what_would_record_it(tmp_path: Path) -> None:
    found = analyse(write_staged_run(tmp_path / "run", layers=2, noted={"moved_unknown": "no hard link"}, bare=True))
    assert all(math.isnan(value) for value in found.stages[1].moved)
    assert any("grpo moved by itself is not known: no hard link" in note for note in found.notes)
    assert any("record.every.spectral_shift=0" in note for note in found.notes)
    assert any("evaluate.texts" in note for note in found.notes)
    table = next(block for block in words.stages(found) if hasattr(block, "columns"))
    assert "moved by the stage itself" in [row[0] for row in table.rows]
    assert not any("nan" in cell for row in table.rows for cell in row)


def test_a_stage_that_goes_on_is_shown_so_far(tmp_path: Path) -> None:
    found = analyse(write_staged_run(tmp_path / "run", layers=2, ended=False))
    assert found.stages[1].outcome is None
    assert found.stages[1].end == 30
    assert all(math.isnan(value) for value in found.stages[1].moved)
    assert not [note for note in found.notes if "by itself" in note], "it is not over"
    (verdict,) = [block for block in words.stages(found) if hasattr(block, "question")]
    assert "grpo (steps 10–30, not ended)" in verdict.answer


def test_a_run_without_stages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="not trained in stages"):
        analyse(write_whole_run(tmp_path / "run", layers=1, steps=2))


def test_a_manifest_of_other_types_breaks_nothing(tmp_path: Path) -> None:
    found = analyse(write_staged_run(tmp_path / "run", layers=2, noted={"moved": {"model.layers.0": "far", "x": 1}}))
    assert all(math.isnan(value) for value in found.stages[1].moved)
