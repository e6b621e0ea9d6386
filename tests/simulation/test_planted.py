"""The planted models themselves: what they say of single places, derived by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("planted", Path(__file__).with_name("planted.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted"] = module
    spec.loader.exec_module(module)
    return module


planted = load()
QUIET = (0.0, 0.0)


def model(name: str, seed: int = 0, **options: object) -> object:
    scenario = next(s for s in planted.SCENARIOS if s.name == name)
    return planted.PlantedModel(scenario, seed, **{"background": QUIET, **options})


def mean(m: object, changed: object) -> float:
    return float(m.outcomes(changed, 2000, "choose").mean())


def parts(m: object) -> tuple[dict[int, frozenset[str]], float, float]:
    every = frozenset(m.every)
    layers = {i: frozenset(n for n in every if planted.in_layer(n, i)) for i in range(m.layers)}
    return layers, mean(m, ()), mean(m, every)


def test_one_part_is_sufficient_and_necessary() -> None:
    m = model("one part carries it")
    layers, base, final = parts(m)
    (at,) = m.truth.layers
    assert mean(m, layers[at]) == final > base + 0.2
    assert mean(m, frozenset(m.every) - layers[at]) == base


def test_redundant_parts_are_sufficient_and_not_necessary() -> None:
    m = model("two parts, each sufficient")
    layers, base, final = parts(m)
    for at in m.truth.layers:
        assert mean(m, layers[at]) == final
        assert mean(m, frozenset(m.every) - layers[at]) == final
    assert mean(m, frozenset(m.every) - layers[m.truth.layers[0]] - layers[m.truth.layers[1]]) == base


def test_joint_parts_are_necessary_and_not_sufficient() -> None:
    m = model("two parts, only together")
    layers, base, final = parts(m)
    for at in m.truth.layers:
        assert mean(m, layers[at]) == base
        assert mean(m, frozenset(m.every) - layers[at]) == base
    assert mean(m, layers[m.truth.layers[0]] | layers[m.truth.layers[1]]) == final


def test_without_the_suppressor_more_is_gained() -> None:
    m = model("a suppressor")
    layers, _, final = parts(m)
    assert mean(m, frozenset(m.every) - layers[m.truth.layers[0]]) > final + 0.02


@pytest.mark.parametrize(
    ("name", "first_ten"),
    # Half to the power of 6 to 10 is at most 1/64; 1 − e^(−6/2) is .95.
    [("every layer, each needs the others", (0.0, 1 / 64)), ("every layer, each stands in for others", (0.95, 1.0))],
)
def test_of_layers_that_are_all_alike_only_their_number_counts(name: str, first_ten: tuple[float, float]) -> None:
    m = model(name, 4, layers=20)
    layers, base, final = parts(m)
    first, last = (frozenset().union(*(layers[i] for i in some)) for some in (range(10), range(10, 20)))
    assert mean(m, first) == mean(m, last)
    low, high = first_ten
    assert low <= (mean(m, first) - base) / (final - base) <= high
    assert m.truth.layers == ()


def test_two_parts_that_add_up() -> None:
    m = model("two parts that add up")
    layers, base, final = parts(m)
    a, b = ((mean(m, layers[at]) - base) / (final - base) for at in m.truth.layers)
    assert (a, b) == pytest.approx((0.6, 0.4))


def test_out_of_reach_and_none() -> None:
    m = model("one part outside LoRA's reach")
    _, base, final = parts(m)
    assert mean(m, ["model.embed_tokens.weight"]) == final > base + 0.2
    none = model("none")
    assert mean(none, none.every) == mean(none, ())


@pytest.mark.parametrize("samples", [None, 4])
def test_a_state_always_gives_the_same_outcome_and_prompts_differ(samples: int | None) -> None:
    m = planted.PlantedModel(planted.SCENARIOS[0], 3, samples=samples)
    once, again = (m.outcomes(m.every, 300, "choose") for _ in range(2))
    assert np.array_equal(once, again)
    assert once.std() > 0.1
    assert not np.array_equal(once, m.outcomes(m.every, 300, "confirm"))


def test_small_effects_cancel_in_the_trained_model() -> None:
    loud = planted.PlantedModel(planted.SCENARIOS[0], 1, background=(0.05, 0.0))
    quiet = planted.PlantedModel(planted.SCENARIOS[0], 1, background=QUIET)
    assert mean(loud, loud.every) == pytest.approx(mean(quiet, quiet.every))
