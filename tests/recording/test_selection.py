"""`record.only` and `record.skip` in a run: what is recorded, what is named, and a choice that leaves nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig


def test_what_is_chosen_is_recorded_and_the_rest_is_named(tmp_path: Path, make_trainer):
    config = RecordConfig(only=[1, "*.0.*.up_proj.weight"], skip=["norm", "q_prj"])
    make_trainer(callbacks=[Recorder(tmp_path / "run", config)], max_steps=2).train()
    run = open_run(tmp_path / "run")
    names = [str(name) for name in run.tensors["tensor"].values]
    assert names[0] == "model.layers.0.mlp.up_proj.weight"
    assert all(name.startswith("model.layers.1.") for name in names[1:])
    assert len(names) == 13
    assert np.isfinite(run.tensors["update_norm"].values).all()
    # Of layer 0 one tensor is recorded, of layer 1 all of them.
    assert np.isfinite(run.layers["layer_delta"].values).tolist() == [[False, True]] * 2
    skipped = {entry["what"]: entry["why"] for entry in run.manifest.recorder["skipped"]}
    assert skipped["11 tensors of model.layers.0"] == "left out by record.only or record.skip"
    assert skipped["record.skip: 'q_prj'"] == "matches no tensor; did you mean 'q_proj'?"
    assert run.manifest.recorder["config"]["only"] == [1, "*.0.*.up_proj.weight"]


def test_a_choice_that_leaves_nothing_is_refused_and_training_goes_on(tmp_path: Path, make_trainer):
    recorder = Recorder(tmp_path / "run", RecordConfig(only=["no_such_thing"]))
    assert make_trainer(callbacks=[recorder], max_steps=1).train().global_step == 1
    assert "leave none of 26 tensors" in (recorder.refused or "")
    assert not (tmp_path / "run").exists()
