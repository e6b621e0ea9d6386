"""What is recorded over real GRPO steps equals what whole copies of the weights say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.spectra.ranks import effective_rank, energy_rank, stable_rank

STEPS = 20
SLOW = pytest.mark.slow


def batching_case(accumulation: int, iterations: int, *extra, marks=()):
    batching = {"gradient_accumulation_steps": accumulation, "num_iterations": iterations}
    return pytest.param(batching, *extra, id=f"ga{accumulation}-iterations{iterations}", marks=marks)


EVERY_STEP = RecordConfig(preset="full")


class Recorded:
    """Arrays of a dataset as numpy: label-based access a hundred times a step would take most of the test's time."""

    def __init__(self, dataset) -> None:
        self.names = [str(name) for name in dataset.tensor.values]
        self.place = {name: i for i, name in enumerate(self.names)}
        self.arrays = {name: dataset[name].values for name in dataset.data_vars}
        self.source = dataset["source"].values
        self.kind = dataset["kind"].values
        self.step = dataset.step.values.tolist()

    def __call__(self, probe: str, row: int, name: str):
        return self.arrays[probe][row, self.place[name]]

    def from_source(self, source: str) -> list[str]:
        return [name for name, found in zip(self.names, self.source, strict=True) if found == source]


def double_norm(x: torch.Tensor) -> float:
    return float(x.double().norm())


def relative_error(measured: float, true: float) -> float:
    return abs(measured - true) / max(abs(true), 1e-30) if true else abs(measured)


def replayed_adamw(watcher, weight_decay: float, betas=(0.9, 0.999), eps=1e-8):
    """Yield each step that AdamW would take in float64 from the gradients it was given."""
    first = {name: torch.zeros_like(w, dtype=torch.float64) for name, w in watcher.start.items()}
    second = {name: torch.zeros_like(w, dtype=torch.float64) for name, w in watcher.start.items()}
    for t, (gradients, before, rate) in enumerate(
        zip(watcher.gradients, watcher.before, watcher.rates, strict=True), start=1
    ):
        steps = {}
        for name, gradient in gradients.items():
            g = gradient.double()
            first[name] = betas[0] * first[name] + (1 - betas[0]) * g
            second[name] = betas[1] * second[name] + (1 - betas[1]) * g**2
            m, v = first[name] / (1 - betas[0] ** t), second[name] / (1 - betas[1] ** t)
            # Biases, vectors and embeddings decay or not as the trainer decides.
            decay = weight_decay if "norm" not in name and not name.endswith("bias") else 0.0
            steps[name] = -rate * m / (v.sqrt() + eps) - rate * decay * before[name].double()
        yield steps


@pytest.mark.parametrize(
    "batching",
    [
        batching_case(1, 1, marks=SLOW),
        batching_case(1, 2, marks=SLOW),
        batching_case(4, 1, marks=SLOW),
        batching_case(4, 2),
    ],
)
def test_full_fine_tuning(tmp_path: Path, make_trainer, watcher, batching):
    recorder = Recorder(tmp_path / "run", EVERY_STEP)
    trainer = make_trainer(
        callbacks=[watcher, recorder],
        max_steps=STEPS,
        weight_decay=0.1,
        max_grad_norm=0.5,
        learning_rate=3e-3,
        per_device_train_batch_size=4,
        steps_per_generation=max(2, batching["gradient_accumulation_steps"]),
        **batching,
    )
    trainer.train()
    run = open_run(tmp_path / "run")
    assert [event for event in run.events if "fault" in event["what"]] == []
    tensors = Recorded(run.tensors)
    assert tensors.step == list(range(1, STEPS + 1))
    assert set(tensors.names) == set(watcher.start)
    replay = list(replayed_adamw(watcher, 0.1))
    for t in range(STEPS):
        for name in watcher.start:
            step = watcher.after[t][name].double() - watcher.before[t][name].double()
            true = {
                "grad_norm": double_norm(watcher.gradients[t][name]),
                "update_norm": double_norm(step),
                "update_norm_intended": double_norm(replay[t][name]),
                "update_ratio": double_norm(step) / (double_norm(watcher.before[t][name]) or np.nan),
                "delta_norm": double_norm(watcher.after[t][name].double() - watcher.start[name].double()),
            }
            for probe, value in true.items():
                if np.isnan(value):
                    # A bias starts at zero, and its ratio is undefined then.
                    assert np.isnan(tensors(probe, t, name))
                    continue
                assert relative_error(tensors(probe, t, name), value) < 1e-5, (probe, name, t + 1)
    for layer in (0, 1):
        members = [name for name in watcher.start if name.startswith(f"model.layers.{layer}.")]
        for t in range(STEPS):
            moved = sum(double_norm(watcher.after[t][n].double() - watcher.start[n].double()) ** 2 for n in members)
            size = sum(double_norm(watcher.start[n]) ** 2 for n in members)
            recorded = float(run.layers["layer_delta"].sel(layer=layer).isel(row=t))
            assert relative_error(recorded, (moved / size) ** 0.5) < 1e-5
    check_spectra(run, lambda name, t: watcher.after[t - 1][name].double() - watcher.start[name].double())


