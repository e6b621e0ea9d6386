"""An imported log is an ordinary run, which says what it is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.errors import DirectoryInUseError
from grpodyn.importers import read_log, understand
from grpodyn.importers.json_log import rows_log
from grpodyn.importers.write import write_history
from grpodyn.trace.reader import open_run

TRACES = Path(__file__).parents[1] / "data" / "traces"


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_rows_come_back(tmp_path: Path) -> None:
    write_history(understand(read_log(TRACES / "arithmetic_lora_100.metrics.jsonl")), tmp_path / "run", "traces/x")
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    reward = run.metric("reward")
    assert (len(reward), float(reward[0]), float(reward[9])) == (100, 0.67625, 0.9975)
    facts = run.manifest.recorder
    assert facts["source"] == "import"
    assert facts["renamed"]["optim/entropy"] == "entropy"
    assert "time/train" in facts["unresolved"]
    assert float(run.metric("time/train")[0]) == pytest.approx(2.0353, abs=1e-3), "kept under its own name"


def test_a18_segments_come_back_and_the_later_wins(tmp_path: Path) -> None:
    entries = [{"step": s, "loss": 0.1, "reward": 0.0} for s in range(1, 101)]
    entries += [{"step": s, "loss": 0.1, "reward": 1.0} for s in range(81, 121)]
    write_history(understand(rows_log("x", entries)), tmp_path / "run", "x")
    run = open_run(tmp_path / "run")
    reward = run.metric("reward")
    assert reward["step"].values.tolist() == list(range(1, 121))
    assert float(reward.sel(row=reward["step"] == 80).item()) == 0.0
    assert float(reward.sel(row=reward["step"] == 81).item()) == 1.0


def test_a04_nan_is_kept_and_named(tmp_path: Path) -> None:
    entries = [{"step": s, "loss": 0.0, "grad_norm": 0.5 if s < 5 else math.nan} for s in range(1, 9)]
    write_history(understand(rows_log("x", entries)), tmp_path / "run", "x")
    run = open_run(tmp_path / "run")
    assert np.isnan(run.metrics["values"].sel(metric="grad_norm").values[4:]).all()
    assert any(event["what"] == "non-finite metric grad_norm" and event["step"] == 5 for event in run.events)


def test_solve_counts_become_rollouts(tmp_path: Path) -> None:
    write_history(understand(read_log(TRACES / "solve_counts_gsm8k_qwen3_8b_G16.csv")), tmp_path / "run", "x")
    run = open_run(tmp_path / "run")
    assert run.rollouts["reward"].shape == (1, 30, 16)
    assert float(run.rollouts["reward"].sum()) == 9 + 2 + 2 + 1 + 4 + 8 + 2 + 1


def test_evaluations_come_back(tmp_path: Path) -> None:
    entries = [{"step": 1, "loss": 0.1}, {"step": 1, "eval_reward": 0.5}, {"step": 2, "loss": 0.1}]
    write_history(understand(rows_log("x", entries)), tmp_path / "run", "x")
    evaluations = open_run(tmp_path / "run").evaluations
    assert float(evaluations["values"].sel(metric="eval_reward").values[0]) == 0.5


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    found = understand(rows_log("x", [{"step": 1, "loss": 0.1}]))
    write_history(found, tmp_path / "run", "x")
    with pytest.raises(DirectoryInUseError, match="not empty"):
        write_history(found, tmp_path / "run", "x")


def test_command_lists_what_it_did_not_know(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        "\n".join(json.dumps({"step": s, "train/reward": 0.5, "my_metric": s, "note": "hi"}) for s in (1, 2))
    )
    code, output = invoke("import", str(log), "-o", str(tmp_path / "run"), "--json")
    facts = json.loads(output)
    assert code == 0
    assert facts["unresolved"] == ["my_metric"]
    assert facts["left_out"] == {"note": "text"}
    assert facts["renamed"] == {"train/reward": "reward"}
    code, output = invoke("status", str(tmp_path / "run"), "--json")
    assert code == 0
    assert json.loads(output)["rows"]["metrics"] == 2


def test_command_in_words(tmp_path: Path) -> None:
    code, output = invoke("import", str(TRACES / "gsm8k_llama8b_flat.json"), "-o", str(tmp_path / "run"))
    assert code == 0
    assert "30 rows" in output
    assert "zvf" in output
