"""From shares to a word: each rule by hand, at its threshold and past it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.attribution.verdict import Effect, Verdict, decide, listed, overall, to_measure
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
    assert decide(GAIN, NARROW, [Effect("a", nan, nan, nan), Effect("b", nan, nan, nan)]).word == "too noisy"
    assert decide(Interval(0.3, math.nan, math.nan, 0.95), NARROW, []).word == "too noisy"


HALVES = [effect("a", 0.5, 0.5), effect("b", 0.4, 0.4), *idle(10)]
"""Shares of .5 and .4 that lead all others: they may hold .9 together, if they add up."""


@pytest.mark.parametrize(
    ("together", "word", "said"),
    [
        (effect("a + b", 0.9, 0.9), "localised", "a and b together hold 0.90"),
        # They stand in for each other, or need more parts: what they hold together is less than their sum.
        (effect("a + b", 0.6, 0.6), "distributed", "a and b together hold 0.60"),
        # .75 ± .3 may be .45.
        (effect("a + b", 0.75, 0.75, half=0.3), "too noisy", "0.45 to 1.05"),
        (None, "too noisy", "was not measured"),
    ],
)
def test_several_parts_are_a_place_by_what_they_hold_together(together: Effect | None, word: str, said: str) -> None:
    assert to_measure(HALVES) == ("a", "b")
    verdict = decide(GAIN, NARROW, HALVES, together)
    assert verdict.word == word
    assert said in verdict.text
    assert verdict.parts == (("a", "b") if word == "localised" else ())


@pytest.mark.parametrize(("kept", "lost"), [(0.48, 0.0), (0.0, 0.48), (0.6, 0.0), (0.0, 0.6), (0.3, 0.3)])
def test_of_parts_that_are_all_alike_none_is_the_place(kept: float, lost: float) -> None:
    """Three shares of .24 add up to .72, which is no reason to name three of twelve."""
    alike = [effect(f"layer {i}", kept, lost, half=0.02) for i in range(12)]
    assert to_measure(alike) == ()
    assert decide(GAIN, NARROW, alike).word == "distributed"


def test_a_part_that_leads_by_less_than_the_intervals_is_not_named() -> None:
    # .45 to .65 and .4 to .5 overlap, so that the second may hold more; apart by .1 they do not.
    near = [effect("a", 0.55, 0.55, half=0.1), effect("b", 0.45, 0.45, half=0.05)]
    assert "a" not in decide(GAIN, NARROW, [*near, *idle(10)]).parts
    apart = [effect("a", 0.7, 0.7, half=0.1), effect("b", 0.45, 0.45, half=0.05)]
    assert decide(GAIN, NARROW, [*apart, *idle(10)]).parts == ("a",)


def test_a_block_of_layers_does_not_lead_by_its_size() -> None:
    """A gain of which eight layers hold .8 and four hold .4: as much by layer."""
    unequal = [
        Effect("layers 0-7", within(0.8, 0.02), within(0.8, 0.02), within(0.8, 0.02), size=8),
        Effect("layers 8-11", within(0.4, 0.02), within(0.4, 0.02), within(0.4, 0.02), size=4),
        *(Effect(f"layers {i}", *[within(0.0, 0.02)] * 3, size=10) for i in range(2)),
    ]
    assert decide(GAIN, NARROW, unequal).word == "distributed"
    # Where the four hold less by layer than the eight, the eight are the place: .1 · 2 < .78.
    unequal[1] = Effect("layers 8-11", *[within(0.1, 0.02)] * 3, size=4)
    assert decide(GAIN, NARROW, unequal).parts == ("layers 0-7",)


def test_few_are_counted_in_layers() -> None:
    # Two blocks of eight of 32 layers, each enough alone, are half of the model; two single layers are few.
    def model(size: int) -> list[Effect]:
        spare = [Effect(n, within(0.9), within(0.0), within(0.45), size) for n in "ab"]
        return [*spare, *(Effect(f"idle {i}", *[within(0.0)] * 3, (32 - 2 * size) // 2) for i in range(2))]

    assert decide(GAIN, NARROW, model(8)).word == "distributed"
    assert decide(GAIN, NARROW, model(1)).word == "redundant"


@pytest.mark.parametrize(
    "parts",
    [
        [effect("q_proj", 0.5, 0.5), effect("v_proj", 0.5, 0.5)],
        [effect("q_proj", 1.0, 1.0)],
        # Norms are no LoRA target: of those that are, both would be named.
        [
            effect("q_proj", 0.5, 0.5),
            effect("v_proj", 0.5, 0.5),
            Effect("norms", within(0.0), within(0.0), within(0.0), is_target=False),
        ],
        [effect("a", 0.4, 0.4), effect("b", 0.3, 0.3), effect("c", 0.3, 0.3)],
    ],
)
def test_naming_all_that_could_be_named_is_no_place(parts: list[Effect]) -> None:
    everything = effect("everything", 1.0, 1.0)
    assert to_measure(parts) == ()
    assert decide(GAIN, NARROW, parts, everything).word == "distributed"


def test_one_of_two_parts_is_a_place() -> None:
    assert decide(GAIN, NARROW, [effect("q_proj", 0.0, 0.0), effect("v_proj", 1.0, 1.0)]).parts == ("v_proj",)
    beyond = Effect("embeddings", within(1.0), within(1.0), within(1.0), is_target=False)
    assert decide(GAIN, NARROW, [beyond, effect("q_proj", 0.0, 0.0)]).parts == ("embeddings",)


def test_the_first_partition_wins_ties() -> None:
    alike = Verdict("distributed", (), "")
    assert overall({"layers": alike, "modules": alike}) == "layers"


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
    assert sorted(to_measure(shuffled)) == sorted(to_measure(effects))
    assert again.word == verdict.word
    assert set(verdict.parts) <= {e.name for e in effects}
    assert bool(verdict.parts) == (verdict.word in ("localised", "redundant", "joint", "harmful"))


def test_names_are_listed_as_in_a_sentence() -> None:
    assert listed(["a"]) == "a"
    assert listed([]) == "no part"
