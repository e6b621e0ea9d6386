"""What single figures say, held to runs whose movement is known."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from grpodyn import figures, registry
from grpodyn.ablation.results import ArmResult
from grpodyn.figures.layers import edges, norm
from grpodyn.figures.style import COLOURS
from grpodyn.figures.text import label
from grpodyn.statistics import Interval
from tests.simulation.staged_run import write_staged_run
from tests.simulation.whole_run import write_whole_run


def test_the_reward_shows_its_forecast_up_to_the_planned_end(small: Any) -> None:
    course = small.of("reward_course")
    drawn = figures.reward(course)
    axes = drawn.figure.axes[0]
    names = axes.get_legend_handles_labels()[1]
    assert {"forecast", "held out, T=1", "held out, greedy"} <= set(names)
    assert course.ahead.steps[-1] == 60
    assert "Held-out accuracy: 0.05 at step 0, 0.9 at step 40" in drawn.alt


def test_movement_by_layer_is_told_by_its_numbers(small: Any) -> None:
    # Layer l moves (l+1)·1e-4·√(1+1+4) of a norm of 10·√3: layer 11 most, 12·√6/√3·1e-5 = 0.00016971.
    drawn = figures.relative_update(small.of("layer_dynamics"))
    assert "Largest on average over the run: layer 11 (0.00017)" in drawn.alt
    assert "smallest: layer 0 (1.41e-05)" in drawn.alt


def test_shares_of_movement_are_of_squares(small: Any) -> None:
    # down_proj moves twice as much as q and v: 4/(1+1+4) of the squares. Layer 11: 144 of 1+4+…+144 = 650.
    drawn = figures.movement_and_contribution(small.of("layer_dynamics"))
    assert "by layer: 11 22 %, 10 19 % and 9 15 %" in drawn.alt
    assert "by module type: down_proj 67 %, q_proj 17 % and v_proj 17 %" in drawn.alt
    assert "Contribution was not tested" in drawn.alt
    assert "contribution was not tested" in drawn.title


def test_movement_and_contribution_may_differ_and_the_figure_says_so(small: Any, attribution: Any) -> None:
    drawn = figures.movement_and_contribution(small.of("layer_dynamics"), attribution)
    assert "Most of the gain by layer: layer 0 70 % (65 to 75) and layers 1-11 20 %" in drawn.alt
    assert "by module type: q_proj 80 %" in drawn.alt
    assert "Verdict of the patch test: localised" in drawn.alt
    # The block of eleven layers is one mark, at an eleventh of its share, as long as the block.
    beside = drawn.figure.axes[1]
    marks = [line for line in beside.lines if line.get_linewidth() == pytest.approx(2.4)]
    assert len(marks) == 2
    assert marks[1].get_xdata()[0] == pytest.approx(0.2 / 11)
    assert np.ptp(marks[1].get_ydata()) == pytest.approx(10.7)


def test_truncation_says_what_each_rank_keeps(attribution: Any) -> None:
    assert "90 % at rank 1, 90 % at rank 2 and 90 % at rank 4" in figures.truncation(attribution).alt


def test_a_far_cap_is_told_and_not_drawn(small: Any, tmp_path: Path) -> None:
    # The median module's smaller side is 16 or 8 against an effective rank of 3: within 6 × 3, so drawn.
    drawn = figures.ranks(small.of("rank_course"))
    assert "q_proj 3 (matrices 3 to 3, cap 16)" in drawn.alt
    course = small.of("rank_course")
    far = replace(course, ranks={k: tuple(replace(one, cap=4096.0) for one in v) for k, v in course.ranks.items()})
    assert "cap 4096" in figures.ranks(far).alt
    assert all(axes.get_ylim()[1] < 100 for axes in figures.ranks(far).figure.axes)


def test_the_cap_of_an_adapter_is_its_rank(tmp_path: Path) -> None:
    course = registry.analysis("rank_course").run(write_whole_run(tmp_path / "lora", steps=10, layers=2, lora=True))
    assert {one.cap for one in course.ranks["effective_rank"]} == {4.0}


def test_straight_ways_are_straight(small: Any) -> None:
    drawn = figures.path_and_displacement(small.of("path_and_displacement"))
    assert "1 in model.layers." in drawn.alt


def test_groups_by_outcome(small: Any) -> None:
    found = small.of("group_outcomes")
    drawn = figures.group_outcomes(found)
    assert "all wrong 100 % at first" in drawn.alt or "all wrong 83 % at first" in drawn.alt
    assert np.allclose(np.add(np.add(found.all_right, found.mixed), found.all_wrong), 1)


def test_groups_without_an_outcome_show_spread_alone(small: Any) -> None:
    found = small.of("group_outcomes")
    unknown = (float("nan"),) * len(found.dead)
    drawn = figures.group_outcomes(replace(found, outcome=None, all_right=unknown, mixed=unknown, all_wrong=unknown))
    assert "Nothing tells right from wrong" in drawn.alt
    assert "without spread" in drawn.figure.axes[0].get_legend_handles_labels()[1]


def test_sizes_beyond_the_recorded_one_are_hollow(small: Any) -> None:
    drawn = figures.dead_groups(small.of("group_size").runs[0])
    dots = [line for line in drawn.figure.axes[0].lines if line.get_label() == "_size"]
    hollow = [line.get_markerfacecolor() == "none" for line in dots]
    assert [float(line.get_xdata()[0]) for line in dots] == [2, 4, 8, 16]
    assert hollow == [False, False, True, True]


def test_retention_ends_where_it_was_measured(small: Any) -> None:
    # KL 0 → 2 at a gain of 0.85; perplexity 10 → 11.
    alt = figures.retention(small.of("forgetting")).alt
    assert "forward" not in alt.lower() or "2 at a gain of 0.85" in alt
    assert "Steps 0 to 40" in alt


def arm(name: str, value: float) -> ArmResult:
    around = Interval(value, value - 0.02, value + 0.02, 0.95)
    fields: dict[str, Any] = dict.fromkeys(
        ("accuracy", "greedy", "best", "gain_kept", "steps_to_level", "kl", "skill_gain"), around
    )
    return ArmResult(
        task="t", arm=name, what="", trainable_params=233_472, lora=None, learning_rate=1e-4, rates_tried={},
        at_edge=False, seeds=(0, 1), pass_at={}, perplexity_ratio={}, reached=2, seconds=1.0, failed=(), **fields,
    )  # fmt: skip


def test_arms_with_their_intervals_and_without_results() -> None:
    class Ablation:
        arms = (arm("all-linear", 0.9), arm("q $only$", float("nan")))
        bases = ()
        verdict = "not separable"

    drawn = figures.arms(Ablation)
    assert "1 arm over their seeds: all-linear 0.9 (0.88 to 0.92)" in drawn.alt
    Ablation.arms = (arm("all-linear", float("nan")),)
    assert "none yet" in figures.arms(Ablation).alt


def test_arms_over_steps_have_bands_where_there_are_seeds(tmp_path: Path) -> None:
    config = {"grpo": {"learning_rate": 1e-5}, "seed": 0}
    runs = [
        write_whole_run(tmp_path / name, steps=20, layers=2, seed=seed, config={**config, "seed": seed, "note": note})
        for name, seed, note in (("a0", 0, "a"), ("a1", 1, "a"), ("b0", 2, "b"))
    ]
    found = registry.analysis("run_comparison").run(runs[0], others=tuple(runs[1:]))
    drawn = figures.comparison(found, "reward")
    assert len(drawn.figure.axes[0].lines) == 2
    assert len(drawn.figure.axes[0].collections) == 1, "the arm of one run has no band"


def test_names_out_of_a_run_are_text_and_no_formula(small: Any) -> None:
    course = replace(small.of("reward_course"), run="$\\frac{1}{0}$ 長い <b>", metric="r_$x$")
    drawn = figures.reward(course)
    assert "$\\frac{1}{0}$ ?? <b>" in drawn.title
    assert drawn.svg()


def test_long_names_are_cut_in_the_middle() -> None:
    assert label("a" * 100, 9) == "aaaa…aaaa"


def test_colours_follow_orders_of_magnitude_only_where_there_are_some() -> None:
    assert isinstance(norm(np.array([[1e-6, 1e-3]])), LogNorm)
    assert not isinstance(norm(np.array([[1.0, 2.0], [np.nan, 0.0]])), LogNorm)
    assert norm(np.full((2, 2), np.nan)).vmax == 1.0


def test_columns_lie_around_their_steps() -> None:
    assert edges([1, 2, 4]).tolist() == [0.5, 1.5, 3.0, 5.0]
    assert edges([7]).tolist() == [6.5, 7.5]


def _linear(hexadecimal: str) -> np.ndarray:
    srgb = np.array([int(hexadecimal[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("paint", COLOURS)
@pytest.mark.parametrize("paper", ["#ffffff", "#0d1117"])
def test_every_colour_has_contrast_on_light_and_on_dark_paper(paint: str, paper: str) -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ _linear(one)) for one in (paint, paper))
    assert (high + 0.05) / (low + 0.05) >= 3.0  # WCAG 1.4.11


# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB.
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def _lab(linear: np.ndarray) -> np.ndarray:
    xyz = np.array(TO_XYZ) @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("matrix", [DEUTERANOPIA, PROTANOPIA], ids=["deuteranopia", "protanopia"])
def test_the_first_three_colours_are_told_apart_by_colour_blind_readers(matrix: Any) -> None:
    seen = [_lab(np.array(matrix) @ _linear(paint)) for paint in COLOURS[:3]]
    distances = [float(np.linalg.norm(a - b)) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(distances) > 15, distances


def test_a52_a_headless_machine_with_a_backend_that_needs_a_display() -> None:
    code = (
        "from grpodyn import figures\n"
        "from types import SimpleNamespace as N\n"
        "cost = N(run='a', steps=(1, 2), recorder=(1.0, 2.0), step=(10.0, 10.0), total_recorder=3.0, "
        "total_steps=20.0, share=0.15)\n"
        "print(figures.recorder_cost(cost).alt, len(figures.recorder_cost(cost).svg()) > 1000)"
    )
    environment = {"MPLBACKEND": "TkAgg", "PATH": "/usr/bin", "HOME": "/proc/none", "MPLCONFIGDIR": "/tmp"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "15 %" in done.stdout
    assert "True" in done.stdout


def test_a51_a_long_run_is_drawn_in_no_more_space_than_a_short_one(tmp_path: Path) -> None:
    sizes = []
    for steps in (120, 1200):
        run = write_whole_run(tmp_path / str(steps), layers=4, steps=steps)
        drawn = [
            figures.relative_update(registry.analysis("layer_dynamics").run(run)),
            figures.path_and_displacement(registry.analysis("path_and_displacement").run(run)),
            figures.group_outcomes(registry.analysis("group_outcomes").run(run)),
            figures.recorder_cost(registry.analysis("recorder_cost").run(run)),
        ]
        sizes.append([len(one.svg()) for one in drawn])
    short, long = sizes
    # Ten times the steps; what is drawn is cut into parts, whose number has a bound.
    assert all(after < 2.5 * before for before, after in zip(short, long, strict=True)), sizes


def test_stages_are_told_apart_in_words(tmp_path: Path) -> None:
    found = registry.analysis("stages").run(write_staged_run(tmp_path / "run", layers=2, bare=True))
    drawn = figures.stages(found)
    assert "Stage sft, steps 0 to 10, done; held-out accuracy 0 to 0.1" in drawn.alt
    assert "Stage grpo, steps 10 to 30" in drawn.alt
    texts = [one.get_text() for axes in drawn.figure.axes for one in axes.texts]
    # What a panel lacks is said in its place, the others are drawn.
    assert any("no perplexity was measured" in text for text in texts)
    assert any("not recorded" in text for text in texts)
    assert texts.count("sft") == 1
