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
from grpodyn.studies.conclude import _beside_reference, _contrasts, _differences, _reading, _sentence
from grpodyn.studies.expand import planned_runs
from grpodyn.studies.index import INDEX, read_index
from grpodyn.studies.runner import carry_out
from grpodyn.studies.study import Contrast, SweepStudy, restricted
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


# b lies below a by .10, .13 and .04: mean −.09, squares of deviations .0001 + .0016 + .0025 = .0042, so t =
# −.09/sqrt(.0042/2/3) = −3.40168 and t² = 11.57143. On two degrees of freedom P(T < t) = 1/2 + t/(2·sqrt(2 + t²)) =
# .5 − 3.40168/(2·3.68394) = .03831.
BELOW = (0.10, 0.13, 0.04)
AGAINST = 0.03831
HIGHER = Contrast(a="b", b="a", metric="gain", better="higher")


def below(seeds=(1, 2, 3)):
    """What two arms gain: b less than a; and c what a does, give or take."""
    return {
        "a": {seed: {"gain": 0.5} for seed in (1, 2, 3)},
        "b": {seed: {"gain": 0.5 - BELOW[seed - 1]} for seed in seeds},
        "c": {seed: {"gain": 0.5 + (-0.01, 0.02, 0.0)[seed - 1]} for seed in (1, 2, 3)},
    }


def claims(*contrasts):
    return SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}, "c": {"x": 2}}, contrasts=list(contrasts))


def test_a_claim_whose_opposite_holds_is_refuted():
    (found,) = _contrasts(claims(HIGHER), below())
    assert found.outcome == "refuted"
    assert found.p == pytest.approx(1 - AGAINST, abs=1e-6)
    assert found.opposite_p_holm == pytest.approx(AGAINST, abs=1e-6)
    assert "higher with p = 0.96: refuted, lower with p = 0.038" in _sentence(found)
    (other,) = _contrasts(claims(HIGHER.model_copy(update={"better": "lower"})), below())
    assert (other.outcome, other.p_holm) == ("shown", pytest.approx(AGAINST, abs=1e-6))


def test_the_opposite_is_held_to_holm_as_the_claim_is():
    found, _ = _contrasts(claims(HIGHER, Contrast(a="c", b="a", metric="gain", better="higher")), below())
    # The smaller of two, so twice its own: above .05.
    assert found.opposite_p == pytest.approx(AGAINST, abs=1e-6)
    assert found.opposite_p_holm == pytest.approx(2 * AGAINST, abs=2e-6)
    assert found.outcome == "not shown"


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_no_claim_is_judged_before_all_its_seeds_are_there(better):
    study = claims(HIGHER.model_copy(update={"better": better}), Contrast(a="c", b="a", metric="gain", better="higher"))
    values = below(seeds=(1, 2))
    waits, other = _contrasts(study, values)
    assert (waits.outcome, waits.n) == ("not decided", 2)
    assert all(math.isnan(p) for p in (waits.p, waits.p_holm, waits.opposite_p, waits.opposite_p_holm))
    # What was measured is told all the same: −(.10 + .13)/2.
    assert waits.difference.value == pytest.approx(-0.115)
    first, second = _reading(study, values, [], [waits, other])
    assert (
        first == "b against a: gain -0.115 over 2 seeds so far: not decided, as it is judged once all seeds are there"
    )
    assert second.endswith("not shown")
    # What is still to be judged counts in the family of what is.
    assert other.p_holm == pytest.approx(2 * other.p)


def test_a_run_that_never_comes_to_the_level_holds_no_claim_up():
    values = below()
    values["b"][3] = {"other": 1.0}
    (found,) = _contrasts(claims(HIGHER), values)
    # −.10 and −.13: t = −.115/.015 on one degree of freedom, P(T < t) = 1/2 − atan(7.6667)/π = .041285.
    assert (found.n, found.outcome) == (2, "refuted")
    assert found.opposite_p == pytest.approx(0.041285, abs=1e-6)


def test_a_failed_run_leaves_its_claim_undecided(go):
    found = go(FakePool(kl_s3="failed"))[0].result
    assert {one.outcome for one in found.contrasts} == {"not decided"}
    assert all("judged once all seeds are there" in line for line in found.reading)


def test_a_study_without_claims_reads_nothing_before_all_seeds_are_there():
    study = SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}})
    # The difference is .2 and .22 so far.
    rewards = {"a": (0.5, 0.5), "b": (0.7, 0.72)}
    values = {arm: {seed: {"train/reward": of[seed - 1]} for seed in (1, 2)} for arm, of in rewards.items()}
    assert _beside_reference(study, values, _differences(study, values)) == [
        "b against a: train/reward +0.210 over 2 seeds so far, as it is judged once all seeds are there"
    ]


