from __future__ import annotations

import numpy as np
import pytest

from grpodyn.config.stages import CurriculumConfig
from grpodyn.training.mastery import Viability, judge, not_viable, viability

RULE = CurriculumConfig()


@pytest.mark.parametrize(
    ("tests", "outcome"),
    [
        ([], None),
        ([0.9, 0.9], None),
        ([0.85, 0.9, 0.86], "mastered"),
        ([0.9, 0.9, 0.84, 0.9, 0.9], None),
        # The best, .5, and then six tests without a better one.
        ([0.5, 0.4, 0.4, 0.5, 0.3, 0.2, 0.5], "stalled"),
        ([0.5, 0.4, 0.4, 0.5, 0.3, 0.2], None),
        # Back at the level after a long time: the next two tests may confirm it.
        ([0.95, 0.8, 0.8, 0.8, 0.8, 0.8, 0.9], None),
    ],
)
def test_how_tests_end_a_stage(tests, outcome):
    assert judge(RULE, tests) == outcome


def test_what_groups_hold():
    # Two prompts, p = .5 and .1, G = 4: (.125 + .6562) / 2.
    assert viability(np.array([0.5, 0.1]), 4) == Viability(0.3, pytest.approx(0.3906, abs=1e-4))
    assert not_viable(RULE, Viability(0.3, 0.39)) is None
    assert "less than 0.05" in str(not_viable(RULE, Viability(0.04, 0.6)))
    assert "more than 0.7" in str(not_viable(RULE, Viability(0.06, 0.71)))
