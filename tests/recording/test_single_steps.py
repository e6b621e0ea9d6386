"""What single steps do to the stored weights, over real GRPO steps, against whole copies: counts, shares and ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.spectra.ranks import effective_rank, stable_rank

STEPS = 3


def value(array, row: int, name: str) -> float:
    return float(array.isel(row=row).sel(tensor=name))


def skipped(run) -> str:
    return "\n".join(f"{entry['what']}: {entry['why']}" for entry in run.manifest.recorder["skipped"])


def check_counts(run, watcher, names: dict[str, str]) -> None:
    """Hold the counts against whole copies; `names` leads from the trace's names to the model's."""
    for t in range(STEPS):
        for name, live in names.items():
            before, after, start = watcher.before[t][live], watcher.after[t][live], watcher.start[live]
            changed = float((after != before).double().mean())
            assert value(run.tensors["update_changed_fraction"], t, name) == pytest.approx(changed, rel=1e-6), name
            w, w0 = after.double(), start.double()
            noticeable = (w - w0).abs() > 1e-3 * torch.maximum(w.abs(), w0.abs())
            recorded = value(run.tensors["delta_changed_fraction"], t, name)
            # In float32 the two sides of the comparison may round differently for single elements.
            assert abs(recorded - float(noticeable.double().mean())) <= 1.01 / w.numel(), name


def check_ranks(run, names: list[str], step_of) -> None:
    steps = run.spectra["step"].values.tolist()
    # On a busy machine a sweep may be late and is then skipped; the ends never are.
    assert {1, STEPS} <= set(steps) <= set(range(1, STEPS + 1))
    for row, step in enumerate(steps):
        for name in names:
            true = torch.linalg.svdvals(step_of(name, step - 1)).numpy()
            recorded = value(run.spectra["update_effective_rank"], row, name)
            assert recorded == pytest.approx(effective_rank(true), rel=1e-5)
            assert value(run.spectra["update_stable_rank"], row, name) == pytest.approx(stable_rank(true), rel=1e-5)


def matrices(run, source: str) -> list[str]:
    kept = (run.spectra["source"].values == source) & (run.spectra["kind"].values == "linear")
    return [str(name) for name in run.spectra["tensor"].values[kept]]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_full_fine_tuning(tmp_path: Path, make_trainer, make_model, watcher, dtype):
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full", snapshot_limit=1 << 30))
    model = make_model(dtype=dtype)
    make_trainer(model=model, callbacks=[watcher, recorder], max_steps=STEPS, learning_rate=1e-5).train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    check_counts(run, watcher, {name: name for name in watcher.start})
    names = matrices(run, "full")
    assert len(names) == 14
    check_ranks(run, names, lambda name, t: watcher.after[t][name].double() - watcher.before[t][name].double())
    applied = run.tensors["update_applied_fraction"].sel(tensor=names).values
    # Weights of 0.02 lie 2^-13 = 1.2e-4 apart in bf16: ten times the step. In float32 nothing is lost.
    assert np.nanmedian(applied) == pytest.approx(1.0, abs=1e-3) if dtype == "float32" else np.nanmedian(applied) < 0.9
    stored, meant = (run.tensors[f"update_norm{suffix}"].sel(tensor=names).values for suffix in ("", "_intended"))
    np.testing.assert_allclose(applied, stored / meant, rtol=1e-5)


def test_lora(tmp_path: Path, make_trainer, watcher):
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full", snapshot_limit=1 << 30))
    make_trainer(callbacks=[watcher, recorder], max_steps=STEPS, learning_rate=1e-3, peft_config=config).train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    factors = [str(n) for n in run.tensors["tensor"].values[run.tensors["source"].values == "factor"]]
    check_counts(run, watcher, {name: f"base_model.model.{name}.default.weight" for name in factors})
    effective = matrices(run, "lora")
    assert len(effective) == 14
    for probe in ("update_changed_fraction", "delta_changed_fraction"):
        assert np.isnan(run.tensors[probe].sel(tensor=effective).values).all()
    assert "changed fractions of 14 effective updates" in skipped(run)

    def step_of(name: str, t: int) -> torch.Tensor:
        def product(weights):
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            a, b = (weights[f"{stem}.lora_{x}.default.weight"].double() for x in "AB")
            return 2.0 * b @ a

        return product(watcher.after[t]) - product(watcher.before[t])

    check_ranks(run, effective, step_of)
    applied = run.tensors["update_applied_fraction"].sel(tensor=effective).values
    assert np.nanmedian(applied) == pytest.approx(1.0, abs=1e-3)


def test_what_is_only_sampled_is_estimated_or_left_out(tmp_path: Path, make_trainer, watcher):
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full", copy_limit=20_000))
    make_trainer(callbacks=[watcher, recorder], max_steps=STEPS, learning_rate=1e-6).train()
    run = open_run(tmp_path / "run")
    sampled = run.manifest.recorder["sampled"]
    assert 5 < len(sampled) < 26
    # Small matrices are copied whole beside large ones that are sampled.
    exact = [name for name in watcher.start if name not in sampled]
    recorded = run.tensors["update_changed_fraction"]
    for t in range(STEPS):
        for name in exact:
            true = float((watcher.after[t][name] != watcher.before[t][name]).double().mean())
            assert value(recorded, t, name) == pytest.approx(true, rel=1e-6)
        for name in sampled:
            true = float((watcher.after[t][name] != watcher.before[t][name]).double().mean())
            # At this rate most elements change: a few sampled rows are within 10 points.
            assert abs(value(recorded, t, name) - true) < 0.1
    spectra = run.spectra["update_effective_rank"].isel(row=-1)
    for name in matrices(run, "full"):
        assert np.isnan(float(spectra.sel(tensor=name))) == (name in sampled), name
    assert "spectra of the updates of" in skipped(run)
    assert "record.copy_limit" in skipped(run)
    assert run.manifest.recorder["method"]["update_changed_fraction"].startswith(f"from {len(sampled)} sampled")


@pytest.mark.slow
def test_a_stop_that_nobody_knew_of_still_has_the_last_updates_rank(tmp_path: Path, make_trainer, watcher):
    from transformers import TrainerCallback  # noqa: PLC0415

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 2

    recorder = Recorder(tmp_path / "run")
    trainer: GRPOTrainer = make_trainer(callbacks=[watcher, Stop(), recorder], max_steps=9)
    trainer.train()
    run = open_run(tmp_path / "run")
    assert run.status == "stopped_early"
    assert run.spectra["step"].values.tolist() == [1, 2]
    name = "model.layers.0.mlp.up_proj.weight"
    true = torch.linalg.svdvals(watcher.after[1][name].double() - watcher.before[1][name].double()).numpy()
    assert value(run.spectra["update_effective_rank"], 1, name) == pytest.approx(effective_rank(true), rel=1e-5)
