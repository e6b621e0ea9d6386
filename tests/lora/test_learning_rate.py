from __future__ import annotations

import pytest

from grpodyn.lora.learning_rate import advise, effective_alpha
from grpodyn.lora.modules import LinearModule, uniform


def plan(rank: int = 16, method: str = "lora"):
    return uniform([LinearModule("fc", 64, 64)], rank, 32, method)


def test_a_full_runs_advice_is_a_range_from_three_to_ten_times() -> None:
    rate = advise(1e-6, None, plan())
    assert (rate.learning_rate, rate.low, rate.high) == (3e-6, 3e-6, 1e-5)
    assert "full run's 1e-06" in rate.basis


def test_rslora_scales_by_the_root_of_the_rank() -> None:
    # alpha / √16 is four times alpha / 16, so the same first step takes a quarter of the rate.
    rate = advise(1e-6, None, plan(method="rslora"))
    assert (rate.low, rate.high) == (pytest.approx(3e-6 / 4), pytest.approx(1e-5 / 4))
    assert "rsLoRA" in rate.basis


@pytest.mark.parametrize(
    ("lora", "new_plan", "factor"),
    [
        ({"r": 16, "lora_alpha": 32}, plan(), 1.0),
        ({"r": 16, "lora_alpha": 64}, plan(), 2.0),
        # The first step of ΔW under α/r does not depend on r.
        ({"r": 8, "lora_alpha": 16}, plan(32), 0.5),
        ({"r": 16, "lora_alpha": 32, "use_rslora": True}, plan(), 4.0),
        ({"r": 16, "lora_alpha": 32, "use_rslora": True}, plan(method="rslora"), 1.0),
        # PEFT's own defaults, where the config does not say.
        ({}, plan(), 0.25),
    ],
)
def test_a_lora_run_keeps_alpha_times_learning_rate(lora, new_plan, factor) -> None:
    rate = advise(1e-5, lora, new_plan)
    assert rate.learning_rate == pytest.approx(factor * 1e-5)
    assert rate.low == rate.high == rate.learning_rate
    old = effective_alpha(lora.get("lora_alpha", 8), lora.get("r", 8), lora.get("use_rslora", False))
    new = effective_alpha(32, new_plan.rank, new_plan.method == "rslora")
    assert rate.learning_rate * new == pytest.approx(1e-5 * old)


def test_keep_leaves_it() -> None:
    rate = advise(1e-6, None, plan(), keep=True)
    assert (rate.learning_rate, rate.low, rate.high) == (1e-6, 1e-6, 1e-6)


@pytest.mark.parametrize("recorded", [None, 0.0, -1.0, float("nan")])
def test_an_unknown_rate_gives_none_and_says_so(recorded) -> None:
    rate = advise(recorded, None, plan())
    assert rate.learning_rate is None
    assert "not in its manifest" in rate.basis
