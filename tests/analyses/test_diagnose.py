"""`grpodyn diagnose` on runs and on logs, as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from grpodyn import registry
from grpodyn.cli.app import build
from grpodyn.config import run as run_config
from grpodyn.diagnosis import of_run
from grpodyn.errors import UnknownNameError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.reader import open_run
from grpodyn.trace.schema import TensorInfo
from grpodyn.trace.writer import TraceWriter

TRACES = Path(__file__).parents[1] / "data" / "traces"
KEYS = {"id", "severity", "onset_step", "evidence", "may_be", "config_key", "patch"}


def invoke(*arguments: object):
    return CliRunner().invoke(build(), [str(a) for a in arguments])


def truncated_rows(count: int) -> dict[int, dict[str, float]]:
    row = {"completions/clipped_ratio": 1.0, "completions/max_length": 8.0, "reward": 0.0, "frac_reward_zero_std": 1.0}
    return {
        step: {**row, "loss": 0.0, "grad_norm": 0.0, "completions/mean_length": 8.0} for step in range(1, count + 1)
    }


def config() -> dict:
    return run_config.embedded().to_record()


def test_findings_of_a_run_and_the_config_that_mends_it(write_run, tmp_path) -> None:
    run = write_run(metrics=truncated_rows(30), config=config(), trainer={"arguments": {"max_completion_length": 8}})
    result = invoke("diagnose", run.path, "--json", "--patch", tmp_path / "next.yaml", "--fail-on", "critical")
    assert result.exit_code == 1
    facts = json.loads(result.output)
    assert {"findings", "checked", "incomplete"} <= set(facts)
    assert set(facts["findings"][0]) >= KEYS
    assert facts["findings"][0]["id"] == "truncation"
    assert run_config.load(tmp_path / "next.yaml").grpo["max_completion_length"] == 16


def test_fail_on_a_level_that_is_not_reached(write_run) -> None:
    rng = np.random.default_rng(0)
    rows = {s: {"reward": 0.3 + 0.01 * s + 0.01 * float(rng.standard_normal()), "loss": 0.0} for s in range(1, 40)}
    run = write_run(metrics=rows)
    assert invoke("diagnose", run.path, "--fail-on", "warning").exit_code == 0
    assert isinstance(invoke("diagnose", run.path, "--fail-on", "grave").exception, UnknownNameError)


def test_an_empty_run_is_called_that(write_run) -> None:
    found = registry.analysis("diagnose").run(write_run())
    assert [f.id for f in found.findings] == ["incomplete_record"]
    assert found.findings[0].severity == "critical"
    assert "no row" in found.findings[0].evidence[0]


def test_an_interrupted_run_is_called_that(tmp_path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    writer.add_row("metrics", 1, {"reward": 0.5, "loss": 0.1})
    writer.flush()
    # The lock of a living writer would make it `running`; a killed one leaves this behind.
    manifest = writer.manifest
    writer.close("finished")
    manifest.updated(status="running").write(tmp_path / "run")
    found = registry.analysis("diagnose").run(open_run(tmp_path / "run"))
    finding = next(f for f in found.findings if f.id == "incomplete_record")
    assert "cut off" in finding.evidence[0]
    assert finding.severity == "warning"


def test_a11_factors_that_never_moved(write_run) -> None:
    names = [f"model.layers.{layer}.self_attn.q_proj" for layer in range(2)]
    infos = [
        TensorInfo(f"{n}.weight", i, "q_proj", "m", "linear", 8, 8, "float32", True, "lora")
        for i, n in enumerate(names)
    ]
    infos += [
        TensorInfo(f"{n}.lora_B", i, "q_proj", "m", "lora_factor", 8, 2, "float32", True, "factor")
        for i, n in enumerate(names)
    ]
    rows = {s: {"delta_norm": [0.1, 0.1, 0.0, 0.1 * s], "grad_norm": [np.nan, np.nan, 0.0, 1.0]} for s in (1, 2, 3)}
    metrics = {s: {"reward": 0.5, "loss": 0.1, "learning_rate": 1e-5, "frac_reward_zero_std": 0.2} for s in range(1, 4)}
    run = write_run(tensors=infos, rows=rows, metrics=metrics, lora={"r": 2, "lora_alpha": 4})
    finding = next(f for f in registry.analysis("diagnose").run(run).findings if f.id == "lora_untrained")
    assert "1 of 2 factors" in finding.evidence[0]
    assert "layers.0" in finding.evidence[0]
    assert "exactly 0" in finding.evidence[1]


def test_a11_negative_while_the_learning_rate_is_zero(write_run) -> None:
    infos = [TensorInfo("l.q_proj.lora_B", 0, "q_proj", "m", "lora_factor", 8, 2, "float32", True, "factor")]
    rows = {s: {"delta_norm": [0.0], "grad_norm": [1.0]} for s in (1, 2)}
    metrics = {s: {"reward": 0.5, "loss": 0.1, "learning_rate": 0.0} for s in (1, 2)}
    run = write_run(tensors=infos, rows=rows, metrics=metrics, lora={"r": 2, "lora_alpha": 4})
    assert "lora_untrained" not in {f.id for f in registry.analysis("diagnose").run(run).findings}


def test_a02_rollouts_show_parts_that_cancel(tmp_path) -> None:
    writer = TraceWriter.create(
        tmp_path / "run", Manifest(rewards=[{"name": "right", "weight": 1.0}, {"name": "short", "weight": 1.0}])
    )
    writer.declare_reward_functions(["right", "short"])
    rng = np.random.default_rng(0)
    nothing = np.zeros((4, 8))
    for step in range(1, 31):
        right = (rng.random((4, 8)) < 0.5).astype(float)
        rewards = np.stack([right, 1 - right], axis=-1)
        values = {"prompt_id": np.arange(4), "reward": rewards.sum(-1), "rewards": rewards}
        writer.add_row(
            "rollouts", step, {**values, "length": nothing + 5, "terminated": nothing + 1, "advantage": nothing}
        )
        writer.add_row("metrics", step, {"reward": 1.0, "loss": 0.0, "frac_reward_zero_std": 1.0, "grad_norm": 0.0})
    writer.close("finished")
    found = {f.id: f for f in registry.analysis("diagnose").run(open_run(tmp_path / "run")).findings}
    assert "correlation of -1.00" in found["reward_opposition"].evidence[0]


def test_tensor_that_went_first_is_named(tmp_path) -> None:
    writer = TraceWriter.create(tmp_path / "run", Manifest())
    for step in range(1, 31):
        gone = step >= 20
        writer.add_row("metrics", step, {"loss": 0.0, "reward": 0.5, "grad_norm": np.nan if gone else 0.5})
    writer.event(20, "non-finite gradient", "…", tensor="model.layers.3.mlp.up_proj.weight", tensors=1)
    writer.close("finished")
    found = registry.analysis("diagnose").run(open_run(tmp_path / "run")).findings
    finding = next(f for f in found if f.id == "non_finite")
    assert finding.onset_step == 20
    assert any("model.layers.3.mlp.up_proj.weight" in sentence for sentence in finding.evidence)


def test_bf16_updates_that_rounding_swallows(write_run) -> None:
    info = TensorInfo("w.weight", 0, "w", "m", "linear", 8, 8, "bfloat16", True, "full")
    rows = {s: {"update_applied_fraction": [0.03], "update_changed_fraction": [0.001]} for s in range(1, 5)}
    run = write_run(tensors=[info], rows=rows, metrics={1: {"reward": 0.5, "loss": 0.1}})
    finding = next(f for f in registry.analysis("diagnose").run(run).findings if f.id == "bf16_updates_lost")
    assert finding.patch == {"model": {"dtype": "float32"}}
    assert "0.03 of the norm" in finding.evidence[1]


@pytest.mark.parametrize("name", ["gsm8k_llama8b_flat.json", "gsm8k_qwen3_8b_flat.json", "tool_calls_100_rising.log"])
def test_public_logs_raise_no_alarm(name: str) -> None:
    result = invoke("diagnose", TRACES / name, "--json", "--fail-on", "warning")
    assert result.exit_code == 0, result.output


def test_mastered_public_log_is_told_as_that() -> None:
    facts = json.loads(invoke("diagnose", TRACES / "arithmetic_lora_100.metrics.jsonl", "--json").output)
    assert {f["severity"] for f in facts["findings"]} <= {"info"}
    assert "dead_groups_easy" in {f["id"] for f in facts["findings"]}
    assert facts["imported"] is True


def test_words_for_people(write_run) -> None:
    run = write_run(metrics=truncated_rows(30))
    result = invoke("diagnose", run.path, "--all")
    assert "Completions are cut off" in result.output
    assert "may be:" in result.output
    assert "sampler_mismatch" in result.output, "--all lists what could not be checked"


def test_a_patch_needs_a_config(write_run, tmp_path) -> None:
    run = write_run(metrics=truncated_rows(30))
    result = invoke("diagnose", run.path, "--patch", tmp_path / "next.yaml")
    assert result.exit_code != 0
    assert "--config" in str(result.exception)
    (tmp_path / "mine.yaml").write_text("model: embedded\ntask: arithmetic_format\ngrpo: {max_completion_length: 8}\n")
    result = invoke("diagnose", run.path, "--config", tmp_path / "mine.yaml", "--patch", tmp_path / "next.yaml")
    assert result.exit_code == 0, result.output
    assert run_config.load(tmp_path / "next.yaml").grpo["max_completion_length"] == 16


def test_a_log_is_diagnosed_without_torch_and_without_writing() -> None:
    code = (
        "import sys; from grpodyn.cli.app import build; from typer.testing import CliRunner; "
        f"r = CliRunner().invoke(build(), ['diagnose', {str(TRACES / 'gsm8k_llama8b_flat.json')!r}]); "
        "assert r.exit_code == 0, r.output; "
        "print([m for m in ('torch', 'transformers', 'pandas') if m in sys.modules])"
    )
    before = sorted(os.listdir(TRACES))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TRACES)
    assert done.stdout.strip() == "[]"
    assert sorted(os.listdir(TRACES)) == before


def test_sampled_arrays_of_a_large_run_are_thinned(write_run, monkeypatch) -> None:
    monkeypatch.setattr(of_run, "_MOST_VALUES", 40)
    info = TensorInfo("w.weight", 0, "w", "m", "linear", 8, 8, "float32", True, "full")
    rows = {s: {"update_ratio": [1e-4]} for s in range(1, 101)}
    seen = of_run.observe_run(write_run(tensors=[info], rows=rows, metrics={1: {"reward": 0.5, "loss": 0.1}}))
    assert seen.tensors is not None
    assert len(seen.tensors.steps) <= 8
    assert seen.tensors.steps[-1] == 100
