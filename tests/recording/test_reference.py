"""W_0 comes from what equals the live weights bit for bit, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from grpodyn.naming.inventory import take_inventory
from grpodyn.recording.checkpoint_files import CheckpointFiles, folder_of
from grpodyn.recording.pieces import Piece
from grpodyn.recording.reference import equal_bits, establish, reopen

LIMIT = 1 << 30


def stored_of(model):
    return take_inventory(model).stored


def assert_is_start(reference, stored, start):
    for i, entry in enumerate(stored):
        assert torch.equal(reference.piece(Piece(i), entry.parameter), start[entry.live_name])


def snapshot(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def perturb(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)


def test_the_checkpoint_on_disk(tmp_path: Path, make_model):
    make_model().save_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    start = snapshot(model)
    reference = establish(stored_of(model), model.config, None, tmp_path, LIMIT)
    perturb(model)
    assert reference.facts["source"] == "checkpoint"
    assert reference.facts["path"] == str(tmp_path / "model")
    assert not (tmp_path / "base").exists()
    assert_is_start(reference, stored_of(model), start)
    again = reopen(stored_of(model), None, tmp_path, json.loads(json.dumps(reference.facts)))
    assert_is_start(again, stored_of(model), start)


def test_a_half_precision_checkpoint_of_a_float32_model(tmp_path: Path, make_model):
    make_model(dtype="bfloat16").save_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    reference = establish(stored_of(model), model.config, None, tmp_path, LIMIT)
    assert reference.facts["source"] == "checkpoint"


def test_a_sharded_checkpoint(tmp_path: Path, make_model):
    make_model().save_pretrained(tmp_path / "model", max_shard_size="20KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert establish(stored_of(model), model.config, None, tmp_path, LIMIT).facts["source"] == "checkpoint"


def test_one_changed_bit_is_copied_instead(tmp_path: Path, make_model):
    make_model().save_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        weight = model.model.norm.weight
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    start = snapshot(model)
    reference = establish(stored_of(model), model.config, None, tmp_path, LIMIT)
    perturb(model)
    assert reference.facts["tensors"] == {"checkpoint": 25, "base": 1}
    assert list(CheckpointFiles(tmp_path / "base", ["start.safetensors"])._where) == ["model.norm.weight"]
    assert_is_start(reference, stored_of(model), start)


def test_the_trainers_reference_model(tmp_path: Path, make_model):
    model, other = make_model(seed=3), make_model(seed=3)
    reference = establish(stored_of(model), model.config, other, tmp_path, LIMIT)
    assert reference.facts["source"] == "reference_model"
    start = snapshot(model)
    perturb(model)
    assert_is_start(reference, stored_of(model), start)


def test_nothing_holds_it_and_a_copy_is_too_large(tmp_path: Path, make_model):
    model = make_model()
    reference = establish(stored_of(model), model.config, None, tmp_path, 1000)
    assert reference.tensors == [None] * 26
    assert reference.facts["source"] == "none"
    (left,) = reference.unmeasured
    assert "record.base_limit" in left.why
    with pytest.raises(KeyError):
        reference.piece(Piece(0), model.model.norm.weight)


def test_a_start_that_changed_on_disk_is_not_trusted(tmp_path: Path, make_model):
    make_model().save_pretrained(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    facts = establish(stored_of(model), model.config, None, tmp_path, LIMIT).facts
    make_model(seed=8).save_pretrained(tmp_path / "model")
    again = reopen(stored_of(model), None, tmp_path, facts)
    assert again.tensors == [None] * 26
    assert "gone or changed" in again.unmeasured[0].why


def test_mapped_files_take_no_anonymous_memory(tmp_path: Path):
    rollup = Path("/proc/self/smaps_rollup")
    if not rollup.exists():
        pytest.skip("the kernel does not tell anonymous memory apart")

    def anonymous() -> int:
        line = next(line for line in rollup.read_text().splitlines() if line.startswith("Anonymous"))
        return int(line.split()[1]) * 1024

    size = 64 << 20
    save_file({"w": torch.ones(size // 4)}, tmp_path / "model.safetensors")
    before = anonymous()
    tensor = CheckpointFiles(tmp_path).tensor("w")
    assert float(tensor.sum()) == size // 4
    assert anonymous() - before < size // 8


def test_digests_are_those_of_the_files(tmp_path: Path):
    import hashlib  # noqa: PLC0415

    save_file({"w": torch.ones(3)}, tmp_path / "model.safetensors")
    true = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    assert CheckpointFiles(tmp_path).sha256() == {"model.safetensors": true}
    # A hub cache links to a blob that is named by its digest: it is believed, not read.
    blob = tmp_path / ("ab" * 32)
    blob.write_bytes((tmp_path / "model.safetensors").read_bytes())
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "model.safetensors").symlink_to(blob)
    assert CheckpointFiles(tmp_path / "snapshot").sha256() == {"model.safetensors": "ab" * 32}


def test_a_model_from_nowhere_has_no_folder(make_model):
    assert folder_of(make_model().config) is None
    assert folder_of(None) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
def test_bits_are_compared_and_not_values(dtype):
    x = torch.arange(6).to(dtype).view(2, 3)
    assert equal_bits(x, x.clone())
    assert equal_bits(x.T, x.clone().T)
    if dtype.is_floating_point:
        nan = torch.full((2,), torch.nan, dtype=dtype)
        assert equal_bits(nan, nan.clone())
        zero = torch.zeros(1, dtype=dtype)
        assert not equal_bits(zero, -zero)
    assert not equal_bits(x, x.double() if dtype != torch.float64 else x.float())
