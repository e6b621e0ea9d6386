"""What several ranks record together is what one process records alone, whatever fails on one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import open_run

SCRIPT = Path(__file__).with_name("train.py")


def run(folder: Path, ranks: int, *ways: str) -> str:
    """Train in several ways on some ranks; return what was said."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launcher, str(SCRIPT), str(folder), *ways]
    environment = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("alone")
    run(folder, 1, "one")
    return open_run(folder / "one" / "rank0")


def check_equal(recorded, alone, *, rows=slice(None)) -> int:
    """Hold every probe against the single process; return how many values there were."""
    values = 0
    for group in ("tensors", "layers", "spectra"):
        ours, theirs = getattr(recorded, group), getattr(alone, group)
        assert set(ours.data_vars) == set(theirs.data_vars)
        for name in ("tensor", "layer", "rows", "cols", "kind", "module", "dtype"):
            if name in theirs.coords:
                np.testing.assert_array_equal(ours[name].values, theirs[name].values)
        assert ours.step.values.tolist() == [1, 2, 3]
        for name in theirs.data_vars:
            expected = theirs[name].values[rows]
            np.testing.assert_allclose(ours[name].values[rows], expected, rtol=1e-5, atol=1e-10, err_msg=name)
            values += int(np.isfinite(expected).sum())
    return values


def check_only_first_rank_wrote(folder: Path, way: str) -> None:
    assert [path.name for path in (folder / way).iterdir()] == ["rank0"]


def check_same_weights(folder: Path, ranks: int, way: str, other: str) -> None:
    for rank in range(ranks):
        ours, theirs = (torch.load(folder / f"{name}-rank{rank}.pt") for name in (way, other))
        assert len(ours) == len(theirs) > 0
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def check_complete(folder: Path, way: str, alone) -> None:
    recorded = open_run(folder / way / "rank0")
    assert [event for event in recorded.events if "fault" in event["what"] or "failed" in event["what"]] == []
    assert recorded.status == "finished"
    # 28 tensors, of which the recorder takes a dozen probes at three steps.
    assert check_equal(recorded, alone) > 500
    check_only_first_rank_wrote(folder, way)


def test_shards_of_two_ranks(tmp_path: Path, alone):
    run(tmp_path, 2, "fsdp2", "fsdp2-plain", "fsdp2-before")
    check_complete(tmp_path, "fsdp2", alone)
    check_same_weights(tmp_path, 2, "fsdp2", "fsdp2-plain")
    recorded = open_run(tmp_path / "fsdp2" / "rank0")
    assert recorded.manifest.world == {"ranks": 2, "backend": "gloo", "sharding": "sharded"}
    assert recorded.manifest.reference["source"] == "memory"
    assert recorded.manifest.model["parameters"] == alone.manifest.model["parameters"]

    # One rank raises at step 2: what it should have measured is nan, all else is there, and nobody waits.
    broken = open_run(tmp_path / "fsdp2-before" / "rank0")
    assert broken.status == "finished"
    check_equal(broken, alone, rows=[0])
    assert np.isnan(broken.tensors["grad_norm"].values[1]).any()
    assert np.isfinite(broken.tensors["grad_norm"].values[2]).all()
    np.testing.assert_allclose(
        broken.tensors["delta_norm"].values, alone.tensors["delta_norm"].values, rtol=1e-5, atol=1e-10
    )
    check_only_first_rank_wrote(tmp_path, "fsdp2-before")
    check_same_weights(tmp_path, 2, "fsdp2-before", "fsdp2-plain")


@pytest.mark.slow
def test_a_failure_on_any_rank_is_nan_and_nobody_waits(tmp_path: Path, alone):
    run(tmp_path, 2, "fsdp2-after", "fsdp2-probe")
    for way, probe, event in (
        ("fsdp2-after", "delta_norm", "measurement failed on a rank"),
        ("fsdp2-probe", "grad_norm", "fault in grad_norm"),
    ):
        recorded = open_run(tmp_path / way / "rank0")
        assert [(e["step"], e["what"]) for e in recorded.events if e["what"] == event] == [(2, event)]
        assert recorded.status == "finished"
        assert np.isnan(recorded.tensors[probe].values[1]).any()
        check_equal(recorded, alone, rows=[0])
        np.testing.assert_allclose(recorded.tensors[probe].values[2], alone.tensors[probe].values[2], rtol=1e-5)
        check_only_first_rank_wrote(tmp_path, way)


@pytest.mark.slow
def test_replicas(tmp_path: Path, alone):
    run(tmp_path, 2, "ddp", "ddp-plain")
    check_complete(tmp_path, "ddp", alone)
    check_same_weights(tmp_path, 2, "ddp", "ddp-plain")
    assert open_run(tmp_path / "ddp" / "rank0").manifest.world["sharding"] == "replicated"


@pytest.mark.slow
def test_three_ranks(tmp_path: Path, alone):
    run(tmp_path, 3, "ddp", "fsdp2", "fsdp1")
    for way in ("ddp", "fsdp2", "fsdp1"):
        check_complete(tmp_path, way, alone)


@pytest.mark.slow
def test_flat_shards_with_original_parameters(tmp_path: Path, alone):
    run(tmp_path, 2, "fsdp1", "fsdp1-plain")
    check_complete(tmp_path, "fsdp1", alone)
    check_same_weights(tmp_path, 2, "fsdp1", "fsdp1-plain")


@pytest.mark.slow
def test_shards_that_are_repeated_count_once(tmp_path: Path, alone):
    run(tmp_path, 4, "hybrid")
    check_complete(tmp_path, "hybrid", alone)


@pytest.mark.slow
def test_a_recorder_on_one_rank_alone_does_not_wait_for_ever(tmp_path: Path):
    said = run(tmp_path, 2, "fsdp2-alone")
    assert "start the recorder on every rank" in said
    recorded = open_run(tmp_path / "fsdp2-alone" / "rank0")
    assert recorded.status == "finished"
    assert {"sharded: a DTensor, of which this rank holds a part"} <= {
        entry["why"] for entry in recorded.manifest.recorder["skipped"]
    }
