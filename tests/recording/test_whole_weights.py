"""Spectral shift, principal angle and overlap of a run, against dense decompositions of whole copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.spectra.subspaces import compare

PROBES = ("spectral_shift", "principal_angle", "principal_overlap")


def check(run, names: list[str], weights_at) -> None:
    assert run.spectra["step"].values.tolist() == [1, 3]
    for row, step in enumerate((1, 3)):
        for name in names:
            start, now = (w.double().numpy() for w in weights_at(name, step))
            s0, s1 = (np.linalg.svd(w, compute_uv=False) for w in (start, now))
            found = {probe: float(run.spectra[probe].isel(row=row).sel(tensor=name)) for probe in PROBES}
            # The shift is a difference of float32 weights: half a unit in their last place is 3e-8 of them.
            assert found["spectral_shift"] == pytest.approx(np.linalg.norm(s1 - s0) / np.linalg.norm(s0), rel=1e-3)
            moved = np.linalg.norm(now - start)
            assert found["spectral_shift"] * np.linalg.norm(s0) <= moved * (1 + 1e-6)
            change = compare(torch.from_numpy(start), torch.from_numpy(now))
            angles = np.concatenate([change.angles_left, change.angles_right])
            assert found["principal_angle"] == pytest.approx(angles.max(), rel=1e-3)
            assert found["principal_overlap"] == pytest.approx(change.changed_principal / change.changed, abs=0.01)


def test_full_fine_tuning(tmp_path: Path, make_trainer, watcher):
    recorder = Recorder(tmp_path / "run", RecordConfig(probes=list(PROBES)))
    make_trainer(callbacks=[watcher, recorder], max_steps=3).train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    names = [name for name in watcher.start if "_proj.weight" in name]
    assert len(names) == 14
    check(run, names, lambda name, step: (watcher.start[name], watcher.after[step - 1][name]))
    assert run.spectra["principal_angle"].attrs["k"] == 16
    assert run.spectra["principal_angle"].attrs["unit"] == "rad"


@pytest.mark.slow
def test_lora_adds_its_update_to_the_frozen_weight(tmp_path: Path, make_trainer, make_model, watcher):
    config = LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "k_proj", "down_proj"], task_type="CAUSAL_LM")
    recorder = Recorder(tmp_path / "run", RecordConfig(probes=list(PROBES)))
    base = {name: p.detach().clone() for name, p in make_model().named_parameters()}
    trainer = make_trainer(callbacks=[watcher, recorder], max_steps=3, learning_rate=1e-2, peft_config=config)
    trainer.train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    names = [str(n) for n in run.spectra["tensor"].values[run.spectra["source"].values == "lora"]]
    assert len(names) == 6

    def weights_at(name: str, step: int):
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        a, b = (watcher.after[step - 1][f"{stem}.lora_{x}.default.weight"].double() for x in "AB")
        return base[name], base[name].double() + 8.0 * b @ a

    check(run, names, weights_at)


def test_what_is_too_large_is_left_out_and_said(tmp_path: Path, make_trainer):
    config = RecordConfig(probes=["spectral_shift", "stable_rank"], decomposition_limit=16)
    make_trainer(callbacks=[Recorder(tmp_path / "run", config)], max_steps=2).train()
    run = open_run(tmp_path / "run")
    last = run.spectra.isel(row=-1)
    measured = {str(n) for n in last["tensor"].values[np.isfinite(last["spectral_shift"].values)]}
    # The smaller side of a key or value projection of two heads of 8 is 16; every other matrix has one of 32.
    assert measured == {f"model.layers.{i}.self_attn.{m}_proj.weight" for i in (0, 1) for m in "kv"}
    assert np.isfinite(last["stable_rank"].values).sum() == 14
    skipped = {entry["what"]: entry["why"] for entry in run.manifest.recorder["skipped"]}
    assert skipped["singular vectors of 10 matrices"] == "their sides exceed record.decomposition_limit (16)"


@pytest.mark.slow
def test_presets_but_full_leave_them_out(tmp_path: Path, make_trainer):
    make_trainer(callbacks=[Recorder(tmp_path / "run")], max_steps=1).train()
    assert not set(PROBES) & set(open_run(tmp_path / "run").spectra)
