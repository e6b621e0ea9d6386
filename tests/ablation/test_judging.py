import math
from dataclasses import replace

import numpy as np
import pytest

from grpodyn.ablation.judging import conclude
from grpodyn.ablation.protocol import Study
from grpodyn.ablation.results import load
from grpodyn.errors import NotARunError, SchemaError
from grpodyn.statistics import holm, paired_test

SEEDS = list(range(1, 11))
FOUR = ["advised", "all-linear", "all-linear-same-budget", "random-same-budget"]


def study(**changes):
    return Study(**{"name": "s", "arms": FOUR, "seeds": SEEDS, "other_seeds": [1, 2, 3], **changes})


def noise(spread, draw=0):
    table = {
        (arm, seed): np.random.default_rng([draw, i, seed]).normal(0, spread)
        for i, arm in enumerate(FOUR)
        for seed in SEEDS
    }
    return lambda arm, seed: table.get((arm, seed), 0.0)


def result(make_plan, known, accuracy, spread=0.01, made=None, draw=0):
    made = made or study()
    find = known(dict(zip(FOUR, accuracy, strict=True)), noise(spread, draw))
    return conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)


def test_advice_that_is_right_is_confirmed(make_plan, known):
    found = result(make_plan, known, (0.60, 0.61, 0.50, 0.40))
    assert (found.verdict, found.verdict_kind, found.missing) == ("confirmed", "confirmed", 0)
    assert found.best_supported is not None
    assert found.best_supported.arm == "advised"


def test_advice_that_is_wrong_is_refuted(make_plan, known):
    found = result(make_plan, known, (0.40, 0.61, 0.50, 0.40))
    assert found.verdict == "refuted"
    assert found.best_supported is not None
    assert found.best_supported.arm == "all-linear"


def test_a_tie_is_rarely_refuted(make_plan, known):
    """Six true ties: nine comparisons at 5 % each would find one of them wrong in one study of seven."""
    made = study()
    refuted = []
    for draw in range(100):
        find = known(dict(zip(FOUR, (0.60, 0.60, 0.60, 0.60), strict=True)), noise(0.01, draw))
        plans = [make_plan(made, name) for name in ("first", "second", "third")]
        # Each task has its own noise: a job's seed is shifted by the task it belongs to.
        found = conclude(made, plans, _by_task(find, draw), protocol_sha256="p", trained=1)
        refuted.append(any(c.outcome == "refuted" for c in found.comparisons))
    assert np.mean(refuted) <= 0.08


def _by_task(find, draw):
    def of_task(job):
        if job.phase != "test":
            return find(job)
        drawn = np.random.default_rng([draw, sum(map(ord, job.task)), FOUR.index(job.arm), job.seed])
        return replace(find(job), accuracy=0.6 + drawn.normal(0, 0.01))

    return of_task


def test_nothing_is_judged_before_all_seeds_are_there(make_plan, known):
    made = study()
    inner = known(dict(zip(FOUR, (0.40, 0.61, 0.50, 0.45), strict=True)), noise(0.01))

    def find(job):
        return None if job.arm == "all-linear" and job.phase == "test" and job.seed == 10 else inner(job)

    found = conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)
    assert [c.outcome for c in found.comparisons[:3]] == ["not tested", "refuted", "refuted"]
    assert found.comparisons[0].seeds == 9
    assert math.isnan(found.comparisons[0].p)
    assert found.comparisons[0].difference.value == pytest.approx(-0.21, abs=0.02)
    assert "not judged before all seeds are there" in found.reading[0]
    whole = conclude(made, [make_plan(made)], inner, protocol_sha256="p", trained=1)
    assert [c.outcome for c in whole.comparisons[:3]] == ["refuted"] * 3


def test_an_arm_without_seeds_supports_nothing(make_plan, known):
    found = result(make_plan, known, (0.40, 0.61, 0.50, 0.40))
    arms = tuple(replace(arm, seeds=()) if arm.arm == "all-linear" else arm for arm in found.arms)
    assert replace(found, arms=arms).best_supported is None


