"""Fits against values that were found elsewhere: public traces, published curves, exact identities."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from grpodyn.forecasting.candidates import Candidate, fit_all
from grpodyn.forecasting.forecast import forecast
from grpodyn.forecasting.forms import FORMS, Positions
from grpodyn.forecasting.noise import plain
from grpodyn.series import series_from_rows

TRACES = Path(__file__).parents[1] / "data" / "traces"


def rising() -> np.ndarray:
    lines = (TRACES / "arithmetic_lora_100.metrics.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["env/all/reward/total"] for line in lines])


def flat(name: str) -> np.ndarray:
    return np.array(json.loads((TRACES / name).read_text())["reward_trace"])


def tool_calls() -> np.ndarray:
    return np.array(
        [float(v) for v in re.findall(r"reward=([\d.]+)", (TRACES / "tool_calls_100_rising.log").read_text())]
    )


def fits(y: np.ndarray) -> dict[str, Candidate]:
    # Steps of these traces are counted from 0; the log-compute form then takes step + 1.
    return {one.model: one for one in fit_all(plain(np.arange(len(y), dtype=float), y), plain=True)}


@pytest.mark.parametrize(
    ("model", "parameters", "r2", "aicc"),
    [
        ("exponential", {"R0": 0.6640, "R_inf": 0.9986, "tau": 1.404}, 0.9741, -1009.2),
        ("logistic", {"R0": 0.6295, "R_inf": 0.9981, "k": 1.7255, "t0": 1.1196}, 0.9930, -1137.5),
        ("scalerl", {"R0": 0.6692, "A": 0.9983, "B": 4.762, "Cmid": 2.218}, 0.9930, -1137.7),
        # Critically damped: both rates equal.
        ("second_order", {"R0": 0.6712, "R_inf": 0.9983, "l1": 1.4226, "l2": 1.4226}, 0.9907, -1109.4),
    ],
)
def test_forms_on_the_rising_trace(model: str, parameters: dict[str, float], r2: float, aicc: float) -> None:
    found = fits(rising())[model]
    for name, value in parameters.items():
        assert found.parameters[name] == pytest.approx(value, rel=0.02), name
    assert found.r2 == pytest.approx(r2, abs=5e-4)
    assert found.aicc == pytest.approx(aicc, abs=0.5)
    assert found.rejected == ""


def test_gaps_on_the_rising_trace() -> None:
    found = fits(rising())
    best = min(one.aicc for one in found.values())
    assert found["constant"].aicc - best == pytest.approx(489, abs=1)
    assert found["linear"].aicc - best == pytest.approx(483, abs=1)


@pytest.mark.parametrize(("n", "end"), [(10, 1.0022), (15, 0.9995), (20, 0.9993), (40, 0.9988)])
def test_exponential_of_the_first_points(n: int, end: float) -> None:
    assert fits(rising()[:n])["exponential"].parameters["R_inf"] == pytest.approx(end, abs=3e-4)


@pytest.mark.parametrize(
    ("trace", "linear", "exponential", "sigmoid"),
    [("gsm8k_llama8b_flat.json", 1.28, 2.79, 3.68), ("gsm8k_qwen3_8b_flat.json", 1.68, 4.38, 5.41)],
)
def test_flat_traces_have_no_trend(trace: str, linear: float, exponential: float, sigmoid: float) -> None:
    found = fits(flat(trace))
    constant = found["constant"].aicc
    assert min(found.values(), key=lambda one: one.aicc).model == "constant"
    for model, gap in (("linear", linear), ("exponential", exponential), ("logistic", sigmoid)):
        assert found[model].aicc - constant == pytest.approx(gap, abs=0.5), model
    result = forecast(series_from_rows(np.arange(1, 31), flat(trace)))
    assert result.verdict == "no_trend"
    assert result.phases.plateau is None
    assert result.asymptote is None


def test_a_single_spike_at_the_end_is_a_sigmoid_to_least_squares_and_no_trend_to_a_forecast() -> None:
    found = fits(tool_calls())
    assert found["constant"].aicc - found["logistic"].aicc == pytest.approx(20.1, abs=0.5)
    # Its steepness is at the bound: the whole rise is one point.
    assert found["logistic"].rejected != ""
    assert forecast(series_from_rows(np.arange(1, 101), tool_calls())).verdict == "no_trend"


SCALERL = [
    (2542, 1.92, 0.610),
    (11272, 1.89, 0.645),
    (2542, 2.44, 0.585),
    (3054, 2.22, 0.590),
    (2936, 2.07, 0.595),
    (4242, 1.65, 0.710),
    (2818, 1.77, 0.605),
    (10909, 1.70, 0.645),
    (2896, 2.05, 0.595),
    (1675, 1.09, 0.615),
]


@pytest.mark.parametrize(("middle", "steepness", "ceiling"), SCALERL)
def test_published_scalerl_curves_come_back_from_noise(middle: float, steepness: float, ceiling: float) -> None:
    # Every 100 steps of a run of 8 Cmid; a mean over 16 × 1,000 samples has an error of about .004.
    compute = np.linspace(0.05, 8, 80) * middle
    truth = 0.2 + (ceiling - 0.2) / (1 + (middle / compute) ** steepness)
    noise = 0.004 * np.random.default_rng(round(middle)).standard_normal(len(compute))
    found = {one.model: one for one in fit_all(plain(compute, truth + noise), plain=True)}["scalerl"]
    assert found.parameters["A"] == pytest.approx(ceiling, abs=0.02)
    assert found.parameters["B"] == pytest.approx(steepness, rel=0.15)
    assert found.parameters["Cmid"] == pytest.approx(middle, rel=0.15)


def _at(t: np.ndarray) -> Positions:
    return Positions(t, t)


def test_identities_of_the_exponential() -> None:
    tau = 0.1
    t = np.linspace(0, 1, 100_001)
    share = FORMS["exponential"].shares(_at(t), np.array([[tau]]))[0]
    for done, constants in ((0.8, 1.609), (0.9, 2.303), (0.95, 2.996)):
        assert t[np.argmax(share >= done)] / tau == pytest.approx(constants, abs=2e-3)
    # Slope below eps at tau ln(rise / (tau eps)).
    rise, eps = 0.6, 0.3
    slope = rise * np.gradient(share, t)
    assert t[np.argmax(slope < eps)] == pytest.approx(tau * np.log(rise / (tau * eps)), abs=1e-4)


def test_second_order_starts_level_and_has_the_exponential_as_its_overdamped_limit() -> None:
    t = np.linspace(0, 1, 1001)
    form = FORMS["second_order"]
    critical = form.shares(_at(t), np.array([[0.1, 1.001]]))[0]
    scaled = t / 0.1
    np.testing.assert_allclose(critical, 1 - (1 + scaled) * np.exp(-scaled), atol=1e-3)
    assert (critical[1] - critical[0]) / (t[1] - t[0]) < 1.0
    overdamped = form.shares(_at(t), np.array([[0.1, 1e4]]))[0]
    np.testing.assert_allclose(overdamped, -np.expm1(-t / 0.1), atol=2e-4)
