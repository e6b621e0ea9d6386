"""What several ranks record together is what one process records alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.trace.reader import Run
from tests.distributed.comparing import GROUPS, check_equal, check_same_weights, faults, read
from tests.distributed.launching import trained

NOT_ON_RANKS: dict[str, str] = {}
"""Probes that a sharded model cannot have, and why; docs/distributed.md says so too."""


def check_every_probe(recorded: Run, alone: Run) -> None:
    assert faults(recorded) == []
    assert recorded.status == "finished"
    # 28 tensors, or 12 with adapters, of which some twenty probes are recorded at three steps.
    assert check_equal(recorded, alone) > 500
    for name, probe in registry.probes().items():
        values = getattr(recorded, probe.group)[name].values
        assert np.isfinite(values).any() == (name not in NOT_ON_RANKS), name


def test_every_probe_on_shards_of_two_ranks(two: Path, alone: Path):
    recorded, one = read(two, "fsdp2"), read(alone, "one")
    check_every_probe(recorded, one)
    check_same_weights(two, 2, "fsdp2", "fsdp2-plain")
    assert recorded.manifest.world == {"ranks": 2, "backend": "gloo", "sharding": "sharded"}
    assert recorded.manifest.reference["source"] == "memory"
    assert recorded.manifest.model["parameters"] == one.manifest.model["parameters"]
    assert recorded.manifest.recorder["skipped"] == one.manifest.recorder["skipped"]


def test_every_probe_on_sharded_adapters(two: Path, alone: Path):
    recorded = read(two, "fsdp2-lora")
    check_every_probe(recorded, read(alone, "one-lora"))
    effective = recorded.tensors.sel(tensor=recorded.tensors.source == "lora")
    for name in ("update_norm", "update_norm_intended", "update_ratio", "delta_norm"):
        # B is 0 at the start: the update of the first step is all of it.
        assert (effective[name].values > 0).all(), name
    ranks = recorded.spectra.effective_rank.values[:, recorded.spectra.source.values == "lora"]
    assert ((ranks >= 1) & (ranks <= 2)).all()


@pytest.mark.slow
def test_replicas(two_more: tuple[Path, str], alone: Path):
    folder, _ = two_more
    check_every_probe(read(folder, "ddp"), read(alone, "one"))
    check_same_weights(folder, 2, "ddp", "ddp-plain")
    assert read(folder, "ddp").manifest.world["sharding"] == "replicated"


@pytest.mark.slow
def test_a14_flat_shards_with_original_parameters(two_more: tuple[Path, str], alone: Path):
    """A14: weights of two dimensions are 1-D or empty, and different on each rank."""
    folder, _ = two_more
    check_every_probe(read(folder, "fsdp1"), read(alone, "one"))
    check_every_probe(read(folder, "fsdp1-lora"), read(alone, "one-lora"))
    check_same_weights(folder, 2, "fsdp1", "fsdp1-plain")


@pytest.mark.slow
def test_three_ranks(tmp_path: Path, alone: Path):
    trained(tmp_path, 3, "ddp", "fsdp2", "fsdp2-lora", "fsdp1")
    for way in ("ddp", "fsdp2", "fsdp1"):
        check_every_probe(read(tmp_path, way), read(alone, "one"))
    check_every_probe(read(tmp_path, "fsdp2-lora"), read(alone, "one-lora"))


@pytest.mark.slow
def test_shards_that_are_repeated_count_once(tmp_path: Path, alone: Path):
    trained(tmp_path, 4, "hybrid", "hybrid-lora")
    check_every_probe(read(tmp_path, "hybrid"), read(alone, "one"))
    check_every_probe(read(tmp_path, "hybrid-lora"), read(alone, "one-lora"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fsdp2-mapped", "fsdp1-mapped"])
def test_each_rank_reads_its_part_of_the_checkpoint(two_more: tuple[Path, str], alone: Path, way: str):
    recorded = read(two_more[0], way)
    check_every_probe(recorded, read(alone, "one"))
    assert recorded.manifest.reference["source"] == "checkpoint"
    assert recorded.manifest.reference["path"].endswith("/base")
    assert list(recorded.manifest.reference["sha256"]) == ["model.safetensors"]


@pytest.mark.slow
def test_matrices_that_do_not_fit_are_taken_at_later_steps(two_more: tuple[Path, str], alone: Path):
    recorded, one = read(two_more[0], "fsdp2-slowly"), read(alone, "one")
    assert faults(recorded) == [(2, "spectral sweep skipped")]
    first, last = recorded.spectra.isel(row=0), recorded.spectra.isel(row=-1)
    assert (first.step, last.step) == (1, 3)
    for name in one.spectra.data_vars:
        np.testing.assert_allclose(last[name], one.spectra[name][2], rtol=1e-5, atol=1e-10, err_msg=name)
    for row, measured in enumerate(first.measured_step.values):
        if measured > 0:
            # The last that was taken of the tensor is its update, that of the step at which it was taken.
            theirs = one.spectra.isel(row=int(measured) - 1, tensor=row)
            for name in ("update_effective_rank", "update_stable_rank"):
                np.testing.assert_allclose(first[name][row], theirs[name], rtol=1e-5, err_msg=name)
    assert first.measured_step.max() > 1


def test_the_groups_are_those_of_the_probes() -> None:
    """A probe of another group would not be compared."""
    assert {probe.group for probe in registry.probes().values()} == set(GROUPS)
