"""Activation shift over real training, against forwards of fresh models; and that a forward leaves nothing behind."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import TrainerCallback

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.naming.inventory import take_inventory
from grpodyn.probe import Need
from grpodyn.recording.activations import Activations
from grpodyn.recording.plan import map_layers

MEGABYTE = 1 << 20
PROMPTS = ["1+2=", "12+30=", "7"]


class Copies(TrainerCallback):
    """The model's weights before training and after every step."""

    def __init__(self) -> None:
        self.states = []

    def _keep(self, model) -> None:
        self.states.append({name: value.detach().clone() for name, value in model.state_dict().items()})

    def on_train_begin(self, args, state, control, **kwargs):
        self._keep(kwargs["model"])

    def on_optimizer_step(self, args, state, control, **kwargs):
        self._keep(kwargs["model"])


def hidden_states(model, tokenizer, prompts) -> list[list[torch.Tensor]]:
    """Each block's output on each prompt alone, block by block: no padding, no mask, no hook."""
    inner = model.get_base_model().model if hasattr(model, "peft_config") else model.model
    model.eval()
    found = []
    with torch.no_grad():
        for prompt in prompts:
            ids = torch.tensor([tokenizer(prompt)["input_ids"]])
            hidden, outputs = inner.embed_tokens(ids), []
            positions = inner.rotary_emb(hidden, torch.arange(ids.shape[1])[None])
            for block in inner.layers:
                hidden = block(hidden, position_embeddings=positions)
                hidden = hidden[0] if isinstance(hidden, tuple) else hidden
                outputs.append(hidden)
            found.append(outputs)
    return found


def true_shift(model, start, tokenizer, prompts) -> list[float]:
    now, before = (hidden_states(m, tokenizer, prompts) for m in (model, start))
    shifts = []
    for layer in range(len(now[0])):
        pairs = [(a[layer].double(), b[layer].double()) for a, b in zip(now, before, strict=True)]
        moved = sum(float((a - b).square().sum()) for a, b in pairs)
        shifts.append((moved / sum(float(b.square().sum()) for _, b in pairs)) ** 0.5)
    return shifts


@pytest.mark.parametrize(
    "lora", [pytest.param(False, id="full"), pytest.param(True, id="lora", marks=pytest.mark.slow)]
)
def test_against_forwards_of_fresh_models(tmp_path: Path, make_trainer, make_model, tokenizer, lora):
    copies = Copies()
    config = RecordConfig(probes=["activation_shift"], every={"activation_shift": 2}, activation_prompts=PROMPTS)
    adapter = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    make_trainer(
        callbacks=[copies, Recorder(tmp_path / "run", config)],
        max_steps=5,
        learning_rate=1e-2,
        **({"peft_config": adapter} if lora else {}),
    ).train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    recorded = run.layers["activation_shift"]
    assert recorded["step"].values.tolist() == [1, 2, 4, 5]

    def model_at(step: int):
        model = get_peft_model(make_model(), adapter) if lora else make_model()
        model.load_state_dict(copies.states[step])
        return model

    for row, step in enumerate((1, 2, 4, 5)):
        expected = true_shift(model_at(step), model_at(0), tokenizer, PROMPTS)
        np.testing.assert_allclose(recorded.values[row], expected, rtol=1e-4, atol=1e-7)
    assert (recorded.values[-1] > 1e-3).all()
    assert run.manifest.recorder["activation_tokens"] == sum(len(prompt) for prompt in PROMPTS)


def test_prompts_of_the_first_batch_and_the_last_step_of_an_early_stop(tmp_path: Path, make_trainer):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 3

    config = RecordConfig(probes=["activation_shift"])
    make_trainer(callbacks=[Stop(), Recorder(tmp_path / "run", config)], max_steps=9).train()
    recorded = open_run(tmp_path / "run").layers["activation_shift"]
    assert recorded["step"].values.tolist() == [1, 3]
    assert np.isfinite(recorded.values).all()


def watched(model, tokenizer, prompts=PROMPTS, limit=MEGABYTE) -> Activations:
    return Activations(model, map_layers(take_inventory(model)), tokenizer, prompts, limit)


def test_a_forward_leaves_nothing_behind(make_model, tokenizer):
    model = make_model(attention_dropout=0.5)
    model.train()
    model.model.layers[1].mlp.eval()
    modes = [module.training for module in model.modules()]
    hooks = [len(module._forward_hooks) for module in model.modules()]
    states = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    found = watched(model, tokenizer)
    found.begin()
    sums = found.sums()
    # Dropout is off: the same model on the same prompts has not moved at all.
    assert sums[Need.ACTIVATION_SHIFT].tolist() == [0.0, 0.0]
    assert [module.training for module in model.modules()] == modes
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]


