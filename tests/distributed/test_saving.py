"""`save_model=True` where no rank holds the model: the first one saves it whole, once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import GPT2LMHeadModel

from tests.distributed.comparing import faults, read

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("way", ["fsdp2", "fsdp1", "ddp"])
def test_a_model_is_saved_whole(two_more: tuple[Path, str], alone: Path, way: str):
    folder = two_more[0] / f"{way}-saved" / "rank0" / "model"
    loaded = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float64)
    expected = torch.load(alone / "one-rank0.pt")
    assert loaded.config.architectures == ["GPT2LMHeadModel"]
    for ours, theirs in zip(loaded.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=0, atol=1e-10)
    # Byte for byte what the ranks of the same training hold.
    shards = [torch.load(two_more[0] / f"{way}-saved-rank{rank}.pt") for rank in range(2)]
    if way == "fsdp2":
        wholes = [torch.cat(parts) for parts in zip(*shards, strict=True)]
        assert all(torch.equal(a.detach(), b) for a, b in zip(loaded.parameters(), wholes, strict=True))
    assert (folder / "tokenizer.txt").is_file()
    assert faults(read(two_more[0], f"{way}-saved")) == []


@pytest.mark.parametrize("way", ["fsdp2", "fsdp1"])
def test_an_adapter_is_saved_alone(two_more: tuple[Path, str], alone: Path, way: str):
    saved = load_file(two_more[0] / f"{way}-lora-saved" / "rank0" / "model" / "adapter_model.safetensors")
    assert len(saved) == 8
    assert all(".lora_A.weight" in name or ".lora_B.weight" in name for name in saved)
    # In the order of the model, and only what is trained.
    trained = [p for p in torch.load(alone / "one-lora-rank0.pt") if 2 in p.shape]
    for ours, theirs in zip(saved.values(), trained, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_what_cannot_be_saved_is_said(two_more: tuple[Path, str]):
    recorded = read(two_more[0], "zero3-saved")
    (why,) = [event["why"] for event in recorded.events if event["what"] == "model not saved"]
    assert why == "it is partitioned by DeepSpeed ZeRO-3; let the trainer save it (trainer.save_model)"
    assert not (recorded.path / "model").exists()
