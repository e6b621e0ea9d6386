import multiprocessing
import os
import time

import pytest

from grpodyn.ablation.bench import setup_of
from grpodyn.ablation.protocol import Measure, Study
from grpodyn.ablation.records import Job
from grpodyn.ablation.workers import InProcess, Processes, failed, make_workers
from grpodyn.config import run as run_config


def test_one_worker_is_this_process():
    assert isinstance(make_workers(1, None), InProcess)
    assert isinstance(make_workers(2, None), Processes)
    assert isinstance(make_workers(1, None, ("3",)), Processes), "a device is a process's own"


def test_a_failure_is_a_whole_record(make_plan):
    job = make_plan(Study(name="s")).job("advised", "test", 1, 0)
    record = failed(job, "no memory", 2.0)
    assert record.from_json({**record.__dict__, "curve": []}).error == "no memory"


@pytest.mark.slow
def test_a_process_that_dies_fails_its_job_and_the_next_one_is_trained():
    setup = setup_of(
        run_config.embedded(["grpo.max_steps=2", "grpo.per_device_train_batch_size=16", "task.limit=64"]),
        Measure(prompts=20, curve_prompts=20),
    )
    job = Job("t", "base", "base", 0, 0, 0.0, 0, setup, {})
    workers = Processes(1, 1)
    try:
        assert workers.free == 1
        workers.submit(job)
        assert workers.free == 0
        (child,) = multiprocessing.active_children()
        child.kill()
        ((_, record),) = list(workers.finished())
        assert record.error is not None
        assert "the process that trained it died" in record.error
        workers.submit(job)
        ((_, record),) = list(workers.finished())
        assert record.error is None
    finally:
        workers.close(at_once=True)
    assert workers.free == 1


def _device(job, _threads):
    time.sleep(1.0)  # long enough that no process takes two
    return failed(job, os.environ.get("CUDA_VISIBLE_DEVICES", "unset"), 0.0)


@pytest.mark.slow
def test_each_process_gets_the_next_gpu(make_plan, monkeypatch):
    monkeypatch.setattr("grpodyn.ablation.workers.run_job", _device)
    workers = Processes(2, 1, ("4", "6"))
    try:
        for seed in (1, 2):
            workers.submit(make_plan(Study(name="s")).job("advised", "test", seed, 0))
        found = []
        while len(found) < 2:
            found += [record.error for _, record in workers.finished()]
    finally:
        workers.close(at_once=True)
    assert sorted(found) == ["4", "6"]
