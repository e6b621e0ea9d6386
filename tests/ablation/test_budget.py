import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.ablation.budget import TOLERANCE, even_ranks, evenly_spaced, parameters, proportional_ranks
from grpodyn.errors import UsageError
from grpodyn.lora.modules import LinearModule, layer_of

# Of the embedded model: rank 1 on all seven types of a layer costs 2,432, on all six layers 14,592.
LAYER, ALL = 2_432, 14_592


def test_a_quarter_of_rank_16_is_rank_4(linear):
    assert set(even_ranks(linear, 4 * ALL).values()) == {4}


def test_between_two_ranks_evenly_spaced_layers_get_one_more(linear):
    # An adapter of rank 16 on one of six layers: 16 · 2,432 = 38,912 = 2 · 14,592 + 4 · 2,432.
    ranks = even_ranks(linear, 16 * LAYER)
    by_layer = {layer_of(name): rank for name, rank in ranks.items()}
    assert parameters(linear, ranks) == 16 * LAYER
    # Indices 0, 2, 3 and 5 are four evenly spaced ones of six.
    assert [by_layer[f"model.layers.{i}"] for i in range(6)] == [3, 2, 3, 3, 2, 3]


def test_below_rank_1_layers_are_thinned_evenly(linear):
    ranks = even_ranks(linear, 2 * LAYER)
    assert {layer_of(name) for name in ranks} == {"model.layers.1", "model.layers.4"}
    assert set(ranks.values()) == {1}


# The cheapest rank costs 192 parameters: from 20 times that on, 5 % can always be met.
@given(budget=st.integers(20 * 192, 40 * ALL))
def test_always_within_5_percent_or_refused(budget):
    modules = [
        LinearModule(f"h.{layer}.{name}", inputs, outputs)
        for layer in range(6)
        for name, inputs, outputs in (("q", 128, 128), ("k", 128, 64), ("up", 128, 384), ("down", 384, 128))
    ]
    try:
        ranks = even_ranks(modules, budget)
    except UsageError:
        # Only a budget beyond what the matrices hold is out of reach here.
        assert budget > parameters(modules, {m.name: min(m.in_features, m.out_features) for m in modules})
        return
    assert abs(parameters(modules, ranks) - budget) <= TOLERANCE * budget
    assert max(ranks.values()) - min(ranks.values()) <= 1 or max(ranks.values()) > 64


def test_a_rank_is_never_more_than_the_matrix_has(linear):
    keys = [module for module in linear if module.leaf == "k_proj"]
    assert set(even_ranks(keys, 64 * 6 * 192).values()) == {64}
    with pytest.raises(UsageError, match="more than 5% off"):
        even_ranks(keys, 80 * 6 * 192)


def test_in_proportion_by_hand():
    modules = [LinearModule(name, 10, 10) for name in "abc"]
    # 20 parameters a rank, budget of 6 ranks, weights 3 : 2 : 1.
    assert proportional_ranks(modules, {"a": 3, "b": 2, "c": 1}, 120) == {"a": 3, "b": 2, "c": 1}
    assert proportional_ranks(modules, {"a": 1, "b": 1, "c": 0}, 120) == {"a": 3, "b": 3}
    # A capped module leaves its share to the others.
    assert proportional_ranks(modules, {"a": 100, "b": 1, "c": 1}, 20 * 14)["a"] == 10


def test_a_negative_weight_is_refused():
    with pytest.raises(UsageError, match="the weight of a is -1"):
        proportional_ranks([LinearModule("a", 10, 10)], {"a": -1}, 20)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_evenly_spaced_indices_are_distinct_and_spread(sizes):
    count, of = sizes
    found = evenly_spaced(count, of)
    assert len(set(found)) == count
    assert all(0 <= i < of for i in found)
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_dora_pays_for_its_magnitudes(linear):
    ranks = even_ranks(linear, 4 * ALL, "dora")
    assert abs(parameters(linear, ranks, "dora") - 4 * ALL) <= TOLERANCE * 4 * ALL
