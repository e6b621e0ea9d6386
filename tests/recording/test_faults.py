"""Nothing that goes wrong in a recorder reaches the training; all of it is written down."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from grpodyn import Recorder, open_run, registry
from grpodyn.config.record import RecordConfig
from grpodyn.recording.boundary import Boundary
from grpodyn.trace.writer import TraceWriter


def events(run, what):
    return [event for event in run.events if event["what"].startswith(what)]


def test_a_probe_that_raises_leaves_nan_and_one_event(tmp_path: Path, make_trainer, monkeypatch):
    probe = registry.probe("grad_norm")

    def explode(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(type(probe), "compute", explode)
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=4).train()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert np.isnan(run.tensors["grad_norm"].values).all()
    assert np.isfinite(run.tensors["update_norm"].values).all()
    (fault,) = events(run, "fault in grad_norm")
    assert "RuntimeError: boom" in fault["why"]
    assert run.manifest.recorder["faults"] == {"grad_norm": 4}


@pytest.mark.slow
def test_a_spectral_probe_that_raises_on_the_worker(tmp_path: Path, make_trainer, monkeypatch):
    probe = registry.probe("stable_rank")

    def explode(*_):
        raise ZeroDivisionError("nothing there")

    monkeypatch.setattr(type(probe), "compute", explode)
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=2).train()
    run = open_run(tmp_path / "run")
    assert np.isnan(run.spectra["stable_rank"].values).all()
    assert np.isfinite(run.spectra["effective_rank"].values).any()
    assert len(events(run, "fault in stable_rank")) == 1


class Poison(TrainerCallback):
    """Puts a NaN into one weight after a step."""

    def __init__(self, step: int, name: str, value: float) -> None:
        self.step, self.name, self.value = step, name, value

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            with torch.no_grad():
                dict(kwargs["model"].named_parameters())[self.name].view(-1)[3] = self.value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a34_a_bad_weight_is_recorded_with_its_first_step_and_tensor(tmp_path: Path, make_model, tokenizer, value):
    """A plain trainer goes on with NaN weights; the loss may even look finite (A04, A34)."""
    from transformers import Trainer, TrainingArguments  # noqa: PLC0415

    name = "model.layers.1.mlp.up_proj.weight"
    ids = torch.arange(8) % 10 + 3
    data = [{"input_ids": ids, "labels": ids} for _ in range(16)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=4, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
        logging_steps=1,
    )  # fmt: skip
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full"))
    trainer = Trainer(make_model(), arguments, train_dataset=data, callbacks=[Poison(2, name, value), recorder])
    trainer.train()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert np.isfinite(run.tensors["delta_norm"].sel(tensor=name).values[:2]).all()
    assert np.isnan(run.tensors["delta_norm"].sel(tensor=name).values[2:]).all()
    assert not np.isinf(run.tensors["grad_norm"].values).any()
    (bad,) = events(run, "non-finite delta")
    assert bad["step"] == 3
    assert bad["tensor"]
    (gradient,) = events(run, "non-finite gradient")
    assert gradient["step"] == 3
    spectra = run.spectra.sel(tensor=name)
    assert np.isnan(spectra["effective_rank"].values[spectra.step.values > 2]).all()
    assert len(events(run, "no spectrum")) == 1
    for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_the_trainers_nan_scalars_stay_nan(tmp_path: Path, make_trainer):
    """Fact 3: a NaN step logs a finite loss, a NaN grad_norm, and null where TRL averages."""
    name = "model.layers.0.mlp.up_proj.weight"
    # The NaN goes in after the last generation: sampling from NaN logits raises in torch.
    trainer = make_trainer(
        callbacks=[Recorder(tmp_path / "run"), Poison(1, name, float("nan"))], max_steps=2, num_iterations=2
    )
    trainer.train()
    run = open_run(tmp_path / "run")
    values = run.metrics["values"].sel(metric="grad_norm").values
    assert np.isfinite(values[0])
    assert np.isnan(values[1])
    assert np.isnan(run.metrics["values"].sel(metric="reward").values[1]), "no generation at step 2: missing, not 0"


def test_a12_missing_gradients_are_not_zero(tmp_path: Path, make_model, tokenizer):
    """A gradient that is None is recorded as nan, with the tensors' names (A11, A12)."""
    from transformers import Trainer, TrainingArguments  # noqa: PLC0415

    class Dropper(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            dict(kwargs["model"].named_parameters())["model.norm.weight"].grad = None

    ids = torch.arange(8) % 10 + 3
    data = [{"input_ids": ids, "labels": ids} for _ in range(16)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    callbacks = [Dropper(), Recorder(tmp_path / "run")]
    Trainer(make_model(), arguments, train_dataset=data, callbacks=callbacks).train()
    run = open_run(tmp_path / "run")
    dropped = run.tensors.sel(tensor="model.norm.weight")
    assert np.isnan(dropped["grad_norm"].values).all()
    assert (dropped["update_norm"].values == 0).all()
    assert (dropped["update_norm_intended"].values == 0).all()
    (event,) = events(run, "no gradient")
    assert event["tensors"] == ["model.norm.weight"]


@pytest.mark.slow
def test_a11_the_first_step_of_a_fresh_adapter_is_no_fault(tmp_path: Path, make_trainer):
    """B is zero at the start, so A's first gradient is exactly 0: a measured zero (fact 6, A11)."""
    from peft import LoraConfig  # noqa: PLC0415

    config = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=2, peft_config=config, beta=0.0).train()
    run = open_run(tmp_path / "run")
    gradients = run.tensors["grad_norm"].sel(tensor="model.layers.0.self_attn.q_proj.lora_A").values
    assert gradients[0] == 0
    assert gradients[1] > 0
    assert events(run, "no gradient") == []


def test_a_full_disk_stops_recording_and_not_training(tmp_path: Path, make_trainer, monkeypatch):
    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grpodyn.trace.buffer.GroupBuffer.write", full)
    recorder = Recorder(tmp_path / "run")
    trainer = make_trainer(callbacks=[recorder], max_steps=3)
    trainer.train()
    assert trainer.state.global_step == 3
    assert "No space left" in (tmp_path / "run" / "events.jsonl").read_text()
    assert open_run(tmp_path / "run").manifest.status == "failed"


def test_names_that_collapse_refuse_the_recording_and_not_the_training(tmp_path: Path, make_model, caplog):
    from transformers import Trainer, TrainingArguments  # noqa: PLC0415

    model = make_model()
    model.model.layers[0].module = torch.nn.Module()
    model.model.layers[0].module.mlp = torch.nn.Module()
    model.model.layers[0].module.mlp.up_proj = torch.nn.Linear(2, 2, bias=False)
    ids = torch.arange(8) % 10 + 3
    data = [{"input_ids": ids, "labels": ids} for _ in range(4)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=1, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    recorder = Recorder(tmp_path / "run")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[recorder])
    with caplog.at_level(logging.WARNING, logger="grpodyn"):
        trainer.train()
    assert "NameCollisionError" in (recorder.refused or "")
    assert any("model.layers.0.mlp.up_proj.weight" in record.getMessage() for record in caplog.records)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_unknown_optimizer_has_no_intended_step(tmp_path: Path, make_trainer):
    """Adafactor scales steps by the parameter: nothing is guessed from its learning rate (A17)."""
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=2, optim="adafactor").train()
    run = open_run(tmp_path / "run")
    assert np.isnan(run.tensors["update_norm_intended"].values).all()
    assert (run.tensors["update_norm"].values > 0).any()
    (skipped,) = [e for e in run.manifest.recorder["skipped"] if e["what"] == "update_norm_intended"]
    assert "Adafactor" in skipped["why"]


def test_reports_the_first_of_each_kind_and_counts_all():
    reported = []
    boundary = Boundary(lambda where, why: reported.append((where, why)))

    def fail(error):
        raise error

    assert boundary.run("a", lambda: 3) == 3
    for error in (ValueError("one"), ValueError("two"), KeyError("three")):
        assert boundary.run("a", fail, error) is None
    assert boundary.counts["a"] == 3
    assert [why.split(":")[0] for _, why in reported] == ["ValueError", "KeyError"]
    with pytest.raises(KeyboardInterrupt):
        boundary.run("a", fail, KeyboardInterrupt())


@pytest.mark.slow
def test_the_writer_is_closed_even_if_closing_fails(tmp_path: Path, make_trainer, monkeypatch):
    monkeypatch.setattr("grpodyn.recording.spectral_rows.SpectralRows.close", lambda self: 1 / 0)
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1).train()
    run = open_run(tmp_path / "run")
    assert run.status == "finished"
    assert isinstance(TraceWriter.resume(tmp_path / "run", 1), TraceWriter)
