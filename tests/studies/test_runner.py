"""The loop of a sweep, with a pool that trains nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from pathlib import Path

import pytest

from grpodyn.cli.lookup import find_runs
from grpodyn.errors import ConfigError, DirectoryInUseError, NotARunError, SchemaError, UsageError
from grpodyn.studies.conclude import _beside_reference, _contrasts, _differences, _sentence
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.index import INDEX, read_index
from grpodyn.studies.runner import carry_out
from grpodyn.studies.study import Contrast, SweepStudy
from grpodyn.trace.lock import WriterLock
from tests.studies.conftest import FakePool, Watcher, write_run


@pytest.fixture
def go(two_arms, tmp_path):
    """Return what carries the study out in `tmp_path / out` with a pool."""

    def started(pool, settings=(), study=two_arms, max_minutes=None):
        planned = planned_runs(study, tmp_path, settings)
        watcher = Watcher()
        make = None if pool is None else (lambda: pool)
        finished = carry_out(study, planned, settings, tmp_path / "out", make, watcher, max_minutes)
        return finished, watcher

    return started


def states(folder: Path) -> dict[str, str]:
    return {entry.name: entry.state for entry in read_index(folder).entries}


def test_all_runs_are_trained_and_compared(go, tmp_path):
    pool = FakePool()
    finished, _ = go(pool)
    assert finished.why == "complete"
    assert pool.most == 2
    assert pool.started == [f"{arm}-s{seed}" for seed in (1, 2, 3) for arm in ("none", "kl")]
    result = finished.result
    assert (result.missing, result.failed, result.versions) == (0, 0, {"trl": "1.2.3"})
    none, kl = result.arms
    # The base is at 0.1 and steps add 0.1 each, or half of it; seeds add 0.001, 0.002, 0.003.
    assert none.values["heldout/accuracy"].value == pytest.approx(0.502)
    assert kl.values["gain"].value == pytest.approx(0.202)
    # 1.1^4 against 1.1^(4·0.75), whatever the seed: ratios, on the log scale.
    assert none.values["perplexity_ratio/text"].value == pytest.approx(1.1**4)
    assert kl.values["perplexity_ratio/text"].value == pytest.approx(1.1**3)
    # At equal skill 0.2 they differ less: reached near step 1, and near step 2.
    level = "perplexity_ratio/text@heldout/accuracy=0.2"
    assert none.values[level].value == pytest.approx(1.1**0.99, abs=2e-3)
    assert kl.values[level].value == pytest.approx(1.1 ** (1.96 * 0.75), abs=5e-3)
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["arms"][0]["values"]["gain"]["value"] == pytest.approx(0.402)


def test_a_claim_is_judged_over_seeds_and_at_equal_skill(go, two_arms):
    class Noisy(FakePool):
        def ended(self, seconds):
            for child, outcome in super().ended(seconds):
                shift = {"1": 0.0, "2": 0.01, "3": -0.005}[child.name[-1]]
                change(child.run_dir, shift if "kl" in child.name else 0.0)
                yield child, outcome

    def change(path: Path, shift: float) -> None:
        config = json.loads((path / "run.json").read_text())["config"]
        config["grpo"]["beta"] += shift
        shutil.rmtree(path)
        write_run(path, config)
        manifest = json.loads((path / "run.json").read_text())
        manifest["config"]["grpo"]["beta"] -= shift
        (path / "run.json").write_text(json.dumps(manifest))

    result = go(Noisy())[0].result
    alone, at_equal = result.contrasts
    assert alone.n == 3
    assert alone.difference.low < alone.difference.value < alone.difference.high < 1
    assert alone.outcome == "shown"
    assert alone.p_holm == pytest.approx(2 * alone.p)
    # Its accuracy is lower by 0.2, far more than the margin.
    assert at_equal.outcome == "shown, at a loss"
    assert at_equal.equal_difference.value == pytest.approx(-0.2, abs=0.03)
    assert "×" in result.reading[0]
    assert math.isclose(result.differences[0].difference.value, at_equal.equal_difference.value)


@pytest.mark.parametrize(
    ("equal", "words"), [("heldout/acuracy", "was not measured"), ("train/kl", "has no spread to judge by")]
)
def test_what_must_be_equal_and_is_not_known_is_no_loss(equal, words):
    study = SweepStudy(
        name="s",
        config="c",
        arms={"a": {}, "b": {"x": 1}},
        contrasts=[Contrast(a="a", b="b", metric="gain", better="higher", equal=equal)],
    )
    values = {
        "a": {seed: {"gain": 0.5 + seed / 100, "train/kl": 1.0} for seed in (1, 2, 3)},
        "b": {seed: {"gain": 0.1, "train/kl": 1.0} for seed in (1, 2, 3)},
    }
    (found,) = _contrasts(study, values)
    assert found.outcome == "not decided"
    assert words in _sentence(found)


def test_a_study_without_claims_reads_every_arm_beside_the_reference():
    study = SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}, "c": {"x": 2}})
    differences = {"b": (-0.30, -0.31, -0.29), "c": (0.10, -0.12, 0.05)}
    values = {"a": {seed: {"heldout/accuracy": 0.5 + seed / 100, "gain": 0.4} for seed in (1, 2, 3)}}
    for arm, by in differences.items():
        values[arm] = {seed: {"heldout/accuracy": 0.5 + seed / 100 + by[seed - 1]} for seed in (1, 2, 3)}
    b, c = _beside_reference(study, _differences(study, values))
    # t = -.3/(.01/sqrt 3) = -51.96 on 2 degrees of freedom: p = 3.70e-4, twice that by Holm.
    assert "b against a: heldout/accuracy -0.300 [-0.325, -0.275] over 3 seeds, p = 0.00074" in b
    assert b.endswith("differs")
    assert c.endswith("not told apart")


def test_a_study_without_claims_and_evaluation_is_read_by_reward():
    study = SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}})
    values = {arm: {seed: {"train/reward": reward} for seed in (1, 2)} for arm, reward in (("a", 0.5), ("b", 0.7))}
    assert _beside_reference(study, _differences(study, values)) == [
        "b against a: train/reward +0.200, which 2 paired seeds cannot judge"
    ]
    assert _beside_reference(study, _differences(study, {"a": {}, "b": {}})) == []


def test_what_is_done_is_not_trained_again_and_what_was_not_goes_on(go, tmp_path):
    first, watcher = go(FakePool(none_s2="failed", kl_s2="interrupted"))
    assert (first.result.missing, first.result.failed) == (2, 1)
    assert "failed none-s2" in watcher.said
    assert any("out of luck" in note for note in first.result.notes)
    assert states(tmp_path / "out")["none-s2"] == "failed"
    second = FakePool()
    finished, _ = go(second)
    assert second.started == ["none-s2", "kl-s2"]
    assert finished.result.missing == 0
    third = FakePool()
    assert go(third)[0].why == "complete"
    assert third.started == []


def test_ctrl_c_asks_every_run_to_end_and_keeps_the_index(go, tmp_path):
    pool = FakePool(kl_s1="ctrl-c")
    with pytest.raises(KeyboardInterrupt):
        go(pool)
    assert pool.interrupts == 1
    found = states(tmp_path / "out")
    assert [found[name] for name in ("none-s1", "kl-s1", "none-s2", "kl-s2")] == [
        "done",
        "interrupted",
        "interrupted",
        "pending",
    ]
    WriterLock.acquire(tmp_path / "out").release()
    assert go(FakePool())[0].result.missing == 0


def test_when_time_is_up_runs_end_and_nothing_new_begins(go, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("grpodyn.studies.runner.time.monotonic", lambda: now[0])

    class Slow(FakePool):
        def ended(self, seconds):
            now[0] += 45.0
            if now[0] < 60 or self.interrupts:
                yield from super().ended(seconds)

    pool = Slow()
    finished, watcher = go(pool, max_minutes=1.0)
    # At 45 s one has ended, and 15 s are too few to begin another; at 90 s the one that runs is asked to end.
    assert pool.interrupts == 1
    assert finished.why == "time is up"
    assert (len(pool.started), finished.result.missing) == (2, 5)
    assert any("time is up" in said for said in watcher.said)


def test_a_killed_sweep_leaves_a_run_that_goes_on(go, tmp_path):
    go(FakePool())
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    index["entries"][0]["state"] = "running"
    (tmp_path / "out" / INDEX).write_text(json.dumps(index))
    manifest = tmp_path / "out" / "none-s1" / "run.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
    pool = FakePool()
    go(pool)
    assert pool.started == ["none-s1"]


def test_other_settings_in_the_same_folder_are_refused(go):
    go(FakePool())
    with pytest.raises(ConfigError, match=r"none-s1 was trained before: .*`grpo.temperature`.*another --output"):
        go(FakePool(), settings=["grpo.temperature=0.5"])


def test_only_reading_trains_nothing(go):
    assert go(None)[0].result.missing == 6


def test_somebody_elses_files_are_left_alone(go, tmp_path):
    (tmp_path / "out" / "kl-s1").mkdir(parents=True)
    (tmp_path / "out" / "kl-s1" / "thesis.txt").write_text("mine")
    with pytest.raises(DirectoryInUseError, match="holds files of something else"):
        go(FakePool())
    assert (tmp_path / "out" / "kl-s1" / "thesis.txt").exists()


def test_two_sweeps_do_not_share_a_folder(go, tmp_path):
    (tmp_path / "out").mkdir()
    lock = WriterLock.acquire(tmp_path / "out")
    try:
        with pytest.raises(DirectoryInUseError):
            go(FakePool())
    finally:
        lock.release()


def test_a_sweep_stands_for_its_runs(go, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    go(FakePool(kl_s3="interrupted"))
    assert [path.name for path in find_runs([Path("out")])] == [f"{a}-s{s}" for s in (1, 2, 3) for a in ("none", "kl")]
    (tmp_path / "runs").mkdir()
    os.rename(tmp_path / "out", tmp_path / "runs" / "out")
    assert len(find_runs([Path("out")])) == 6
    with pytest.raises(UsageError, match="none-s1 is given twice"):
        find_runs([Path("out"), Path("runs/out/none-s1")])


def test_an_empty_sweep_says_so(go, tmp_path):
    go(None)
    with pytest.raises(NotARunError, match="recorded no run yet"):
        find_runs([tmp_path / "out"])


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "a/b"])
def test_an_index_cannot_name_a_directory_outside(go, tmp_path, name):
    go(None)
    path = tmp_path / "out" / INDEX
    index = json.loads(path.read_text())
    index["entries"][0]["name"] = name
    path.write_text(json.dumps(index))
    with pytest.raises(SchemaError, match="is called"):
        read_index(tmp_path / "out")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_is_a_ctrl_c(go, tmp_path, number):
    class Ended(FakePool):
        def ended(self, seconds):
            if not self.interrupts:
                os.kill(os.getpid(), number)
            yield from super().ended(seconds)

    # What is ignored stays ignored, as under nohup, which may run these tests too.
    outside = signal.signal(number, signal.SIG_DFL)
    pool = Ended()
    try:
        with pytest.raises(KeyboardInterrupt):
            go(pool)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, outside)
    assert pool.interrupts == 1
    assert states(tmp_path / "out")["none-s1"] == "interrupted"


def test_where_no_pool_can_be_made_nothing_is_left_behind(two_arms, tmp_path):
    def no_pool():
        raise UsageError("Ray does not start")

    planned = planned_runs(two_arms, tmp_path, ())
    with pytest.raises(UsageError, match="does not start"):
        carry_out(two_arms, planned, (), tmp_path / "out", no_pool, Watcher())
    assert not (tmp_path / "out").exists()