def check_spectra(run, delta_at):
    """Hold every recorded spectrum against svdvals of the dense displacement at the step it was measured."""
    spectra = Recorded(run.spectra)
    assert {1, STEPS} <= set(spectra.step)
    matrices = {n for n, kind in zip(spectra.names, spectra.kind, strict=True) if kind == "linear"}
    assert len(matrices) == 14
    for r, due in enumerate(spectra.step):
        for name in spectra.names:
            step = int(spectra("measured_step", r, name))
            assert (step >= due) == (name in matrices)
            if name not in matrices:
                assert np.isnan(spectra("effective_rank", r, name))
                continue
            true = torch.linalg.svdvals(delta_at(name, step)).numpy()
            assert relative_error(spectra("effective_rank", r, name), effective_rank(true)) < 1e-5
            assert relative_error(spectra("stable_rank", r, name), stable_rank(true)) < 1e-5
            assert spectra("energy_rank_90", r, name) == energy_rank(true, 0.9)
            leading = spectra("singular_values", r, name)
            kept = min(len(true), len(leading))
            assert np.abs(leading[:kept] - true[:kept]).max() / true[0] < 1e-5


@pytest.mark.parametrize(
    ("batching", "rslora"),
    [
        batching_case(1, 1, False, marks=SLOW),
        batching_case(1, 2, False, marks=SLOW),
        batching_case(4, 1, False, marks=SLOW),
        batching_case(4, 2, False, marks=SLOW),
        batching_case(4, 2, True),
    ],
)
def test_lora(tmp_path: Path, make_trainer, make_model, watcher, batching, rslora):
    config = LoraConfig(r=4, lora_alpha=32, target_modules="all-linear", use_rslora=rslora, task_type="CAUSAL_LM")
    recorder = Recorder(tmp_path / "run", EVERY_STEP)
    trainer = make_trainer(
        callbacks=[watcher, recorder],
        max_steps=STEPS,
        learning_rate=3e-3,
        peft_config=config,
        per_device_train_batch_size=4,
        steps_per_generation=max(2, batching["gradient_accumulation_steps"]),
        **batching,
    )
    base = {
        n.replace(".base_layer", "").removeprefix("base_model.model."): p.detach().clone()
        for n, p in trainer.model.named_parameters()
        if "lora_" not in n
    }
    trainer.train()
    run = open_run(tmp_path / "run")
    assert [event for event in run.events if "fault" in event["what"]] == []
    scale = 32 / (4**0.5 if rslora else 4)

    def product(weights, name, intended=None):
        stem = "base_model.model." + name.removesuffix(".weight")
        a, b = (weights[f"{stem}.lora_{x}.default.weight"].double() for x in "AB")
        if intended is not None:
            a, b = (w + intended[f"{stem}.lora_{x}.default.weight"] for w, x in ((a, "A"), (b, "B")))
        return scale * (b @ a)

    tensors = Recorded(run.tensors)
    modules = tensors.from_source("lora")
    assert len(modules) == 14
    factors = tensors.from_source("factor")
    assert len(factors) == 28
    replay = list(replayed_adamw(watcher, 0.0))
    for t in range(STEPS):
        for name in modules:
            before, after, start = (product(w, name) for w in (watcher.before[t], watcher.after[t], watcher.start))
            true = {
                "update_norm": double_norm(after - before),
                "update_norm_intended": double_norm(product(watcher.before[t], name, replay[t]) - before),
                "update_ratio": double_norm(after - before) / double_norm(base[name]),
                "delta_norm": double_norm(after - start),
            }
            for probe, value in true.items():
                assert relative_error(tensors(probe, t, name), value) < 1e-5, (probe, name, t + 1)
            assert np.isnan(tensors("grad_norm", t, name))
        for name in factors:
            live = f"base_model.model.{name}.default.weight"
            step = watcher.after[t][live].double() - watcher.before[t][live].double()
            assert relative_error(tensors("update_norm", t, name), double_norm(step)) < 1e-5
            assert relative_error(tensors("grad_norm", t, name), double_norm(watcher.gradients[t][live])) < 1e-5
            assert relative_error(tensors("update_norm_intended", t, name), double_norm(replay[t][live])) < 1e-5
    check_spectra(run, lambda name, t: product(watcher.after[t - 1], name) - product(watcher.start, name))
    # The layer's frozen tensors belong to its size.
    size = sum(double_norm(w) ** 2 for n, w in base.items() if n.startswith("model.layers.0."))
    moved = sum(double_norm(product(watcher.after[-1], n)) ** 2 for n in modules if n.startswith("model.layers.0."))
    assert relative_error(float(run.layers["layer_delta"].isel(row=-1, layer=0)), (moved / size) ** 0.5) < 1e-5
    assert json.loads((tmp_path / "run" / "run.json").read_text())["lora"]["r"] == 4


def test_a_trained_adapter_is_measured_from_where_it_starts(tmp_path: Path, make_trainer, make_model, watcher):
    """An adapter passed in is not zero at the start, and TRL adds a frozen copy of it (A19)."""
    model = get_peft_model(make_model(), LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(3))
    trainer = make_trainer(
        model=model, callbacks=[watcher, Recorder(tmp_path / "run", EVERY_STEP)], beta=0.1, max_steps=3
    )
    assert any(".ref." in name for name, _ in trainer.model.named_parameters())
    trainer.train()
    tensors = Recorded(open_run(tmp_path / "run").tensors)
    assert not [name for name in tensors.names if "ref" in name]
    assert len(tensors.from_source("lora")) == 4
    scale = trainer.model.peft_config["default"].lora_alpha / 2
    for name in tensors.from_source("lora"):
        stem = "base_model.model." + name.removesuffix(".weight")

        def product(weights, stem=stem):
            a, b = (weights[f"{stem}.lora_{x}.default.weight"].double() for x in "AB")
            return scale * b @ a

        true = double_norm(product(watcher.after[-1]) - product(watcher.start))
        assert relative_error(tensors("delta_norm", -1, name), true) < 1e-5
