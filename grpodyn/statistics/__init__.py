"""Intervals, paired tests, families of tests, and how many seeds they need. No torch."""

from __future__ import annotations

from grpodyn.statistics.families import holm, simultaneous_level
from grpodyn.statistics.interval import Interval
from grpodyn.statistics.means import mean_interval, paired_interval, ratio_interval
from grpodyn.statistics.paired import Equivalence, TestResult, mcnemar, non_inferiority, paired_test, tost
from grpodyn.statistics.power import detectable_difference, power, required_pairs
from grpodyn.statistics.proportions import paired_share_interval, wilson

__all__ = [
    "Equivalence",
    "Interval",
    "TestResult",
    "detectable_difference",
    "holm",
    "mcnemar",
    "mean_interval",
    "non_inferiority",
    "paired_interval",
    "paired_share_interval",
    "paired_test",
    "power",
    "ratio_interval",
    "required_pairs",
    "simultaneous_level",
    "tost",
    "wilson",
]
