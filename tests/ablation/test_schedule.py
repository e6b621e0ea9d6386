import math

from grpodyn.ablation.protocol import Study, Tuning
from grpodyn.ablation.schedule import pending, remaining, total, tune

TUNING = Tuning(seeds=[101, 102], powers=[-1, 0, 1], extensions=2)


def trained(make_record, accuracy):
    """`find` that knows what `accuracy(arm, power)` gives; None where it gives None."""

    def find(job):
        value = accuracy(job.arm, job.power)
        return value if value is None or isinstance(value, str) else make_record(job, value)

    return find


def jobs_of(make_plan, study):
    plan = make_plan(study)
    return plan.job


def tuned(make_plan, make_record, accuracy, tuning=TUNING):
    job = jobs_of(make_plan, Study(name="s"))
    return tune(tuning, lambda seed, power: job("advised", "tune", seed, power), trained(make_record, accuracy))


def test_nothing_known_asks_for_the_grid_on_every_tuning_seed(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: None)
    assert result.best is None
    assert {(job.seed, job.power) for job in result.missing} == {(s, p) for s in (101, 102) for p in (-1, 0, 1)}


def test_a_best_rate_inside_the_grid_ends_tuning(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: 0.5 - 0.1 * abs(power))
    assert (result.best, result.missing, result.at_edge) == (0, (), False)


def test_a_best_rate_at_the_edge_asks_for_one_more(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: 0.5 + 0.1 * power if power <= 1 else None)
    assert result.best is None
    assert {job.power for job in result.missing} == {2}


def test_the_grid_follows_the_best_rate_and_then_stops(make_plan, make_record):
    assert tuned(make_plan, make_record, lambda arm, power: -abs(power - 2)).best == 2
    result = tuned(make_plan, make_record, lambda arm, power: float(power))
    assert (result.best, result.at_edge, result.powers) == (3, True, (-1, 0, 1, 2, 3))
    downwards = tuned(make_plan, make_record, lambda arm, power: -float(power))
    assert (downwards.best, downwards.powers) == (-3, (-3, -2, -1, 0, 1))


def test_a_rate_at_which_a_seed_broke_down_is_not_chosen(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: "diverged" if power == 1 else 0.5 + 0.1 * power)
    assert result.best == 0
    assert math.isnan(result.accuracy[1])


def test_an_arm_that_always_fails_is_given_up(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: "no")
    assert result.failed


def test_without_tuning_the_rule_decides(make_plan, make_record):
    result = tuned(make_plan, make_record, lambda arm, power: None, None)
    assert result.best == 0
    assert not result.missing


def test_equal_rates_keep_to_the_rule(make_plan, make_record):
    assert tuned(make_plan, make_record, lambda arm, power: 0.5).best == 0


def test_primary_arms_come_first_and_tests_wait_for_tuning(make_plan, make_record):
    study = Study(name="s", arms=["mlp-only", "advised", "all-linear"], seeds=[1, 2, 3], other_seeds=[1])
    job = jobs_of(make_plan, study)
    first = pending(study, study.arms, job, trained(make_record, lambda arm, power: None))
    assert {j.phase for j in first} == {"tune"}
    assert [j.arm for j in first] == ["advised"] * 6 + ["all-linear"] * 6 + ["mlp-only"] * 6

    def find(j):
        return make_record(j, -abs(j.power)) if j.phase == "tune" else None

    then = pending(study, study.arms, job, find)
    assert {j.phase for j in then} == {"test"}
    assert [(j.arm, j.seed) for j in then] == [
        *(("advised", s) for s in (1, 2, 3)),
        *(("all-linear", s) for s in (1, 2, 3)),
        ("mlp-only", 1),
    ]
    nothing = trained(make_record, lambda arm, power: None)
    assert remaining(study, study.arms, job, nothing) == total(study, study.arms) == 3 * 6 + 3 + 3 + 1
    assert remaining(study, study.arms, job, find) == len(then) == 7


def test_what_remains_counts_a_grid_that_grows_and_arms_that_wait(make_plan, make_record):
    study = Study(name="s", arms=["advised", "all-linear", "mlp-only"], seeds=[1, 2], other_seeds=[1])
    job = jobs_of(make_plan, study)

    def find(j):
        if j.arm == "advised":  # its best rate lies at the edge: two more are to come, and its tests
            return make_record(j, float(j.power)) if j.phase == "tune" and j.power <= 1 else None
        return "diverged" if j.arm == "mlp-only" else None  # given up; all-linear has not begun

    assert remaining(study, study.arms, job, find) == (2 + 2) + (6 + 2)


def test_everything_known_leaves_nothing(make_plan, make_record):
    study = Study(name="s", arms=["advised", "all-linear"])
    job = jobs_of(make_plan, study)
    assert pending(study, study.arms, job, trained(make_record, lambda arm, power: -abs(power))) == []


def test_two_names_of_one_training_are_one_job(make_plan, make_record):
    study = Study(name="s", arms=["advised", "all-linear"])
    plan = make_plan(study)
    plan = make_plan(study, arms=dict.fromkeys(plan.arms, plan.arms["advised"]))
    asked = pending(study, study.arms, plan.job, trained(make_record, lambda arm, power: None))
    assert len(asked) == 6
