"""`grpodyn ablate` and `grpodyn pilot` as they are used; real trainings, small ones."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grpodyn.ablation.ledger import read
from grpodyn.ablation.pilot import pilot
from grpodyn.ablation.results import load
from grpodyn.cli.app import build
from grpodyn.config import run as run_config
from grpodyn.errors import ConfigError, DirectoryInUseError, UsageError
from grpodyn.trace.lock import living_writer
from grpodyn.training.display import LineDisplay
from tests.schema import must_fit

GRPO = """
model: embedded
task: {name: arithmetic_format, limit: 64}
grpo: {learning_rate: 1e-4, max_steps: STEPS, per_device_train_batch_size: 16, num_generations: 4,
       max_completion_length: 8, beta: 0.0, lr_scheduler_type: constant, gradient_checkpointing: false}
evaluate: {prompts: 40}
"""
STUDY = """
study:
  name: small
  tasks: [{name: toy, config: task.yaml}]
  arms: [all-linear, attention-only, mlp-only]
  seeds: [1, 2]
  other_seeds: [1, 2]
  tuning: null
  primary: [{a: mlp-only, b: attention-only}]
  measure: {prompts: 40, curve_prompts: 20}
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "task.yaml").write_text(GRPO.replace("STEPS", "2"))
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path / "study.yaml"


