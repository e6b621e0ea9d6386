"""Which directory is used, what a resume keeps, and what an interrupted run holds."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig


def test_a_used_directory_is_left_alone(tmp_path: Path, make_trainer, caplog):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    recorder = Recorder(tmp_path / "run")
    make_trainer(callbacks=[recorder], max_steps=1).train()
    assert recorder.run_dir == tmp_path / "run-2"
    assert open_run(tmp_path / "run-2").status == "finished"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
    assert any("run-2" in record.getMessage() for record in caplog.records)


def test_a_second_training_records_beside_the_first(tmp_path: Path, make_trainer):
    recorder = Recorder(tmp_path / "run")
    trainer = make_trainer(callbacks=[recorder], max_steps=1)
    trainer.train()
    trainer.train()
    assert recorder.run_dir == tmp_path / "run-2"
    assert {open_run(tmp_path / name).status for name in ("run", "run-2")} == {"finished"}


@pytest.mark.slow
def test_a_locked_directory_is_left_alone(tmp_path: Path, make_trainer):
    """Two trainers at once on one directory: the second records beside it."""
    other = Recorder(tmp_path / "run")

    class Nested(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 1:
                make_trainer(callbacks=[other], max_steps=1, output_dir=str(tmp_path / "other")).train()

    recorder = Recorder(tmp_path / "run")
    make_trainer(callbacks=[recorder, Nested()], max_steps=2).train()
    assert (recorder.run_dir, other.run_dir) == (tmp_path / "run", tmp_path / "run-2")
    assert open_run(tmp_path / "run").last_step == 2


class StopAt(TrainerCallback):
    def __init__(self, step: int, when: str = "on_step_end") -> None:
        setattr(self, when, self._stop)
        self._step = step

    def _stop(self, args, state, control, **kwargs):
        if state.global_step == self._step:
            control.should_training_stop = True
        return control


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_early_stop_still_measures_the_last_step(tmp_path: Path, make_trainer, watcher, order):
    recorder = Recorder(tmp_path / "run")
    stop = StopAt(3)
    callbacks = [watcher, stop, recorder] if order == "before" else [watcher, recorder, stop]
    make_trainer(callbacks=callbacks, max_steps=50).train()
    run = open_run(tmp_path / "run")
    assert run.status == "stopped_early"
    assert run.tensors.step.values.tolist() == [1, 2, 3]
    assert run.spectra.step.values.tolist() == [1, 3]
    name = "model.layers.0.mlp.up_proj.weight"
    true = float((watcher.after[-1][name].double() - watcher.start[name].double()).norm())
    assert float(run.tensors["delta_norm"].sel(tensor=name)[-1]) == pytest.approx(true, rel=1e-5)
    assert np.isfinite(run.layers["layer_delta"].values[-1]).all()


@pytest.mark.slow
def test_an_interrupt_leaves_a_whole_run(tmp_path: Path, make_trainer):
    class Interrupt(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == 3:
                raise KeyboardInterrupt

    recorder = Recorder(tmp_path / "run")
    trainer = make_trainer(callbacks=[Interrupt(), recorder], max_steps=50)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    recorder.close("stopped_early")
    run = open_run(tmp_path / "run")
    assert run.status == "stopped_early"
    assert run.tensors.step.values.tolist() == [1, 2, 3]
    assert run.spectra.step.values.tolist() == [1, 3]
    assert np.isfinite(run.tensors["delta_norm"].values[-1]).all()
    assert "_calculate_rewards" not in vars(trainer)


def resumed_run(tmp_path: Path, make_trainer, watchers, load, **arguments):
    """Train 4 steps with a checkpoint at 3, then resume from it to 6."""
    saving = {"save_strategy": "steps", "save_steps": 3, **arguments}
    config = RecordConfig(preset="full")
    make_trainer(load(), [watchers[0], Recorder(tmp_path / "run", config), StopAt(4)], max_steps=6, **saving).train()
    trainer = make_trainer(load(), [watchers[1], Recorder(tmp_path / "run", config)], max_steps=6, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "output" / "checkpoint-3"))
    return open_run(tmp_path / "run")


@pytest.mark.parametrize(
    "source", ["checkpoint", pytest.param("base", marks=pytest.mark.slow), pytest.param("lora", marks=pytest.mark.slow)]
)
def test_a_resume_appends_and_keeps_where_the_run_began(
    tmp_path: Path, make_trainer, make_model, make_watcher, tokenizer, source
):
    arguments, load = {}, make_model
    if source == "checkpoint":
        path = tmp_path / "model"
        make_model().save_pretrained(path)
        tokenizer.save_pretrained(path)
        load = partial(str, path)
    if source == "lora":
        from peft import LoraConfig  # noqa: PLC0415

        arguments = {"peft_config": LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")}
    first, second = make_watcher(), make_watcher()
    run = resumed_run(tmp_path, make_trainer, (first, second), load, **arguments)
    assert run.manifest.reference["source"] == ("checkpoint" if source == "checkpoint" else "base")
    assert run.tensors.step.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert run.tensors.segment.values.tolist() == [0, 0, 0, 1, 1, 1]
    assert [segment["start_step"] for segment in run.manifest.segments] == [0, 3]
    assert run.status == "finished"
    assert run.last_step == 6
    for name, end in second.after[-1].items():
        recorded = name.removeprefix("base_model.model.").replace(".default.weight", "")
        true = float((end.double() - first.start[name].double()).norm())
        assert float(run.tensors["delta_norm"].sel(tensor=recorded)[-1]) == pytest.approx(true, rel=1e-5, abs=1e-12)


@pytest.mark.slow
def test_a_lost_start_is_not_guessed(tmp_path: Path, make_trainer, make_model, tokenizer):
    path = tmp_path / "model"
    make_model().save_pretrained(path)
    tokenizer.save_pretrained(path)
    saving = {"save_strategy": "steps", "save_steps": 2}
    config = RecordConfig(preset="full")
    make_trainer(str(path), [Recorder(tmp_path / "run", config), StopAt(2)], max_steps=4, **saving).train()
    make_model(seed=1).save_pretrained(path)
    trainer = make_trainer(str(path), [Recorder(tmp_path / "run", config)], max_steps=4, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "output" / "checkpoint-2"))
    run = open_run(tmp_path / "run")
    assert np.isfinite(run.tensors["delta_norm"].values[:2]).all()
    assert np.isnan(run.tensors["delta_norm"].values[2:]).all()
    assert any("gone or changed" in event["why"] for event in run.events)


@pytest.mark.slow
def test_a_resume_without_a_run_starts_one(tmp_path: Path, make_trainer, caplog):
    saving = {"save_strategy": "steps", "save_steps": 2}
    make_trainer(callbacks=[], max_steps=2, **saving).train()
    recorder = Recorder(tmp_path / "run")
    trainer = make_trainer(callbacks=[recorder], max_steps=4, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "output" / "checkpoint-2"))
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == [3, 4]
    assert run.manifest.reference["step"] == 2, "displacement counts from where recording began, and says so"
    assert any("recording a new run" in record.getMessage() for record in caplog.records)


KILLED = """
    import os, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    import conftest
    from transformers import TrainerCallback
    from grpodyn import Recorder

    unwrap = lambda fixture: fixture.__wrapped__ if hasattr(fixture, "__wrapped__") else fixture.__pytest_wrapped__.obj
    make_model, make_dataset = unwrap(conftest.make_model)(), unwrap(conftest.make_dataset)()
    tokenizer, folder = unwrap(conftest.tokenizer)(), Path({folder!r})
    make_trainer = unwrap(conftest.make_trainer)(folder, tokenizer, make_model, make_dataset)

    class Kill(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            if state.global_step == 4:
                os.kill(os.getpid(), 9)

    callbacks = [Kill(), Recorder(folder / "run")]
    # No log at the step that is saved, for a log before a checkpoint commits too.
    make_trainer(callbacks=callbacks, max_steps=8, save_strategy="steps", save_steps=2, logging_steps=3).train()
"""


@pytest.mark.slow
def test_a_run_killed_as_it_saves_resumes_without_a_gap(tmp_path: Path, make_trainer):
    """A step's rows are on disk before its checkpoint is: the resumed run has every step once."""
    script = textwrap.dedent(KILLED).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    died = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONWARNINGS": "ignore"}, check=False)
    assert died.returncode == -9
    assert open_run(tmp_path / "run").status == "interrupted"
    assert open_run(tmp_path / "run").tensors.step.values.tolist() == [1, 2, 3, 4]
    saving = {"save_strategy": "steps", "save_steps": 2}
    trainer = make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=8, **saving)
    trainer.train(resume_from_checkpoint=str(tmp_path / "output" / "checkpoint-4"))
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == list(range(1, 9))
    assert run.status == "finished"
    assert torch.tensor(run.tensors["delta_norm"].values[-1]).isfinite().all()


def test_the_manifest_names_what_holds_the_start(tmp_path: Path, make_trainer):
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1).train()
    reference = open_run(tmp_path / "run").manifest.reference
    true = hashlib.sha256((tmp_path / "run" / "base" / "start.safetensors").read_bytes()).hexdigest()
    assert reference["sha256"] == {"start.safetensors": true}
    assert (reference["source"], reference["dtype"], reference["step"]) == ("base", "float32", 0)
