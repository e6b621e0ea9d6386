"""A recorded run and an unrecorded one with the same seed end with the same bits, and recording meets no error."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.reference import equal_bits


def final_weights(make_trainer, callbacks, **arguments):
    np.random.seed(5)
    torch.manual_seed(5)
    trainer = make_trainer(callbacks=callbacks, max_steps=6, **arguments)
    trainer.train()
    weights = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    # Python's own generator is left to the test below: the shape checks of the tests draw from it.
    return weights, (torch.random.get_rng_state(), np.random.get_state()[1].tolist())


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"max_grad_norm": 0.3}, id="full"),
        pytest.param(
            {"peft_config": LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.1, task_type="CAUSAL_LM")},
            id="lora-dropout",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"gradient_checkpointing": True, "gradient_accumulation_steps": 2},
            id="checkpointing",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_weights_and_random_state_are_bit_identical(tmp_path: Path, make_trainer, arguments):
    threads = torch.get_num_threads()
    plain, plain_state = final_weights(make_trainer, [], **arguments)
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full", spectra_embeddings=True, copy_limit=5000))
    recorded, recorded_state = final_weights(make_trainer, [recorder], **arguments)
    assert all(equal_bits(plain[name], recorded[name]) for name in plain)
    assert torch.equal(plain_state[0], recorded_state[0])
    assert plain_state[1] == recorded_state[1]
    assert torch.get_num_threads() == threads
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert run.rows["rollouts"] == run.rows["layers"] == 6
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.metric("loss").step.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.manifest.recorder["faults"] == {}


TWO_RUNS = """
    import random, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    import conftest
    from grpodyn import Recorder

    unwrap = lambda fixture: fixture.__wrapped__ if hasattr(fixture, "__wrapped__") else fixture.__pytest_wrapped__.obj
    make_model, make_dataset = unwrap(conftest.make_model)(), unwrap(conftest.make_dataset)()
    tokenizer, folder = unwrap(conftest.tokenizer)(), Path({folder!r})
    make_trainer = unwrap(conftest.make_trainer)(folder, tokenizer, make_model, make_dataset)
    states = []
    for callbacks in ([], [Recorder(folder / "run")]):
        random.seed(5)
        make_trainer(callbacks=callbacks, max_steps=3).train()
        states.append(random.getstate())
    sys.exit(0 if states[0] == states[1] else 1)
"""


@pytest.mark.slow
def test_pythons_generator_is_untouched(tmp_path: Path):
    script = textwrap.dedent(TWO_RUNS).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0


def test_standard_preset_holds_every_row_it_should(tmp_path: Path, make_trainer):
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=12)
    trainer.train()
    run = open_run(tmp_path / "run")
    measured = {
        name: run.tensors["step"].values[~np.isnan(run.tensors[name].values).all(1)].tolist() for name in run.tensors
    }
    every = list(range(1, 13))
    expected = {
        "grad_norm": every,
        "grad_snr": [12],  # at the first step there is nothing to compare its gradient with
        "update_norm": every,
        "update_norm_intended": every,
        "update_applied_fraction": every,
        "update_ratio": every,
        "update_changed_fraction": [1, 5, 10, 12],
        "delta_norm": [1, 5, 10, 12],
        "delta_changed_fraction": [1, 5, 10, 12],
    }
    assert {name: measured[name] for name in expected} == expected
    layer_steps = run.layers["step"].values[~np.isnan(run.layers["layer_delta"].values).any(1)]
    assert layer_steps.tolist() == [1, 5, 10, 12]
    assert run.spectra.step.values.tolist() == [1, 12]
    assert run.rollouts.step.values.tolist() == every
    assert run.metric("recorder_seconds").sizes["row"] == 13  # twelve steps and the closing row
    assert float(run.metric("recorder_seconds").sum()) > 0
    assert float(run.metric("step_seconds").sum()) > 0


def test_one_line_says_what_is_recorded_what_not_and_what_it_costs(tmp_path: Path, make_trainer, caplog):
    with caplog.at_level(logging.INFO, logger="grpodyn"):
        make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=2).train()
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("recording into")]
    assert len(lines) == 1
    for part in ("26 tensors", "grad_norm", "every 5 steps", "Not recorded: spectra of 1 embedding", "CPU seconds"):
        assert part in lines[0]


def test_any_trainer_of_transformers_is_recorded(tmp_path: Path, make_model, tokenizer):
    """No GRPO, so no rollouts: that is said, and the rest is recorded."""
    from transformers import Trainer, TrainingArguments  # noqa: PLC0415

    ids = torch.arange(8) % 10 + 3
    data = [{"input_ids": ids, "labels": ids} for _ in range(16)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=3, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    trainer = Trainer(make_model(), arguments, train_dataset=data, callbacks=[Recorder(tmp_path / "run")])
    trainer.train()
    run = open_run(tmp_path / "run")
    assert run.rows["tensors"] == 3
    assert run.rows["rollouts"] == 0
    assert "rollouts" in [entry["what"] for entry in run.manifest.recorder["skipped"]]


def test_grpodyn_disable_turns_it_off(tmp_path: Path, make_trainer, monkeypatch):
    monkeypatch.setenv("GRPODYN_DISABLE", "1")
    recorder = Recorder(tmp_path / "run")
    make_trainer(callbacks=[recorder], max_steps=1).train()
    assert not (tmp_path / "run").exists()
    assert recorder.refused == "GRPODYN_DISABLE is set"


@pytest.mark.slow
def test_completions_are_saved_on_request(tmp_path: Path, make_trainer):
    pd = pytest.importorskip("pandas")
    config = RecordConfig(preset="light", save_completions=2)
    make_trainer(callbacks=[Recorder(tmp_path / "run", config)], max_steps=4).train()
    files = sorted((tmp_path / "run" / "completions").iterdir())
    assert [file.name for file in files] == ["step_00000001_000001.parquet", "step_00000003_000003.parquet"]
    frame = pd.read_parquet(files[0])
    assert len(frame) == 8
    rollouts = open_run(tmp_path / "run").rollouts
    assert frame["reward"].tolist() == rollouts["reward"].values[0].ravel().tolist()


@pytest.mark.slow
def test_the_model_is_saved_on_request(tmp_path: Path, make_trainer):
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run", save_model=True)], max_steps=2)
    trainer.train()
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")
    assert all(torch.equal(a, b) for a, b in zip(saved.parameters(), trainer.model.parameters(), strict=True))