def test_noise_is_not_separable_and_says_how_many_seeds_are_needed(make_plan, known):
    found = result(make_plan, known, (0.505, 0.50, 0.50, 0.40), spread=0.03, draw=3)
    assert found.verdict_kind == "not separable"
    assert found.best_supported is None
    (open_one,) = [c for c in found.comparisons if c.outcome == "not separable" and c.b == "all-linear-same-budget"]
    if open_one.needs_seeds is None:
        assert open_one.difference.value <= 0
    else:
        assert open_one.needs_seeds > 10


def test_the_number_of_seeds_in_the_verdict(make_plan, known):
    found = result(make_plan, known, (0.52, 0.50, 0.50, 0.40), spread=0.03, draw=1)
    needs = [c.needs_seeds for c in found.comparisons if c.outcome == "not separable"]
    assert needs
    assert all(needs)
    assert found.verdict == f"not separable at 10 seeds: needs about {max(needs)}"


def test_the_tests_are_what_they_say(make_plan, known):
    """p against its definition: the gain of a against 0.9 of b's, or against all of it, one-sided, Holm over three."""
    found = result(make_plan, known, (0.58, 0.61, 0.57, 0.50), spread=0.02)
    shift = noise(0.02)
    value = {
        arm: [level + shift(arm, s) for s in SEEDS] for arm, level in zip(FOUR, (0.58, 0.61, 0.57, 0.50), strict=True)
    }
    share = [0.1 + 0.9 * (v - 0.1) for v in value["all-linear"]]
    p = [
        paired_test(value["advised"], other, alternative="greater").p
        for other in (share, value["all-linear-same-budget"], value["random-same-budget"])
    ]
    primary = [c for c in found.comparisons if c.test != "descriptive"]
    assert [c.p for c in primary] == pytest.approx(p)
    assert [c.p_holm for c in primary] == pytest.approx(holm(p))
    assert primary[0].margin == pytest.approx(0.1 * (np.mean(value["all-linear"]) - 0.1))


def test_gain_kept_and_steps_to_a_level(make_plan, known):
    found = result(make_plan, known, (0.5, 0.6, 0.5, 0.4), spread=0.0)
    advised = found.arm("advised")
    assert advised is not None
    # Gains over the base's .1: .4 of .5. The level is .1 + .8 · .5 = .5, which is reached at the last step, 10.
    assert advised.gain_kept.value == pytest.approx(0.8)
    assert advised.steps_to_level.value == 10
    # Perplexities of the test double are 10 · (1 + accuracy): 15 over the base's 11.
    assert advised.perplexity_ratio["notes"].value == pytest.approx(15 / 11)
    random = found.arm("random-same-budget")
    assert random is not None
    assert random.reached == 0
    assert math.isnan(random.steps_to_level.value)


def test_other_arms_have_an_interval_and_no_p(make_plan, known):
    made = study(arms=[*FOUR, "mlp-only"])
    find = known({**dict(zip(FOUR, (0.6, 0.6, 0.5, 0.4), strict=True)), "mlp-only": 0.55}, noise(0.01))
    found = conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)
    (described,) = [c for c in found.comparisons if c.test == "descriptive"]
    assert (described.a, described.b, described.seeds) == ("mlp-only", "all-linear", 3)
    assert math.isnan(described.p)
    assert described.difference.value == pytest.approx(-0.05, abs=0.02)


def test_missing_arms_and_equal_adapters_are_not_tested(make_plan, known):
    made = study(arms=["advised", "all-linear"])
    plan = make_plan(made)
    plan = make_plan(made, arms=dict.fromkeys(plan.arms, plan.arms["advised"]))
    found = conclude(made, [plan], known({"advised": 0.5, "all-linear": 0.5}), protocol_sha256="p", trained=1)
    assert found.verdict == "not tested: 0 of 3 primary comparisons have results"


def test_nothing_trained_yet(make_plan):
    made = study()
    found = conclude(made, [make_plan(made)], lambda job: None, protocol_sha256="p", trained=0)
    assert found.verdict_kind == "not tested"
    assert found.missing == 4 * 6 + 4 * 10


