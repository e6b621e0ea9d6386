"""Saved weights as a run: displacements and spectra of planted changes, on a model of two layers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM
from typer.testing import CliRunner

from grpodyn.cli.app import build
from grpodyn.errors import UnreadableError, UsageError
from grpodyn.importers.checkpoints import import_checkpoints
from grpodyn.trace.reader import Run, open_run

UP = "model.layers.1.mlp.up_proj.weight"


def model(seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def planted(tmp_path: Path, step: int, size: float) -> tuple[Path, float]:
    """Save a checkpoint whose up_proj of layer 1 has moved in two directions, 3:1."""
    changed = model()
    u, _ = torch.linalg.qr(torch.randn(24, 2, generator=torch.Generator().manual_seed(1)))
    v, _ = torch.linalg.qr(torch.randn(16, 2, generator=torch.Generator().manual_seed(2)))
    change = size * (u * torch.tensor([3.0, 1.0])) @ v.T
    with torch.no_grad():
        changed.get_parameter(UP).add_(change)
    changed.save_pretrained(tmp_path / f"checkpoint-{step}")
    return tmp_path / f"checkpoint-{step}", size * math.sqrt(10)


def column(run: Run, group: str, probe: str, name: str = UP) -> np.ndarray:
    return getattr(run, group)[probe].sel(tensor=name).values


def test_planted_changes_are_measured(tmp_path: Path, base: Path) -> None:
    late, late_norm = planted(tmp_path, 200, 0.2)
    early, early_norm = planted(tmp_path, 100, 0.1)
    facts = import_checkpoints([late, early], base, tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert facts["steps"] == [100, 200]
    assert run.tensors["step"].values.tolist() == [100, 200]
    np.testing.assert_allclose(column(run, "tensors", "delta_norm"), [early_norm, late_norm], rtol=1e-4)
    others = run.tensors["delta_norm"].drop_sel(tensor=UP).values
    assert (others == 0).all()
    # σ = (3, 1): exp of the entropy of (3/4, 1/4); ‖·‖²/σ₁² = 10/9; 90 % of the energy is in the first.
    np.testing.assert_allclose(column(run, "spectra", "effective_rank"), 1.754765, rtol=2e-3)
    np.testing.assert_allclose(column(run, "spectra", "stable_rank"), 10 / 9, rtol=1e-3)
    np.testing.assert_allclose(column(run, "spectra", "energy_rank_90"), 1.0)
    np.testing.assert_allclose(column(run, "spectra", "singular_values")[1, :2], [0.6, 0.2], rtol=1e-4)
    layer = run.layers["layer_delta"].sel(layer=1).values[-1]
    norm = math.sqrt(
        sum(float(p.detach().double().square().sum()) for n, p in model().named_parameters() if ".layers.1." in n)
    )
    assert layer == pytest.approx(late_norm / norm, rel=1e-4)
    assert run.manifest.recorder["source"] == "import"
    assert "update_norm" in facts["skipped"][0]["what"]


def test_tied_weights_are_one_tensor(tmp_path: Path, base: Path) -> None:
    folder, _ = planted(tmp_path, 1, 0.1)
    import_checkpoints([folder], base, tmp_path / "run")
    names = open_run(tmp_path / "run").tensors["tensor"].values.tolist()
    assert "lm_head.weight" not in names
    assert "model.embed_tokens.weight" in names


def adapter(tmp_path: Path, **options: object) -> tuple[Path, torch.Tensor, torch.Tensor]:
    wrapped = get_peft_model(model(), LoraConfig(r=2, lora_alpha=8, target_modules=["up_proj"], **options))
    parameters = dict(wrapped.named_parameters())
    stem = "base_model.model.model.layers.1.mlp.up_proj.lora_{}.default.weight"
    b, a = parameters[stem.format("B")], parameters[stem.format("A")]
    with torch.no_grad():
        b.copy_(1e-4 * torch.randn(b.shape, generator=torch.Generator().manual_seed(3)))
    wrapped.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", b.detach().clone(), a.detach().clone()


@pytest.mark.parametrize("rslora", [False, True])
def test_adapter_is_its_effective_update(tmp_path: Path, base: Path, rslora: bool) -> None:
    folder, b, a = adapter(tmp_path, use_rslora=rslora)
    import_checkpoints([folder], base, tmp_path / "run")
    run = open_run(tmp_path / "run")
    scale = 8 / math.sqrt(2) if rslora else 4.0
    change = scale * b.double() @ a.double()
    np.testing.assert_allclose(column(run, "tensors", "delta_norm"), [float(change.norm())], rtol=1e-5)
    # A change of 1e-4 would drown in the rounding of W + ΔW; a rank over 2 would show it.
    values = torch.linalg.svdvals(change)[:2]
    shares = values / values.sum()
    assert column(run, "spectra", "effective_rank")[0] == pytest.approx(
        math.exp(-float((shares * shares.log()).sum())), rel=1e-3
    )
    assert set(run.tensors["source"].values) == {"lora"}
    assert run.manifest.lora is not None
    assert run.manifest.lora["r"] == 2


def test_history_of_the_trainer_comes_with_it(tmp_path: Path, base: Path) -> None:
    folder, _ = planted(tmp_path, 30, 0.1)
    state = {"global_step": 30, "log_history": [{"step": s, "reward": 0.5, "loss": 0.1} for s in range(1, 31)]}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    import_checkpoints([folder], base, tmp_path / "run")
    assert len(open_run(tmp_path / "run").metric("reward")) == 30


def test_recommend_lora_works_and_names_what_is_missing(tmp_path: Path, base: Path) -> None:
    folder, _ = planted(tmp_path, 100, 0.2)
    import_checkpoints([folder], base, tmp_path / "run")
    result = CliRunner().invoke(build(), ["recommend-lora", str(tmp_path / "run"), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    advice = json.loads(result.output)
    assert advice["peft_config"]["r"] > 0
    assert any("saved weights" in warning for warning in advice["warnings"])


def test_another_model_is_refused(tmp_path: Path, base: Path) -> None:
    other = Qwen3ForCausalLM(Qwen3Config(**{**model().config.to_dict(), "hidden_size": 32}))
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(UnreadableError, match="no checkpoint of"):
        import_checkpoints([tmp_path / "other"], base, tmp_path / "run")


def test_two_of_one_step_are_refused(tmp_path: Path, base: Path) -> None:
    first, _ = planted(tmp_path, 7, 0.1)
    (tmp_path / "b").mkdir()
    second, _ = planted(tmp_path / "b", 7, 0.2)
    with pytest.raises(UsageError, match="both of step 7"):
        import_checkpoints([first, second], base, tmp_path / "run")