def test_a_study_without_claims_reads_every_arm_beside_the_reference():
    study = SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}, "c": {"x": 2}})
    differences = {"b": (-0.30, -0.31, -0.29), "c": (0.10, -0.12, 0.05)}
    values = {"a": {seed: {"heldout/accuracy": 0.5 + seed / 100, "gain": 0.4} for seed in (1, 2, 3)}}
    for arm, by in differences.items():
        values[arm] = {seed: {"heldout/accuracy": 0.5 + seed / 100 + by[seed - 1]} for seed in (1, 2, 3)}
    b, c = _beside_reference(study, values, _differences(study, values))
    # t = -.3/(.01/sqrt 3) = -51.96 on 2 degrees of freedom: p = 3.70e-4, twice that by Holm.
    assert "b against a: heldout/accuracy -0.300 [-0.325, -0.275] over 3 seeds, p = 0.00074" in b
    assert b.endswith("differs")
    assert c.endswith("not told apart")


def test_a_study_without_claims_and_evaluation_is_read_by_reward():
    study = SweepStudy(name="s", config="c", arms={"a": {}, "b": {"x": 1}}, seeds=[1, 2])
    values = {arm: {seed: {"train/reward": reward} for seed in (1, 2)} for arm, reward in (("a", 0.5), ("b", 0.7))}
    assert _beside_reference(study, values, _differences(study, values)) == [
        "b against a: train/reward +0.200, which 2 paired seeds cannot judge"
    ]
    nothing = {"a": {}, "b": {}}
    assert _beside_reference(study, nothing, _differences(study, nothing)) == []


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
    with pytest.raises(
        ConfigError, match=r"none-s1 was trained under other settings: `grpo.temperature`.*another folder"
    ):
        go(FakePool(), settings=["grpo.temperature=0.5"])


EPOCHS = ["grpo.max_steps=-1", "grpo.num_train_epochs=2"]
CONSTANT = "grpo.lr_scheduler_type=constant"


@pytest.mark.parametrize(
    ("first", "then", "key"),
    [
        # A finished run of four steps is none of two, however free the length is when a run goes on.
        ([CONSTANT], [CONSTANT, "grpo.max_steps=2"], "grpo.max_steps"),
        # Seeds that were judged on other prompts cannot be put together.
        ([CONSTANT], [CONSTANT, "evaluate.split=choose"], "evaluate.split"),
        ([CONSTANT], [CONSTANT, "grpo.max_steps=8", "evaluate.split=choose"], "evaluate.split"),
        ([CONSTANT, *EPOCHS], [CONSTANT, *EPOCHS, "grpo.num_train_epochs=1"], "grpo.num_train_epochs"),
        (EPOCHS, [*EPOCHS, "grpo.num_train_epochs=3"], "grpo.num_train_epochs"),
    ],
)
def test_a_finished_run_does_not_stand_for_another_config(go, tmp_path, first, then, key):
    go(FakePool(), settings=first)
    before = (tmp_path / "out" / "results.json").read_bytes()
    with pytest.raises(ConfigError, match=f"none-s1 was trained under other settings: `{key}` was"):
        go(FakePool(), settings=then)
    assert (tmp_path / "out" / "results.json").read_bytes() == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([CONSTANT], [CONSTANT, "grpo.max_steps=8"]),
        ([CONSTANT, *EPOCHS], [CONSTANT, *EPOCHS, "grpo.num_train_epochs=3"]),
    ],
)
def test_a_finished_run_is_trained_on_where_more_is_asked_for(go, first, then):
    go(FakePool(), settings=first)
    pool = FakePool()
    go(pool, settings=then)
    assert len(pool.started) == 6


def test_only_reading_trains_and_writes_nothing(go, two_arms, tmp_path):
    finished, watcher = go(None)
    assert (finished.why, finished.result.missing, watcher.said) == ("only read", 6, [])
    assert not (tmp_path / "out").exists()
    go(FakePool())
    files = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    alone = go(None, study=restricted(two_arms, arms=["none"]))[0].result
    assert [(run.name, run.state) for run in alone.runs] == [(f"none-s{seed}", "done") for seed in (1, 2, 3)]
    assert alone.arms[0].values["heldout/accuracy"].value == pytest.approx(0.502)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == files


def test_a_sweep_can_be_read_while_it_trains(go, tmp_path):
    go(FakePool(kl_s3="interrupted"))
    lock = WriterLock.acquire(tmp_path / "out")
    try:
        assert go(None)[0].result.missing == 1
    finally:
        lock.release()


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
    go(FakePool(), max_minutes=0.0)
    with pytest.raises(NotARunError, match="recorded no run yet"):
        find_runs([tmp_path / "out"])


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "a/b"])
def test_an_index_cannot_name_a_directory_outside(go, tmp_path, name):
    go(FakePool(), max_minutes=0.0)
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