def invoke(*arguments):
    return CliRunner().invoke(build(), [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.slow
def test_a_study_from_its_file_to_its_result(study, tmp_path):
    done = invoke("ablate", study, "-o", tmp_path / "out", "--json", "--threads", 1)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    must_fit("ablate", found)
    assert [arm["arm"] for arm in found["arms"]] == ["all-linear", "attention-only", "mlp-only"]
    for arm in found["arms"]:
        assert arm["trainable_params"] > 0
        assert set(arm["accuracy"]) == {"value", "low", "high", "level"}
        assert "gain_kept" in arm
    (primary,) = [c for c in found["comparisons"] if c["test"] != "descriptive"]
    assert {"a", "b", "difference", "p"} <= set(primary)
    assert found["verdict"].startswith(("confirmed", "refuted", "not separable at 2 seeds"))
    assert found["missing"] == 0
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    again = invoke("ablate", study, "-o", tmp_path / "out", "--json")
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before
    assert json.loads(again.stdout)["arms"] == found["arms"]


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(study, tmp_path):
    out = tmp_path / "out"
    start = [sys.executable, "-m", "grpodyn", "ablate", str(study), "-o", str(out)]
    running = subprocess.Popen([*start, "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Both measurements of the base, and one training; others are under way.
    while len(read(out / "results.jsonl")) < 3 and running.poll() is None:
        time.sleep(0.1)
    assert living_writer(out)["pid"] == running.pid
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = {record.key: record for record in read(out / "results.jsonl")}
    assert len(kept) >= 3
    done = invoke("ablate", study, "-o", out, "--threads", 1)
    assert "verdict" in done.stdout
    records = read(out / "results.jsonl")
    assert len(records) == len({record.key for record in records}) == 8
    # As text: what could not be measured is nan, which is not equal to itself.
    assert set(map(repr, kept.values())) <= set(map(repr, records))
    assert load(out).missing == 0


@pytest.mark.slow
def test_time_is_up_and_more_seeds_go_on(study, tmp_path):
    out = tmp_path / "out"
    stopped = invoke("ablate", study, "-o", out, "--max-minutes", "0.0001")
    assert stopped.exit_code == 0
    assert "time is up" in stopped.output
    assert "the same command goes on" in stopped.output
    first = load(out)
    assert first.verdict_kind == "not tested"
    assert first.missing > 0
    assert invoke("ablate", study, "-o", out, "--arms", "attention-only", "--seeds", 1).exit_code == 0
    assert len(load(out).arms[0].seeds) == 1


@pytest.mark.slow
def test_a_run_is_put_to_the_test_and_its_advice_rises_to_rung_3(study, tmp_path):
    run = tmp_path / "runs" / "full"
    (tmp_path / "task.yaml").write_text(GRPO.replace("STEPS", "8"))
    assert invoke("record", tmp_path / "task.yaml", "--run-dir", run).exit_code == 0
    arms = "advised,all-linear,all-linear-same-budget,random-same-budget,displacement-top,gradient-top"
    done = invoke("ablate", run, "--arms", arms, "--no-tuning", "--seeds", 2, "--steps", 2, "--json", "--threads", 1)
    assert done.exit_code == 0, done.output
    found = load(run)
    assert found.missing == 0
    # On movement alone the advice is all-linear itself, so that what movement points at is tested in its place.
    assert found.candidate == "displacement-top"
    placed = [arm for arm in found.arms if arm.arm in ("displacement-top", "gradient-top", "random-same-budget")]
    assert len(placed) == 3
    whole = found.arm("all-linear")
    assert whole is not None
    for arm in placed:
        assert arm.trainable_params == pytest.approx(whole.trainable_params / 4, rel=0.05)
    # The run's own seed is 0, which decided the advice.
    assert all(set(arm.seeds) == {1, 2} for arm in found.arms)
    advice = json.loads(invoke("recommend-lora", run, "--json").stdout)
    assert advice["rung"] == (3 if found.best_supported else 1)
    # The ledger lies inside the run, and the run stays a run.
    assert (run / "ablation" / "results.jsonl").is_file()
    assert invoke("status", run).exit_code == 0


@pytest.mark.slow
def test_an_adapter_from_a_file_is_put_to_the_test_of_a_run(study, tmp_path):
    run, advice, out = tmp_path / "run", tmp_path / "advised.json", tmp_path / "out"
    (tmp_path / "task.yaml").write_text(GRPO.replace("STEPS", "8"))
    assert invoke("record", tmp_path / "task.yaml", "--run-dir", run, "--set", "seed=1").exit_code == 0
    adapter = {"r": 8, "lora_alpha": 32, "target_modules": ["q_proj", "o_proj"], "layers_to_transform": [4]}
    advice.write_text(json.dumps({"peft_config": adapter, "training": {"learning_rate": 2e-4}}))
    arms = "advised,all-linear,random-same-budget,displacement-top"
    options = ["--arms", arms, "--no-tuning", "--seeds", 2, "--steps", 2, "--threads", 1, "-o", out]
    assert invoke("ablate", run, "--advice", advice, *options).exit_code == 0
    found = load(out)
    assert (found.candidate, found.missing) == ("advised", 0)
    advised = found.arm("advised")
    assert advised is not None
    assert advised.lora == adapter
    assert advised.learning_rate == 2e-4
    assert "advised.json" in advised.what
    # Two modules of one layer at rank 8, and the places of the run's own movement at the same size.
    for name in ("random-same-budget", "displacement-top"):
        assert found.arm(name).trainable_params == pytest.approx(advised.trainable_params, rel=0.05)
    # Seed 1 made the run, so that nothing is tested on it.
    assert all(set(arm.seeds) == {2, 3} for arm in found.arms)


HOLDER = """
import sys
from pathlib import Path
from grpodyn.trace.lock import WriterLock
lock = WriterLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_another_ablation_of_the_same_folder_is_refused(study, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-c", HOLDER, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(DirectoryInUseError, match=f"is being written by process {other.pid}") as refused:
            invoke("ablate", study, "-o", out)
        other.communicate()
    assert refused.value.exit_code == 2
    assert not (out / "results.jsonl").exists()


@pytest.mark.slow
def test_a_pilot_and_going_on_with_it(tmp_path):
    (tmp_path / "task.yaml").write_text(GRPO.replace("STEPS", "12"))
    folder = tmp_path / "pilot"
    done = invoke("pilot", tmp_path / "task.yaml", "--run-dir", folder, "--max-fraction", "0.3", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    must_fit("pilot", found)
    assert found["warm_up_steps"] == 8
    assert found["steps"] == 12
    # Eight steps gained nothing, which tells no part from another: then a lower rank meets the limit.
    patched = json.loads((folder / "warmup" / "attribution.json").read_text())
    assert patched["verdict"] in ("flat", "too noisy")
    assert found["rung"] == 1
    assert found["trainable_params"] <= 0.3 * 233_472
    assert found["keeps_all_linear"]
    assert "budget: rank 16 → 4" in found["decision"]
    assert found["before"]["accuracy"] is not None
    again = json.loads(
        invoke("pilot", tmp_path / "task.yaml", "--run-dir", folder, "--max-fraction", "0.3", "--json").stdout
    )
    # Nothing was trained or patch-tested again, and both are paid for all the same.
    assert again["warm_up_step_seconds"] == found["warm_up_step_seconds"]
    assert again["overhead_seconds"] >= 8 * found["warm_up_step_seconds"] + patched["seconds"]
    with pytest.raises(ConfigError, match="trained under other settings"):
        invoke("pilot", tmp_path / "task.yaml", "--run-dir", folder, "--max-fraction", "0.6")


def test_the_arms_are_named():
    listed = invoke("ablate", "x", "--list-arms")
    assert "all-linear-same-budget" in listed.output
    assert "a new draw each seed" in listed.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms", "mlp_only"], "unknown arm 'mlp_only'; did you mean 'mlp-only'"),
        (["--seeds", "0"], "--seeds 0"),
        (["--steps", "0"], "--steps 0"),
        (["--set", "grpo.beta=1"], "a study has several"),
        (["--lora", "gone.json"], "there is no adapter file"),
        (["--advice", "gone.json"], "there is no adapter file"),
    ],
)
def test_usage_errors_name_the_value(study, tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        invoke("ablate", study, "-o", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()


def test_a_warm_up_as_long_as_the_run_is_no_warm_up(tmp_path):
    with pytest.raises(UsageError, match="no shorter than the run of 6"):
        pilot(run_config.embedded(["grpo.max_steps=6"]), tmp_path / "p", LineDisplay(Console()))
    assert not (tmp_path / "p").exists()
    assert os.listdir(tmp_path) == []
