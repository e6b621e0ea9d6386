"""Adapted weights under DoRA: their effective update is a dense matrix, and their rows say how it moves."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.spectra.ranks import effective_rank, energy_rank, stable_rank

STEPS = 6


def conv1d_model() -> GPT2LMHeadModel:
    """GPT-2 stores its weights (in, out)."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=19, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=1)
    )


def with_dora(model, **options):
    torch.manual_seed(1)
    return get_peft_model(model, LoraConfig(r=2, lora_alpha=6, use_dora=True, task_type="CAUSAL_LM", **options))


def merged(peft_model) -> dict[str, torch.Tensor]:
    """Return the weights as PEFT merges them, in float64, by the names of the bare model."""
    copied = copy.deepcopy(peft_model).double().merge_and_unload()
    return {name: parameter.detach().clone() for name, parameter in copied.named_parameters()}


def train(model, run_dir: Path, config: RecordConfig, steps: int = STEPS) -> list[dict[str, torch.Tensor]]:
    """Record some steps; return the merged weights before the first and after each."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    states = [merged(model)]
    generator = torch.Generator().manual_seed(2)
    with Recorder(run_dir, config).attach(model, optimizer, max_steps=steps) as recorder:
        for _ in range(steps):
            ids = torch.randint(0, 19, (2, 8), generator=generator)
            optimizer.zero_grad()
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            states.append(merged(model))
            recorder.step()
    return states


@pytest.mark.parametrize("kind", ["linear", "conv1d"])
def test_rows_equal_the_weights_that_peft_merges(tmp_path: Path, make_model, kind: str):
    if kind == "linear":
        model = with_dora(make_model(), target_modules=["q_proj", "down_proj"])
    else:
        model = with_dora(conv1d_model(), target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True)
    states = train(model, tmp_path / "run", RecordConfig(preset="full"))
    run = open_run(tmp_path / "run")
    assert not [event for event in run.events if "fault" in event["what"]]
    rows = run.tensors.tensor.values[run.tensors["source"].values == "lora"]
    assert len(rows) == (4 if kind == "linear" else 8)
    for name in rows:
        tensors, spectra = run.tensors.sel(tensor=name), run.spectra.sel(tensor=name)
        start, size = states[0][name], float(states[0][name].norm())
        for t in range(STEPS):
            step, delta = states[t + 1][name] - states[t][name], states[t + 1][name] - start
            assert float(tensors["update_norm"][t]) == pytest.approx(float(step.norm()), rel=1e-5)
            assert float(tensors["delta_norm"][t]) == pytest.approx(float(delta.norm()), rel=1e-5)
            assert float(tensors["update_ratio"][t]) == pytest.approx(float(step.norm()) / size, rel=1e-5)
            true = torch.linalg.svdvals(delta).numpy()
            measured = spectra.isel(row=spectra.step.values.tolist().index(t + 1))
            assert float(measured["effective_rank"]) == pytest.approx(effective_rank(true), rel=1e-5)
            assert float(measured["stable_rank"]) == pytest.approx(stable_rank(true), rel=1e-5)
            assert float(measured["energy_rank_90"]) == energy_rank(true, 0.9)
            of_step = torch.linalg.svdvals(step).numpy()
            assert float(measured["update_effective_rank"]) == pytest.approx(effective_rank(of_step), rel=1e-5)
        # Rescaled rows: the update is no product of rank 2.
        assert np.linalg.matrix_rank(delta.numpy(), tol=1e-6 * true[0]) > 2
        shift = np.linalg.norm(torch.linalg.svdvals(states[-1][name]) - torch.linalg.svdvals(start))
        shift /= np.linalg.norm(torch.linalg.svdvals(start))
        assert float(spectra["spectral_shift"][-1]) == pytest.approx(shift, rel=1e-4)


def test_the_intended_step_is_that_of_all_three_factors(tmp_path: Path, make_model):
    """In float32 the stored step of A, B and the magnitudes is the intended one up to rounding."""
    train(with_dora(make_model(), target_modules=["q_proj"]), tmp_path / "run", RecordConfig(preset="full"))
    tensors = open_run(tmp_path / "run").tensors
    of_dora = tensors.isel(tensor=tensors["source"].values == "lora")
    np.testing.assert_allclose(of_dora["update_norm_intended"], of_dora["update_norm"], rtol=1e-4)


def test_a_dense_update_is_formed_where_spectra_are_due_and_nowhere_else(tmp_path: Path, make_model):
    config = RecordConfig(
        preset="full", every={"effective_rank": 3}, probes=["update_norm", "delta_norm", "effective_rank"]
    )
    states = train(with_dora(make_model(), target_modules=["q_proj"]), tmp_path / "run", config, steps=8)
    run = open_run(tmp_path / "run")
    of_dora = run.tensors.isel(tensor=run.tensors["source"].values == "lora")
    formed = of_dora["delta_norm"].notnull().all("tensor").values
    assert [step for step, known in zip(of_dora.step.values, formed, strict=True) if known] == [1, 3, 6, 8]
    name = str(of_dora.tensor.values[0])
    last = float((states[-1][name] - states[0][name]).norm())
    assert float(of_dora["delta_norm"].sel(tensor=name)[-1]) == pytest.approx(last, rel=1e-5)
    factors = run.tensors.isel(tensor=run.tensors["source"].values == "factor")
    assert bool(factors["update_norm"].notnull().all())
    reasons = {entry["what"]: entry["why"] for entry in run.manifest.recorder["skipped"]}
    assert any("under DoRA" in what for what in reasons)


def test_a_mix_of_a_dora_and_a_plain_adapter_adds_up(tmp_path: Path, make_model):
    model = with_dora(make_model(), target_modules=["q_proj"])
    model.add_adapter("plain", LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B.plain" in name:
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(3))
    model.base_model.set_adapter(["default", "plain"])
    attached = model.base_model.model.model.layers[0].self_attn.q_proj
    base = attached.get_base_layer().weight.detach().double()

    def now() -> torch.Tensor:
        a, b = (getattr(attached, f"lora_{x}")["default"].weight.detach().double() for x in "AB")
        directed = base + 3.0 * (b @ a)
        magnitude = attached.lora_magnitude_vector["default"].weight.detach().double()
        rescaled = (magnitude / directed.norm(dim=1))[:, None] * directed - base
        a, b = (getattr(attached, f"lora_{x}")["plain"].weight.detach().double() for x in "AB")
        return rescaled + 2.0 * (b @ a)

    start = now()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    with Recorder(tmp_path / "run", RecordConfig(preset="full")).attach(model, optimizer, max_steps=2) as recorder:
        for _ in range(2):
            ids = torch.arange(8)[None]
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            recorder.step()
    row = open_run(tmp_path / "run").tensors["delta_norm"].sel(tensor="model.layers.0.self_attn.q_proj.weight")
    assert float(row[-1]) == pytest.approx(float((now() - start).norm()), rel=1e-5)