def test_one_seed_has_no_error_bar(make_plan, known):
    made = study(seeds=[1], other_seeds=[1])
    find = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)))
    found = conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)
    assert found.verdict == "not separable at 1 seed: one seed has no error bar"


def test_failed_trainings_are_named_and_cost_only_their_arm(make_plan, known):
    inner = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)), noise(0.01))

    def find(job):
        return "RuntimeError: no memory" if job.arm == "random-same-budget" else inner(job)

    made = study()
    found = conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)
    arm = found.arm("random-same-budget")
    assert arm is not None
    assert arm.failed == ("RuntimeError: no memory",)
    assert [c.outcome for c in found.comparisons][:3] == ["confirmed", "confirmed", "not tested"]


def test_p_is_adjusted_over_all_tasks(make_plan, known):
    made = study()
    find = known(dict(zip(FOUR, (0.6, 0.61, 0.5, 0.4), strict=True)), noise(0.01))
    found = conclude(made, [make_plan(made), make_plan(made, "second")], find, protocol_sha256="p", trained=1)
    primary = [c for c in found.comparisons if c.test != "descriptive"]
    assert len(primary) == 6
    assert [c.p_holm for c in primary] == pytest.approx(holm([c.p for c in primary]))


def test_what_a_temperature_does_as_well_is_said(make_plan, known, make_record):
    inner = known(dict(zip(FOUR, (0.2, 0.6, 0.5, 0.4), strict=True)), noise(0.01))

    def find(job):
        if job.phase in ("base", "base_choose"):
            return make_record(job, 0.1, by_temperature={"0.7": 0.3, "1": 0.1})
        return inner(job)

    made = study()
    found = conclude(made, [make_plan(made)], find, protocol_sha256="p", trained=1)
    assert found.bases[0].best == 0.3
    assert any("toy: advised reaches" in note and "a temperature alone does as much" in note for note in found.notes)


def test_another_candidate_is_said(make_plan, known):
    made = study(arms=["displacement-top", *FOUR[1:]])
    find = known(dict(zip(["displacement-top", *FOUR[1:]], (0.6, 0.61, 0.5, 0.4), strict=True)))
    found = conclude(made, [make_plan(made, candidate="displacement-top")], find, protocol_sha256="p", trained=1)
    assert found.candidate == "displacement-top"
    assert any("displacement-top is tested in its place" in note for note in found.notes)


def test_the_file_gives_back_what_was_written(make_plan, known, tmp_path):
    found = result(make_plan, known, (0.60, 0.61, 0.50, 0.40))
    found.write(tmp_path)
    again = load(tmp_path)
    assert again.to_json() == found.to_json()
    assert again.arm("advised") is not None
    assert isinstance(again.comparisons[0].difference.low, float)


def test_unfinished_results_survive_the_file(make_plan, tmp_path):
    made = study()
    found = conclude(made, [make_plan(made)], lambda job: None, protocol_sha256="p", trained=0)
    found.write(tmp_path)
    again = load(tmp_path)
    assert math.isnan(again.comparisons[0].p)
    assert again.comparisons[0].needs_seeds is None
    assert again.to_json() == found.to_json()


def test_files_that_are_none(tmp_path):
    with pytest.raises(NotARunError, match="grpodyn ablate"):
        load(tmp_path)
    (tmp_path / "ablation.json").write_text('{"schema_version": 99}')
    with pytest.raises(SchemaError, match="schema version 99"):
        load(tmp_path)
    (tmp_path / "ablation.json").write_text('{"schema_version": 1, "name": 3}')
    with pytest.raises(SchemaError, match=r"ablation\.json: "):
        load(tmp_path)


@pytest.mark.slow
def test_a_false_confirmation_is_rare(make_plan, known):
    """Advice exactly as good as the same budget everywhere: all three claims hold in at most 5 of 100 studies."""
    confirmed = [
        result(make_plan, known, (0.60, 0.60, 0.60, 0.40), draw=draw).verdict_kind == "confirmed" for draw in range(300)
    ]
    assert np.mean(confirmed) <= 0.08