def test_a_forward_that_fails_leaves_nothing_behind_either(make_model, tokenizer, monkeypatch):
    model = make_model()
    found = watched(model, tokenizer)
    monkeypatch.setattr(type(model.model.norm), "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found.begin()
    assert all(module.training for module in model.modules()) == model.training
    assert not any(module._forward_hooks for module in model.modules())
    assert found.unavailable == "the forward before the first update failed"
    found.begin()
    assert all(bool(values.isnan().all()) for values in found.sums().values())


def test_padding_does_not_count(make_model, tokenizer):
    """A short prompt beside a long one adds what it adds alone."""
    model = make_model()
    together, short, long = (watched(model, tokenizer, p) for p in (["7", "12+30="], ["7"], ["12+30="]))
    sums = []
    for found in (together, short, long):
        found.begin()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.01)
    sums = [list(found.sums().values()) for found in (together, short, long)]
    for both, one, other in zip(*sums, strict=True):
        np.testing.assert_allclose(both, one + other, rtol=1e-4)


def test_memory_is_bounded_by_cutting_prompts(make_model, tokenizer):
    # Two blocks of width 32: 256 bytes a token. Five tokens fit: 4 of the first prompt, 1 of the second.
    found = watched(make_model(), tokenizer, limit=5 * 256)
    found.begin()
    assert [tuple(h.shape) for h in found._start.values()] == [(5, 32), (5, 32)]
    assert found._inputs["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 0, 0, 0]]


def test_why_there_is_no_shift(make_model, tokenizer):
    assert "record.activation_limit" in (watched(make_model(), tokenizer, limit=100).unavailable or "")
    assert "no tokenizer" in (watched(make_model(), None).unavailable or "")
    without = watched(make_model(), tokenizer, prompts=None)
    without.begin()
    assert "record.activation_prompts" in (without.unavailable or "")
    compiled = make_model()
    compiled.model.layers[0].compile(backend="eager")
    assert "compiled" in (watched(compiled, tokenizer).unavailable or "")
    model = get_peft_model(make_model(), LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    assert watched(model, tokenizer).unavailable is None


def test_repeated_prompts_count_once(make_model, tokenizer):
    found = watched(make_model(), tokenizer, prompts=None)
    found.offer(["1+1="] * 4 + ["2+2="] * 4 + [f"{i}+3=" for i in range(5)])
    found.offer(["9+9="])
    assert found._prompts == ["1+1=", "2+2=", "0+3=", "1+3="]


def resume_once(tmp_path: Path, make_trainer, between) -> tuple[Copies, object]:
    """Train two steps, do something, go on to four; return the copies of both parts and the run."""
    config = RecordConfig(probes=["activation_shift", "delta_norm"], every={"activation_shift": 1})
    copies = Copies()
    for steps in (2, 4):
        make_trainer(
            callbacks=[copies, Recorder(tmp_path / "run", config)], max_steps=steps, save_strategy="steps", save_steps=2
        ).train(resume_from_checkpoint=steps > 2)
        between(tmp_path / "run")
    return copies, open_run(tmp_path / "run")


@pytest.mark.slow
def test_a_resumed_run_is_compared_with_its_first_start(tmp_path: Path, make_trainer, make_model, tokenizer):
    """h_0 is of W_0, not of the weights that the second segment began with."""
    copies, run = resume_once(tmp_path, make_trainer, lambda _: None)
    start, last = make_model(), make_model()
    start.load_state_dict(copies.states[0])
    last.load_state_dict(copies.states[-1])
    ids = load_file(tmp_path / "run" / "base" / "activations.safetensors")
    prompts = ["".join(tokenizer.convert_ids_to_tokens(row[mask.bool()].tolist()))
               for row, mask in zip(ids["input_ids"], ids["attention_mask"], strict=True)]  # fmt: skip
    recorded = run.layers["activation_shift"]
    assert recorded["step"].values.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(recorded.values[-1], true_shift(last, start, tokenizer, prompts), rtol=1e-4)


@pytest.mark.slow
def test_a_resumed_run_whose_start_is_gone_has_no_shift_and_says_why(tmp_path: Path, make_trainer):
    def garble(run_dir: Path) -> None:
        (run_dir / "base" / "activations.safetensors").write_bytes(b"not a file of tensors")

    _, run = resume_once(tmp_path, make_trainer, garble)
    assert "resumed" in {e["what"]: e["why"] for e in run.manifest.recorder["skipped"]}["activation_shift"]
    recorded = run.layers["activation_shift"]
    assert np.isfinite(recorded.values[recorded["step"].values <= 2]).all()
    assert np.isnan(recorded.values[recorded["step"].values > 2]).all()
