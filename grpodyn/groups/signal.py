"""What of the policy gradient a group of g lets through, for rewards of 0 and 1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from grpodyn.groups.mixing import GRID, Mixing

Floats = NDArray[np.float64]


def group_spread(g: int) -> Floats:
    """Return √(k(g − k))/g for k = 0 … g right completions: the length of a group's gradient.

    With advantages over the group's standard deviation, the gradient of a group is √(k(g − k))/g times the mean score
    of the right completions less that of the wrong ones.

    Reference:
        arXiv 2607.00152: for rewards of 0 and 1 the update's size is the group's standard deviation.
    """
    right = np.arange(g + 1)
    return np.asarray(np.sqrt(right * (g - right)) / g, np.float64)


def endless_spread(mixing: Mixing) -> float:
    """Return E √(p(1 − p)), what groups without end would let through."""
    return mixing.mean(lambda p: np.sqrt(p * (1 - p)))


def passed_spread(mixing: Mixing, g: int) -> float:
    """Return E √(k(g − k))/g over prompts and groups of g."""
    return float(mixing.weights @ (_chances(g) @ group_spread(g)))


def advantage_noise(mixing: Mixing, g: int) -> float:
    """Return how far a completion's advantage lies from what an endless group would give it, root mean square.

    √E(A_g − A_∞)² over completions of prompts that are neither always right nor always wrong, in units of an advantage
    (A_∞ has root mean square 1); A_g is 0 in groups without spread. nan if no prompt is between.

    With k of g right A_g is √((g − k)/k) for the right ones and −√(k/(g − k)) for the wrong ones.
    """
    inner = slice(1, -1)
    p = GRID[inner, None]
    right = np.arange(1, g)[None, :]
    of_right = np.sqrt((g - right) / right) - np.sqrt((1 - p) / p)
    of_wrong = np.sqrt(right / (g - right)) - np.sqrt(p / (1 - p))
    squared = right / g * of_right**2 + (1 - right / g) * of_wrong**2
    chances = _chances(g)[inner]
    # In a group that is all right, A_∞ = √((1−p)/p) is lost whole; all wrong, √(p/(1−p)).
    lost = chances[:, g] * ((1 - p) / p)[:, 0] + chances[:, 0] * (p / (1 - p))[:, 0]
    per_rate = (chances[:, 1:g] * squared).sum(1) + lost
    weights = mixing.weights[inner]
    return math.sqrt(float(weights @ per_rate) / float(weights.sum())) if weights.sum() > 0 else math.nan


def _chances(g: int) -> Floats:
    """(rates, g + 1): the chance of k right completions of g at every rate of the grid."""
    return np.asarray(binom.pmf(np.arange(g + 1)[None, :], g, GRID[:, None]), np.float64)
