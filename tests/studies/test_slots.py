"""How a machine is divided."""

from __future__ import annotations

import pytest

from grpodyn.errors import UsageError
from grpodyn.studies.slots import chosen_gpus, divide, usable_gpus


def test_a_large_model_without_gpus_has_the_machine_to_itself():
    (slot,) = divide(None, None, small=False, gpus=(), cores=range(8))
    assert (slot.cores, slot.threads, slot.gpu) == ((), 8, None)


def test_slots_do_not_overlap_unless_more_is_asked_for_than_there_is():
    slots = divide(3, 2, small=True, gpus=(), cores=range(8))
    assert [slot.cores for slot in slots] == [(0, 1), (2, 3), (4, 5)]
    assert all(slot.cores == () for slot in divide(4, 1, small=True, gpus=(), cores=range(2)))


def test_more_workers_than_gpus_share_them_in_turn():
    assert [slot.gpu for slot in divide(3, None, small=True, gpus=("2", "5"), cores=range(4))] == ["2", "5", "2"]


def test_a_run_on_the_cpu_sees_no_gpu():
    (slot,) = divide(1, 1, small=True, gpus=(), cores=range(2))
    assert slot.environment()["CUDA_VISIBLE_DEVICES"] == ""
    assert slot.environment()["OMP_NUM_THREADS"] == "1"


def test_which_gpus_there_are(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert usable_gpus(tmp_path) == ("0", "2", "10")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, GPU-abc")
    assert usable_gpus(tmp_path) == ("1", "GPU-abc")
    assert chosen_gpus("none") == ()
    assert chosen_gpus("0,3") == ("0", "3")
    with pytest.raises(UsageError):
        chosen_gpus(",")


def test_counts_below_one_are_refused():
    with pytest.raises(UsageError, match="--workers 0"):
        divide(0, None, small=True, gpus=(), cores=(0,))
