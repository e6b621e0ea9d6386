"""What people ran into, as rows of a log: the right finding, and silence where nothing is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grpodyn.diagnosis import diagnose
from grpodyn.diagnosis.of_history import observe_history
from grpodyn.importers import understand
from grpodyn.importers.read import from_text

RNG = np.random.default_rng(7)


def noisy(level, scale: float = 0.02):
    """A function of the step with noise of its own."""
    rng = np.random.default_rng(3)
    return lambda steps: (
        np.broadcast_to(np.asarray(level(steps) if callable(level) else level, float), len(steps))
        + (scale * rng.standard_normal(len(steps)))
    )


TRUNCATED = {
    "completions/clipped_ratio": 1.0,
    "completions/mean_length": 256,
    "completions/max_length": 256,
    "completions/mean_terminated_length": 0,
    "reward": 0,
    "reward_std": 0,
    "frac_reward_zero_std": 1,
    "grad_norm": 0,
    "loss": 0,
}


def test_a01_truncation_is_the_cause_not_a_hard_task(of_log, log_of) -> None:
    found = of_log(log_of(30, **TRUNCATED))
    finding = found["truncation"]
    assert finding.severity == "critical"
    assert finding.onset_step == 1
    words = " ".join(finding.evidence)
    assert "256 tokens" in words
    assert "no update has happened" in words
    assert finding.config_key == "grpo.max_completion_length"
    assert finding.patch == {"grpo": {"max_completion_length": 512}}
    assert found.diagnosis.findings[0].id == "truncation"
    assert found["dead_groups_hard"].follows_from == ("truncation",)
    assert found["dead_groups_hard"].severity == "info"


def test_a02_spread_of_a_part_is_no_spread_within_groups(of_log, log_of) -> None:
    rows = log_of(
        30, **{"rewards/x/mean": 0.4, "rewards/x/std": 5.08}, reward=0.4, reward_std=0, frac_reward_zero_std=1, loss=0
    )
    finding = of_log(rows)["reward_without_spread"]
    words = " ".join(finding.evidence)
    assert "5.08" in words
    assert "100% of groups had no spread" in words


def test_a03_updates_without_reward_signal(of_log, log_of) -> None:
    rows = log_of(30, frac_reward_zero_std=1, grad_norm=0.3, reward=0.0, kl=0.02, loss=0.001)
    finding = of_log(rows, beta=0.04)["update_without_signal"]
    assert "divergence penalty (beta 0.04)" in finding.evidence[0]
    assert finding.onset_step == 1


def test_a03_no_alarm_where_nothing_moves(of_log, log_of) -> None:
    rows = log_of(30, frac_reward_zero_std=1, grad_norm=0.0, reward=0.0, loss=0)
    assert "update_without_signal" not in of_log(rows, beta=0.04).ids


def test_a04_nan_behind_a_loss_of_zero(of_log, log_of) -> None:
    rows = log_of(40, loss=0.02, grad_norm=0.5, reward=0.3, entropy=0.4)
    for row in rows[24:]:
        row |= {"loss": 0.0, "grad_norm": math.nan, "entropy": None}
    finding = of_log(rows)["non_finite"]
    assert finding.onset_step == 25
    assert finding.severity == "critical"
    words = " ".join(finding.evidence)
    assert "the last finite step is 24" in words
    assert "loss reads 0" in words


@pytest.mark.parametrize("kl", [math.nan, None, "absent"])
def test_a05_negative_divergence_that_is_not_computed(of_log, log_of, kl) -> None:
    rows = log_of(80, loss=noisy(-0.01), reward=noisy(lambda s: 0.2 + 0.004 * s), grad_norm=0.5, entropy=noisy(0.6))
    for row in rows:
        if kl != "absent":
            row["kl"] = kl
    found = of_log(rows, beta=0.0)
    assert not found.alarms
    assert "not computed, which is no fault" in found.why_not["kl_blow_up"]


def test_a06_sparse_rewards_are_neither_zero_nor_nan(of_log, log_of) -> None:
    rows = log_of(200, loss=noisy(0.0), grad_norm=0.5, entropy=noisy(0.6))
    for i, row in enumerate(rows):
        if i % 4 == 0:
            row |= {"reward": 0.2 + 0.001 * i, "reward_std": 0.4, "frac_reward_zero_std": 0.2, "rewards/a/mean": 0.3}
    assert not of_log(rows).alarms


def test_a07_negative_loss_that_creeps_up(of_log, log_of) -> None:
    rows = log_of(
        120,
        loss=lambda s: 0.04 * 0.001 * s,
        kl=lambda s: 0.001 * s,
        grad_norm=0.4,
        reward=noisy(lambda s: 0.2 + 0.004 * s),
        frac_reward_zero_std=0.2,
    )
    assert not of_log(rows, beta=0.04).alarms


def test_a08_verl_console_dates_the_onset_and_what_went_first() -> None:
    def line(step: int) -> str:
        gone = step >= 59
        return (
            f"step:{step} - actor/kl_loss:{'nan' if gone else 0.01} - actor/grad_norm:{'nan' if step > 59 else 0.4} - "
            f"actor/entropy_loss:0.6 - actor/pg_clipfrac:0.001 - critic/score/mean:{0.0 if gone else 0.5}"
        )

    log = from_text("\n".join(line(step) for step in range(1, 80)))
    assert log is not None
    result = diagnose(observe_history(understand(log), "verl"))
    finding = next(f for f in result.findings if f.id == "non_finite")
    assert finding.onset_step == 59
    words = " ".join(finding.evidence)
    assert "log-probabilities went first" in words
    assert "stop now" in words


def test_a09_entropy_falls_to_the_floor(of_log, log_of) -> None:
    rows = log_of(60, entropy=lambda s: np.maximum(0.02, 1.2 * np.exp(-s / 9)), reward=noisy(0.4, 0.03), loss=0.01)
    finding = of_log(rows)["entropy_collapse"]
    assert "nats" in finding.evidence[0]
    assert finding.onset_step is not None
    assert 4 <= finding.onset_step <= 15


def test_a09_entropy_and_divergence_climb_together(of_log, log_of) -> None:
    rows = log_of(
        1000,
        entropy=lambda s: 0.3 + 1.7 * s / 1000,
        kl=lambda s: 0.01 + 0.8 * s / 1000,
        reward=noisy(lambda s: 0.5 + 0.0001 * s - 0.0006 * np.maximum(0, s - 700), 0.03),
        loss=0.01,
    )
    finding = of_log(rows, beta=0.001)["entropy_explosion"]
    assert any("divergence" in sentence for sentence in finding.evidence)


def test_a09_negative_entropy_that_falls_with_mastery(of_log, log_of) -> None:
    rows = log_of(
        100,
        entropy=lambda s: 0.8 * np.exp(-s / 8) + 0.001,
        reward=noisy(lambda s: 0.998 - 0.4 * np.exp(-s / 8), 0.003),
        frac_reward_zero_std=lambda s: 1 - 0.8 * np.exp(-s / 8),
        loss=0.01,
    )
    assert not of_log(rows).alarms


def test_a10_format_rises_while_the_task_falls(of_log, log_of) -> None:
    def way(s):
        return np.minimum(1, s / 100)

    rows = log_of(
        120,
        **{
            "rewards/format/mean": noisy(lambda s: 0.48 + 0.38 * way(s), 0.02),
            "rewards/accuracy/mean": noisy(lambda s: 0.16 - 0.1 * way(s), 0.01),
        },
        reward=noisy(lambda s: 0.64 + 0.28 * way(s), 0.03),
        **{"completions/mean_length": noisy(lambda s: 387 - 197 * way(s), 10)},
        loss=0.0,
    )
    finding = of_log(rows)["reward_hacking"]
    words = " ".join(finding.evidence)
    assert finding.severity == "critical"
    assert "`accuracy` fell" in words
    assert "`format` rose" in words
    assert "tokens" in words


def test_a17_late_spikes_are_no_reason_to_stop_while_the_reward_rises(of_log, log_of) -> None:
    rng = np.random.default_rng(1)
    rows = log_of(
        2000,
        grad_norm=lambda s: (
            np.where((s > 1500) & (rng.random(len(s)) < 0.06), 60.0, 1.0) * np.exp(0.2 * rng.standard_normal(len(s)))
        ),
        reward=noisy(lambda s: 0.2 + 0.0002 * s),
        frac_reward_zero_std=0.2,
        loss=0.0,
    )
    for row in rows:
        row["learning_rate"] = None
    found = of_log(rows)
    assert not found.alarms, "not even a rate that is logged as null"
    assert found["gradient_spikes"].severity == "info"
    assert any("no reason to stop" in sentence for sentence in found["gradient_spikes"].evidence)


def test_a20_low_importance_ratio(of_log, log_of) -> None:
    rows = log_of(
        40,
        **{
            "sampling/importance_sampling_ratio/mean": 0.57,
            "sampling/sampling_logp_difference/mean": 0.05,
            "sampling/sampling_logp_difference/max": 5.0,
        },
        reward=0.4,
        loss=0.0,
    )
    finding = of_log(rows, top_p=0.9)["sampler_mismatch"]
    words = " ".join(finding.evidence)
    assert "0.57" in words
    assert "after clipping" in words
    assert "shrinks the updates" in words
    assert finding.patch == {"grpo": {"top_p": 1.0}}


def test_a22_more_completions_a_prompt_are_not_more_updates(of_log, log_of) -> None:
    """The same data at G=4 and 8 gives 100 and 200 steps: neither length is an alarm, and both are one kind of run."""
    runs = [
        of_log(
            log_of(n, reward=noisy(lambda s, n=n: 0.2 + 0.4 * s / n), loss=0.0, frac_reward_zero_std=noisy(0.2, 0.01)),
            num_generations=g,
        )
        for n, g in ((100, 4), (200, 8))
    ]
    assert [found.alarms for found in runs] == [set(), set()]


ZEROS = {"loss": 0.0, "reward_std": 0.0, "grad_norm": 0.0}


def test_a23_all_zero_because_truncated(of_log, log_of) -> None:
    assert of_log(log_of(20, **TRUNCATED)).diagnosis.findings[0].id == "truncation"


def test_a23_all_zero_because_no_reward_comes(of_log, log_of) -> None:
    rows = log_of(20, **ZEROS, frac_reward_zero_std=0.0, **{"completions/clipped_ratio": 0.0})
    rows = [row | {"reward": None, "rewards/f/mean": None} for row in rows]
    found = of_log(rows)
    assert found.diagnosis.findings[0].id == "reward_missing"
    assert any("not a sign of health" in sentence for sentence in found["reward_missing"].evidence)


def test_a23_all_zero_because_completions_are_wrong_or_alike(of_log, log_of) -> None:
    rows = log_of(20, **ZEROS, reward=0.0, frac_reward_zero_std=1.0, **{"completions/clipped_ratio": 0.0})
    found = of_log(rows)
    finding = found.diagnosis.findings[0]
    assert finding.id == "dead_groups_hard"
    assert any("reward function" in other for other in finding.may_be), "what the log cannot tell is said"


def test_a38_sampled_history_is_said(of_log) -> None:
    steps = np.sort(RNG.choice(np.arange(1, 3000), size=300, replace=False))
    rows = [{"step": int(s), "reward": 0.5 + 0.01 * math.sin(s), "loss": 0.1} for s in steps]
    found = of_log(rows)
    assert any("sampled" in sentence for sentence in found["incomplete_record"].evidence)
    assert not found.alarms


def test_a49_oscillation_is_no_plateau_and_no_collapse(of_log, log_of) -> None:
    rows = log_of(300, reward=noisy(lambda s: 0.5 + 0.15 * np.sin(s / 15)), loss=0.0, entropy=noisy(0.6))
    found = of_log(rows)
    assert "plateau" not in found.ids
    assert not found.alarms


def test_a50_two_seeds_in_one_log_are_said(of_log, log_of) -> None:
    one = log_of(60, reward=noisy(0.4), loss=0.0)
    two = log_of(60, reward=noisy(0.6), loss=0.1)
    found = of_log([*one, *two])
    assert any("2 runs" in sentence for sentence in found["incomplete_record"].evidence)
    assert found.diagnosis.rows == 60


def test_warm_up_is_no_fault(of_log, log_of) -> None:
    rows = log_of(
        60,
        learning_rate=lambda s: np.minimum(1e-6, 1e-7 * (s - 1)),
        reward=noisy(lambda s: 0.2 + 0.005 * s),
        grad_norm=noisy(0.5),
        entropy=noisy(0.6),
        loss=0.0,
    )
    assert not of_log(rows, learning_rate=1e-6, beta=0.0).alarms
