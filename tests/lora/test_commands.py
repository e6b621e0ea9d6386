from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build, main
from grpodyn.config import run as run_config
from grpodyn.errors import MissingDataError, NotARunError, UsageError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import Run
from grpodyn.trace.schema import ArraySpec
from grpodyn.trace.writer import TraceWriter
from tests.schema import must_fit


def run_command(*arguments: object, columns: int = 80) -> str:
    result = CliRunner().invoke(build(), [str(a) for a in arguments], env={"COLUMNS": str(columns)})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_advice_reads_like_a_page_and_fits_80_columns(make_run) -> None:
    output = run_command("recommend-lora", make_run(coherence=[0.2, 0.2, 0.3, 0.3, 0.5, 1.0]).path)
    commands = [line for line in output.splitlines() if line.startswith("  grpodyn ")]
    assert commands
    assert all(len(line) <= 80 for line in output.splitlines() if line not in commands)
    for part in ("Advice", "What it rests on", "What limits it", "Where studies disagree", "Next cheapest experiment"):
        assert part in output
    assert "89,088" in output
    assert "arXiv:2605.07366" in output
    assert "not an error bar" in output


def test_suggested_commands_exist(make_run) -> None:
    advice = json.loads(run_command("recommend-lora", make_run().path, "--json"))
    must_fit("recommend-lora", advice)
    known = {command.name for command in build().registered_commands}
    used = {line.split()[1] for line in advice["next_experiment"]["commands"]}
    assert used
    # `record` belongs to training; every other suggestion is a command of this package today.
    assert used - {"record"} <= known


def test_json_is_strict_and_holds_the_options(make_run) -> None:
    output = run_command("recommend-lora", make_run().path, "--json", "--method", "dora", "--rank-ladder", "8,32")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    advice = json.loads(output, parse_constant=refuse)
    assert advice["peft_config"]["use_dora"] is True
    assert {module["rank"] for module in advice["modules"]} == {8}


def test_apply_writes_a_config_that_record_takes(make_run, tmp_path: Path) -> None:
    source = tmp_path / "config.yaml"
    source.write_text("model: embedded\ntask: arithmetic_format\ngrpo: {learning_rate: 3e-4, max_steps: 5}\n")
    run, new = make_run(manifest={"trainer": {"arguments": {"learning_rate": 3e-4}}}), tmp_path / "new.yaml"
    output = run_command("recommend-lora", run.path, "--apply", source, "-o", new)
    assert "0.0003 → 0.0009" in output
    assert run_config.load(new).lora is not None
    assert run_config.load(new).grpo["learning_rate"] == pytest.approx(9e-4)
    with pytest.raises(UsageError, match="exists"):
        run_command("recommend-lora", run.path, "--apply", source, "-o", new)
    run_command("recommend-lora", run.path, "--apply", source, "-o", new, "--overwrite", "--keep-lr")
    assert run_config.load(new).grpo["learning_rate"] == pytest.approx(3e-4)


def test_output_without_apply_is_pefts_json(make_run, tmp_path: Path) -> None:
    run_command("recommend-lora", make_run().path, "-o", tmp_path / "lora.json")
    assert json.loads((tmp_path / "lora.json").read_text())["peft_type"] == "LORA"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--apply", "c.yaml"), UsageError, "needs -o"),
        (("--rank-ladder", "8,many"), UsageError, "'8,many': expected ranks"),
        (("--max-params", "5"), UsageError, "smallest possible"),
        (("--rank", "0"), UsageError, "--rank 0"),
    ],
)
def test_usage_errors(make_run, arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        run_command("recommend-lora", make_run().path, *arguments)


def test_no_run_and_too_short_a_run(make_run, tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        run_command("recommend-lora", tmp_path)
    with pytest.raises(MissingDataError, match="2 recorded steps"):
        run_command("recommend-lora", make_run(steps=2).path)


@pytest.mark.parametrize(("arguments", "code"), [(["--rank", "0"], 2), (["--max-params", "5"], 2), ([], 0)])
def test_exit_codes_of_the_program(make_run, monkeypatch, capsys, arguments, code) -> None:
    monkeypatch.setattr(sys, "argv", ["grpodyn", "recommend-lora", str(make_run().path), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert ("grpodyn: " in said) == (code != 0)
    assert "Traceback" not in said


def evaluated(run_dir: Path, base: float, trained: float) -> Path:
    # Every run with a learning rate of its own: runs of equal config are seeds of one arm.
    trainer = {"class": "GRPOTrainer", "arguments": {"learning_rate": trained}}
    writer = TraceWriter.create(run_dir, Manifest(model={"name": "[red]tiny"}, dataset={"name": "d"}, trainer=trainer))
    writer.declare_arrays("tensors", {"update_norm": ArraySpec(("row", "tensor"))})
    for step, accuracy in ((0, base), (7, trained)):
        row: dict[str, Any] = {"heldout/accuracy": accuracy, "heldout/greedy_accuracy": 0.5}
        writer.add_row("evaluations", step, row)
    writer.close("finished")
    return run_dir


def test_compare_shows_runs_side_by_side(tmp_path: Path) -> None:
    runs = [evaluated(tmp_path / name, 0.1, after) for name, after in (("full", 0.6), ("lora", 0.4))]
    output = run_command("compare", *runs)
    assert all(len(line) <= 80 for line in output.splitlines())
    assert "60%" in output
    assert "no error bar" in " ".join(output.split())
    result = json.loads(run_command("compare", *runs, "--json"))
    assert [run["gain_kept"] for run in result["runs"]] == [pytest.approx(1.0), pytest.approx(0.6)]
    assert result["runs"][0]["base"]["best_temperature_accuracy"] is None
    assert result["same_base"] is True


def test_compare_of_many_runs_wraps_into_several_tables(tmp_path: Path) -> None:
    runs = [evaluated(tmp_path / f"run{i}", 0.1, 0.2 + i / 10) for i in range(6)]
    output = run_command("compare", *runs)
    assert all(len(line) <= 80 for line in output.splitlines())
    assert output.count("held-out accuracy and cost") == 2
    assert all(f"run{i}" in output for i in range(6))


def test_run_is_opened_read_only(make_run) -> None:
    run: Run = make_run()
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    run_command("recommend-lora", run.path)
    run_command("compare", run.path)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
    assert math.isfinite(run.last_step)
