"""From shares to a word: each rule by hand, at its threshold and past it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.attribution.verdict import Effect, decide, listed
from grpodyn.statistics import Interval

GAIN = Interval(0.3, 0.27, 0.33, 0.95)
NARROW = Interval(0.3, 0.275, 0.325, 0.9)


def within(value: float, half: float = 0.1) -> Interval:
    return Interval(value, value - half, value + half, 0.95)


def effect(name: str, kept: float, lost: float, half: float = 0.1) -> Effect:
    return Effect(name, within(kept, half), within(lost, half), within((kept + lost) / 2, half))


def idle(count: int) -> list[Effect]:
    return [effect(f"idle {i}", 0.0, 0.0) for i in range(count)]


CASES = [
    ("localised", ("a",), [effect("a", 1.0, 1.0)]),
    ("localised", ("a",), [effect("a", 0.5, 0.8)]),
    # Two halves that add up are two places.
    ("localised", ("a", "b"), [effect("a", 0.5, 0.5), effect("b", 0.4, 0.4)]),
    ("redundant", ("a", "b"), [effect("a", 0.95, 0.05), effect("b", 0.9, 0.1)]),
    ("redundant", ("a", "b", "c"), [effect(n, 0.9, 0.0) for n in "abc"]),
    ("joint", ("a", "b"), [effect("a", 0.0, 1.0), effect("b", 0.05, 0.95)]),
    ("harmful", ("s",), [effect("a", 1.4, 1.4), effect("s", -0.3, -0.4)]),
    ("distributed", (), [effect(f"d{i}", 0.1, 0.1) for i in range(10)]),
    # One that is enough and needed beside one that would be enough: the place is the first.
    ("localised", ("a",), [effect("a", 1.0, 0.7), effect("b", 0.6, 0.1)]),
]


@pytest.mark.parametrize(("word", "parts", "effects"), CASES)
def test_each_word(word: str, parts: tuple[str, ...], effects: list[Effect]) -> None:
    verdict = decide(GAIN, NARROW, [*effects, *idle(10)])
    assert (verdict.word, verdict.parts) == (word, parts)
    assert verdict.text


def test_what_is_beside_a_harmful_part_is_said() -> None:
    verdict = decide(GAIN, NARROW, [effect("a", 1.4, 1.4), effect("s", -0.3, -0.4), *idle(8)])
    assert "localised (a)" in verdict.beside


def test_a_small_harm_and_an_unsure_one_take_no_word() -> None:
    for lost, half in ((-0.1, 0.05), (-0.3, 0.35)):
        effects = [effect("a", 1.0, 1.0), effect("s", 0.0, lost, half), *idle(8)]
        assert decide(GAIN, NARROW, effects).word == "localised"


def test_wide_intervals_are_too_noisy() -> None:
    verdict = decide(GAIN, NARROW, [effect(f"d{i}", 0.1, 0.1, half=0.4) for i in range(10)])
    assert verdict.word == "too noisy"
    assert "0.40 of the gain" in verdict.text


def test_of_no_gain_only_a_precise_one_is_flat() -> None:
    assert decide(within(0.0, 0.01), within(0.0, 0.008), idle(3)).word == "flat"
    assert decide(within(0.01, 0.05), within(0.01, 0.04), idle(3)).word == "too noisy"
    # A real but negligible gain is nothing to attribute either.
    assert decide(within(0.015, 0.01), within(0.015, 0.008), idle(3)).word == "flat"
    assert decide(within(-0.2, 0.05), within(-0.2, 0.04), idle(3)).word == "harmful"


def test_unknown_intervals_are_too_noisy() -> None:
    nan = Interval(0.1, math.nan, math.nan, 0.95)
    assert decide(GAIN, NARROW, [Effect("a", nan, nan, nan)]).word == "too noisy"
    assert decide(Interval(0.3, math.nan, math.nan, 0.95), NARROW, []).word == "too noisy"


@given(
    st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 2), st.floats(0.001, 0.5)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_of_parts_does_not_matter_and_named_parts_exist(parts, random) -> None:
    effects = [effect(f"p{i}", *values) for i, values in enumerate(parts)]
    verdict = decide(GAIN, NARROW, effects)
    shuffled = list(effects)
    random.shuffle(shuffled)
    again = decide(GAIN, NARROW, shuffled)
    assert again.word == verdict.word
    assert set(verdict.parts) <= {e.name for e in effects}
    assert bool(verdict.parts) == (verdict.word in ("localised", "redundant", "joint", "harmful"))


def test_names_are_listed_as_in_a_sentence() -> None:
    assert listed(["a"]) == "a"
    assert listed([]) == "no part"
