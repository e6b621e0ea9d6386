"""`grpodyn status` and `grpodyn runs`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zarr
from typer.testing import CliRunner

from grpodyn import open_run
from grpodyn.cli.app import build
from grpodyn.errors import UnreadableError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.overview import gaps_of, overview
from grpodyn.trace.writer import TraceWriter

RunMaker = Callable[..., Path]


def grpodyn(*arguments: object) -> str:
    result = CliRunner().invoke(build(), [str(a) for a in arguments], env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def as_json(*arguments: object) -> Any:
    return json.loads(grpodyn(*arguments, "--json"))


def test_json_has_the_stable_keys(make_run: RunMaker) -> None:
    path = make_run(steps=20)
    facts = as_json("status", path)
    assert facts["run_id"] == open_run(path).manifest.run_id
    assert (facts["status"], facts["last_step"], facts["problems"], facts["skipped"]) == ("finished", 20, [], [])
    assert facts["rows"] == {
        "metrics": 20, "tensors": 20, "layers": 20, "spectra": 4, "rollouts": 20, "evaluations": 0,
    }  # fmt: skip
    assert [segment["start_step"] for segment in facts["segments"]] == [0]
    # 20 rows of 0.01 CPU seconds and 1 second each.
    assert facts["recorder"]["seconds"] == pytest.approx(0.2)
    assert facts["recorder"]["fraction_of_step"] == pytest.approx(0.01)


def test_gaps_skipped_and_events_show(synthetic: SimpleNamespace, tmp_path: Path) -> None:
    skipped = [{"what": "rollouts", "why": "no GRPO trainer"}]
    writer = TraceWriter.create(tmp_path / "run", Manifest(recorder={"skipped": skipped}))
    writer.event(0, "not recorded: rollouts", "no GRPO trainer")  # Listed as skipped; not said twice.
    synthetic.declare(writer, 3)
    for step in (1, 5, 10, 15, 30, 35):
        writer.add_row("tensors", step, {"grad_norm": synthetic.probe_row(step, 3)})
        writer.event(step, "grad_norm", "a NaN in model.norm.weight")
    writer.close("finished")
    facts = as_json("status", tmp_path / "run")
    assert facts["gaps"] == [{"group": "tensors", "after": 15, "before": 30}]
    assert facts["skipped"] == skipped
    assert facts["problems"] == ["step 1: grad_norm: a NaN in model.norm.weight (and 5 times more)"]
    shown = grpodyn("status", tmp_path / "run")
    assert "finished at step 35" in shown
    assert "15 → 30" in shown
    assert "not recorded: rollouts: no GRPO trainer" in shown


@pytest.mark.parametrize(
    ("steps", "gaps"),
    [
        ([], []),
        ([7], []),
        ([1, 5, 10, 12], []),  # Every 5, and both ends of a short run.
        ([1, 2, 3, 4, 9, 10], [(4, 9)]),
        ([1, 5, 10, 20, 25, 27], [(10, 20)]),
        ([1, 5, 10, 15, 15, 20, 40], [(20, 40)]),
    ],
)
def test_gaps_are_missing_rows_of_the_cadence(steps: list[int], gaps: list[tuple[int, int]]) -> None:
    assert [(gap.after, gap.before) for gap in gaps_of("tensors", steps)] == gaps


def test_tables_fit_eighty_columns_and_show_markup_as_text(make_run: RunMaker, tmp_path: Path) -> None:
    make_run("[red]a", steps=3)
    make_run("b", steps=3, status=None)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.json").write_text("")
    listed = grpodyn("runs", tmp_path)
    assert max(map(len, listed.splitlines())) <= 80
    assert "[red]a" in listed
    assert "interrupted" in listed
    assert "unreadable" in listed
    shown = grpodyn("status", tmp_path / "[red]a")
    assert "[red]a" in shown.replace("\n", "")
    assert [run["status"] for run in as_json("runs", tmp_path)] == ["finished", "interrupted", "unreadable"]


def test_runs_of_an_empty_and_of_no_folder(tmp_path: Path) -> None:
    assert "holds no runs" in " ".join(grpodyn("runs", tmp_path).split())
    with pytest.raises(UnreadableError, match="is no folder"):
        grpodyn("runs", tmp_path / "nowhere")


def test_repair_says_what_it_did(make_run: RunMaker) -> None:
    path = make_run(status=None)
    (path / "trace.zarr/tensors/grad_norm/c/0/0").write_bytes(b"")
    assert any("empty chunk" in problem for problem in as_json("status", path)["problems"])
    facts = as_json("status", path, "--repair")
    assert any("tensors/grad_norm/c/0/0" in sentence for sentence in facts["repaired"])
    assert facts["problems"] == []
    assert "repaired: nothing to do" in grpodyn("status", path, "--repair")


def test_an_empty_run(tmp_path: Path) -> None:
    TraceWriter.create(tmp_path / "run", Manifest()).close("failed")
    facts = as_json("status", tmp_path / "run")
    assert (facts["status"], facts["last_step"]) == ("empty", -1)
    assert "empty" in grpodyn("status", tmp_path / "run")


@pytest.mark.parametrize("kind", ["absent", "folder", "foreign store"])
def test_what_cannot_be_read_is_exit_code_3_and_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    if kind == "foreign store":
        zarr.create_group(str(path), zarr_format=3)
    before = sorted(tmp_path.rglob("*"))
    command = [sys.executable, "-m", "grpodyn.cli", "status", str(path)]
    if not (Path(__file__).parents[2] / "grpodyn/cli/__main__.py").exists():
        command = [sys.executable, "-c", "from grpodyn.cli.app import main; main()", "status", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert str(path) in done.stderr.replace("\n", "")
    assert sorted(tmp_path.rglob("*")) == before


def test_status_imports_neither_torch_nor_xarray(make_run: RunMaker) -> None:
    path = make_run()
    script = (
        "import sys; from grpodyn.trace.overview import overview; from grpodyn import open_run; "
        f"overview(open_run({str(path)!r})); print(sorted({{'torch', 'xarray', 'pandas', 'dask'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_overview_of_a_resumed_run_counts_each_step_once(synthetic: SimpleNamespace, make_run: RunMaker) -> None:
    path = make_run(steps=20)
    writer = TraceWriter.resume(path, 10)
    for step in range(11, 31):
        synthetic.add_step(writer, step, 9)
    writer.close("finished")
    facts = overview(open_run(path))
    assert (facts.rows["tensors"], facts.last_step, facts.gaps, len(facts.segments)) == (30, 30, [], 2)
    assert facts.recorder.seconds == pytest.approx(0.3)
