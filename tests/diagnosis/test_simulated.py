"""Simulated runs: each fault is found, healthy ones are left alone. benchmarks/diagnose_selftest.py has the figures."""

from __future__ import annotations

import pytest

from grpodyn.diagnosis import diagnose
from grpodyn.diagnosis.live import LiveDiagnosis
from grpodyn.diagnosis.rule import rules

# Not used to set any threshold.
FIRST = 1000


def long_runs(faults, scenario, count: int, rows: int = 60):
    """Runs of a scenario that are long enough for every rule."""
    found, seed = [], FIRST
    while len(found) < count:
        run = faults.simulate(scenario, seed)
        if len(run.steps) >= rows:
            found.append(run)
        seed += 1
    return found


def test_there_are_at_least_25_scenarios_and_every_rule_has_one(faults) -> None:
    assert len(faults.FAULTS) >= 25
    expected = set()
    for scenario in faults.FAULTS:
        expected |= faults.simulate(scenario, FIRST).expected
    assert expected == set(rules())


def test_every_fault_is_found_in_most_of_its_runs(faults, observe) -> None:
    missed = {}
    for scenario in faults.FAULTS:
        runs = long_runs(faults, scenario, 4)
        hits = sum(run.expected <= {f.id for f in diagnose(observe(run)).findings} for run in runs)
        # A plateau is only named where the noise allows it.
        if hits < (1 if scenario.__name__ == "plateaus" else 3):
            missed[scenario.__name__] = hits
    assert not missed


def test_healthy_runs_are_left_alone(faults, observe) -> None:
    false = [
        (seed, finding.id)
        for seed in range(FIRST, FIRST + 150)
        for run in [faults.healthy_run(seed)]
        for finding in diagnose(observe(run)).findings
        if finding.id not in run.allowed
    ]
    assert len(false) <= 1, false


@pytest.mark.slow
def test_at_most_ten_false_findings_in_a_thousand_healthy_runs(faults, observe) -> None:
    false = [
        (seed, finding.id)
        for seed in range(FIRST, FIRST + 1000)
        for run in [faults.healthy_run(seed)]
        for finding in diagnose(observe(run)).findings
        if finding.id not in run.allowed
    ]
    assert len(false) <= 10, false


def test_onsets_lie_near_the_fault(faults, observe) -> None:
    sudden = ("hidden_nan", "kl_blows_up", "collapses", "rate_too_high")
    for scenario in (s for s in faults.FAULTS if s.__name__ in sudden):
        for run in long_runs(faults, scenario, 3):
            findings = {f.id: f for f in diagnose(observe(run)).findings}
            onset = findings[next(iter(run.expected))].onset_step
            assert abs(onset - run.onset) <= max(12, 0.1 * run.steps[-1]), (scenario.__name__, run.seed)


def test_live_finds_a_nan_at_once_and_says_everything_once(faults) -> None:
    run = long_runs(faults, faults.hidden_nan, 1)[0]
    live = LiveDiagnosis(run.settings, run.lora)
    said: list[tuple[int, str]] = []
    for i, step in enumerate(run.steps):
        row = {key: float(values[i]) for key, values in run.columns.items()}
        said += [(int(step), finding.id) for finding in live.row(int(step), row)]
    assert (run.onset, "non_finite") in said
    assert len({name for _, name in said}) == len(said)


def test_live_is_silent_on_healthy_runs(faults) -> None:
    for seed in range(FIRST, FIRST + 25):
        run = faults.healthy_run(seed)
        live = LiveDiagnosis(run.settings, run.lora)
        for i, step in enumerate(run.steps):
            row = {key: float(values[i]) for key, values in run.columns.items()}
            new = live.row(int(step), row)
            assert {finding.id for finding in new} <= run.allowed | {"dead_groups_hard"}, (seed, step)


def test_live_keeps_a_bounded_number_of_rows() -> None:
    live = LiveDiagnosis()
    for step in range(1, 2001):
        live.row(step, {"reward": 0.5, "loss": 0.0, "entropy": 0.4})
    assert len(live._head) + len(live._latest) == 200
