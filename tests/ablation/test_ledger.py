import json
import math
import subprocess
import sys
import time

import pytest

from grpodyn.ablation.ledger import Ledger, read
from grpodyn.ablation.protocol import Study
from grpodyn.ablation.records import Record
from grpodyn.errors import UnreadableError


@pytest.fixture
def jobs(make_plan):
    study = Study(name="s")
    plan = make_plan(study)
    return [plan.job(arm, "test", seed, 0) for arm in ("advised", "all-linear") for seed in (1, 2)]


def test_what_was_added_is_there_after_a_new_start(tmp_path, jobs, make_record):
    ledger = Ledger(tmp_path / "results.jsonl")
    kept = make_record(jobs[0], 0.5, kl=math.nan)
    ledger.add(kept)
    again = Ledger(tmp_path / "results.jsonl").result(jobs[0])
    assert again is not None
    assert math.isnan(again.kl)
    assert again.accuracy == 0.5
    assert again.curve == kept.curve
    assert Ledger(tmp_path / "results.jsonl").result(jobs[1]) is None


def test_a_line_cut_off_by_a_kill_is_left_out_and_written_over(tmp_path, jobs, make_record):
    path = tmp_path / "results.jsonl"
    ledger = Ledger(path)
    ledger.add(make_record(jobs[0], 0.5))
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        assert len(read(path)) == 1
        Ledger(path).add(make_record(jobs[1], 0.6))
        assert [record.accuracy for record in read(path)] == [0.5, 0.6]
    path.write_bytes(whole[:10])
    Ledger(path).add(make_record(jobs[1], 0.6))
    assert [record.accuracy for record in read(path)] == [0.6]


def test_a_failure_is_kept_on_disk_and_tried_again_in_a_new_start(tmp_path, jobs, make_record):
    path = tmp_path / "results.jsonl"
    Ledger(path).add(make_record(jobs[0], math.nan, error="RuntimeError: no"))
    assert read(path)[0].error == "RuntimeError: no"
    assert Ledger(path).result(jobs[0]) is None


def test_one_training_serves_two_arms(tmp_path, make_plan, make_record):
    plan = make_plan(Study(name="s", arms=["advised", "all-linear"]))
    same = dict.fromkeys(plan.arms, plan.arms["advised"])
    plan = make_plan(Study(name="s", arms=["advised", "all-linear"]), arms=same)
    ledger = Ledger(tmp_path / "results.jsonl")
    ledger.add(make_record(plan.job("advised", "test", 1, 0), 0.5))
    found = ledger.result(plan.job("all-linear", "test", 1, 0))
    assert found is not None
    assert found.arm == "all-linear"


def test_results_of_others_are_taken_over_once(tmp_path, jobs, make_record):
    theirs = Ledger(tmp_path / "theirs.jsonl")
    theirs.add(make_record(jobs[0], 0.5))
    theirs.add(make_record(jobs[1], 0.6))
    ours = Ledger(tmp_path / "ours.jsonl")
    ours.add(make_record(jobs[0], 0.4))
    assert ours.merge(read(tmp_path / "theirs.jsonl")) == 1
    assert ours.merge(read(tmp_path / "theirs.jsonl")) == 0
    assert [record.accuracy for record in ours.records] == [0.4, 0.6]


def test_a_damaged_line_is_named(tmp_path, jobs, make_record):
    path = tmp_path / "results.jsonl"
    Ledger(path).add(make_record(jobs[0], 0.5))
    path.write_bytes(b'{"key": 1}\n' + path.read_bytes())
    with pytest.raises(UnreadableError, match=r"line 1 of .* is no result of an ablation"):
        read(path)


def test_any_other_setting_is_another_training(make_plan):
    study = Study(name="s")
    plan = make_plan(study)
    job = plan.job("advised", "test", 1, 0)
    others = [
        plan.job("advised", "test", 2, 0),
        plan.job("advised", "test", 1, 1),
        plan.job("advised", "tune", 1, 0),
        plan.job("all-linear", "test", 1, 0),
        make_plan(study, setup={"task": "toy", "splits": {}, "steps": 5}).job("advised", "test", 1, 0),
    ]
    assert len({job.key, *(other.key for other in others)}) == 6
    assert make_plan(study).job("advised", "test", 1, 0).key == job.key


_WRITER = """
import sys
from pathlib import Path
from grpodyn.ablation.ledger import Ledger
from grpodyn.ablation.records import Record
import json
record = Record.from_json(json.loads(sys.argv[2]))
from dataclasses import replace
ledger = Ledger(Path(sys.argv[1]))
print("go", flush=True)
for number in range(10**6):
    ledger.add(replace(record, key=str(number)))
"""


@pytest.mark.slow
def test_kill_leaves_whole_lines(tmp_path, jobs, make_record):
    path = tmp_path / "results.jsonl"
    line = make_record(jobs[0], 0.5).to_line().decode()
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), line], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    time.sleep(0.5)
    writer.kill()
    writer.wait()
    writer.stdout.close()
    records = read(path)
    assert [record.key for record in records] == [str(i) for i in range(len(records))]
    assert len(records) > 0


def test_a_record_is_one_line_of_strict_json(jobs, make_record):
    line = make_record(jobs[0], math.inf, error="two\nlines").to_line()
    assert line.count(b"\n") == 1
    assert Record.from_json(json.loads(line)).error == "two\nlines"
