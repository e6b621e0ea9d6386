"""One fault is told once; what another fault does not explain is told as it is."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.diagnosis.diagnosing import _explained
from grpodyn.diagnosis.finding import Finding, Severity


def test_a_warning_does_not_hide_what_is_critical(of_log, log_of) -> None:
    # 12 % of completions are cut off (a warning); all are wrong, which 12 % cannot explain.
    rows = log_of(
        60,
        **{
            "completions/clipped_ratio": 0.12,
            "reward": 0.0,
            "frac_reward_zero_std": 1.0,
            "completions/mean_length": 90.0,
        },
    )
    found = of_log(rows)
    assert found["truncation"].severity == "warning"
    assert found["dead_groups_hard"].severity == "critical"
    assert found["dead_groups_hard"].patch is not None
    assert found.diagnosis.worst == "critical"


def test_what_begins_later_is_no_cause(of_log, log_of) -> None:
    # The reward is lost at step 63; completions are cut off from step 92 on.
    noise = 0.02 * np.random.default_rng(0).standard_normal(200)
    rows = log_of(
        200,
        **{
            "reward": lambda steps: np.where(steps < 63, 0.7, 0.1) + noise,
            "completions/clipped_ratio": lambda steps: np.where(steps < 92, 0.0, 0.8),
        },
    )
    found = of_log(rows)
    assert found["truncation"].severity == "critical"
    # Over ten rows .8 / 10 is under a tenth, 1.6 / 10 is over it.
    assert found["truncation"].onset_step == 93
    assert found["reward_collapse"].severity == "critical"
    assert found["reward_collapse"].follows_from == ()
    assert found["reward_collapse"].onset_step < 75


@pytest.mark.parametrize(
    ("severity", "onset", "slack", "follows"),
    [
        ("critical", 5, 5.0, True),
        # Four steps later than what it is to explain, where onsets are known to three.
        ("critical", 5, 3.0, False),
        ("critical", None, 0.0, True),
        ("warning", 1, 5.0, False),
        ("info", 1, 5.0, False),
    ],
)
def test_a_cause_is_as_grave_and_there_before(
    severity: Severity, onset: int | None, slack: float, follows: bool
) -> None:
    cause = Finding("truncation", severity, onset, ("cut off",))
    consequence = Finding("dead_groups_hard", "critical", 1, ("all wrong",), patch={"grpo": {"num_generations": 16}})
    told = _explained(consequence, [cause, consequence], slack)
    assert told.follows_from == (("truncation",) if follows else ())
    assert told.severity == ("info" if follows else "critical")
    assert (told.patch is None) is follows
