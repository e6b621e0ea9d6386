"""Held-out accuracy comes back from a run's `evaluations` as it was stored."""

import math
from pathlib import Path

from grpodyn import open_run
from grpodyn.evaluation import HeldOutAccuracy
from grpodyn.evaluation.records import HeldOut, held_out_by_step
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter

BASE = HeldOutAccuracy(n=10, by_temperature={0.0: 0.1, 1.0: 0.2, 2.0: 0.3})
TRAINED = HeldOutAccuracy(n=10, by_temperature={0.0: 0.9, 1.0: 0.8, 2.0: 0.5})


def written(run_dir: Path, *rows: tuple[int, dict[str, float]]) -> dict[int, HeldOut]:
    writer = TraceWriter.create(run_dir, Manifest())
    writer.add_row("metrics", 1, {"loss": 0.5})
    for step, metrics in rows:
        writer.add_row("evaluations", step, metrics)
    writer.close("finished")
    return held_out_by_step(open_run(run_dir))


def test_what_is_measured_comes_back(tmp_path: Path) -> None:
    found = written(tmp_path / "run", (0, BASE.metrics()), (7, TRAINED.metrics()))
    assert found == {0: HeldOut(0, 0.2, 0.1, 2.0, 0.3), 7: HeldOut(7, 0.8, 0.9, 0.0, 0.9)}


def test_of_a_step_that_was_evaluated_twice_the_later_counts(tmp_path: Path) -> None:
    found = written(tmp_path / "run", (5, BASE.metrics()), (5, TRAINED.metrics()))
    assert found == {5: HeldOut(5, 0.8, 0.9, 0.0, 0.9)}


def test_one_evaluation_in_two_rows_among_the_trainers_own(tmp_path: Path) -> None:
    parts = [{name: value} for name, value in BASE.metrics().items()]
    found = written(tmp_path / "run", *((3, part) for part in parts), (4, {"eval_loss": 0.1}))
    assert found == {3: HeldOut(3, 0.2, 0.1, 2.0, 0.3)}


def test_a_run_without_evaluations_holds_none(tmp_path: Path) -> None:
    assert written(tmp_path / "run") == {}
    assert math.isnan(HeldOut(-1).accuracy)
