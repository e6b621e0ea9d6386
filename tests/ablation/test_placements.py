import random
from collections import Counter

import pytest

from grpodyn.ablation import placements
from grpodyn.ablation.budget import even_ranks, parameters
from grpodyn.errors import UsageError
from grpodyn.lora.modules import LinearModule, layer_of

BUDGET = 58_368  # a quarter of rank 16 everywhere


def layers_of(ranks):
    return sorted({layer_of(name) for name in ranks})


@pytest.mark.parametrize("place", [placements.attention_only, placements.mlp_only, placements.last_block])
def test_every_placement_costs_the_budget(linear, place):
    assert parameters(linear, place(linear, BUDGET)) == pytest.approx(BUDGET, rel=0.05)


def test_attention_and_mlp_tile_the_model(linear):
    attention, mlp = placements.attention_only(linear, BUDGET), placements.mlp_only(linear, BUDGET)
    assert not set(attention) & set(mlp)
    assert set(attention) | set(mlp) == {module.name for module in linear}
    assert all(".self_attn." in name for name in attention)


def test_a_model_without_attention_has_no_such_arm():
    modules = [LinearModule(f"h.{i}.mlp.up", 8, 8) for i in range(2)]
    with pytest.raises(UsageError, match="0 of 2 linear modules are attention modules"):
        placements.attention_only(modules, 32)


def test_top_layers_take_the_highest_scores(linear):
    scores = {f"model.layers.{i}": s for i, s in enumerate([1.0, 5.0, 2.0, 4.0, 0.5, 3.0])}
    assert layers_of(placements.top_layers(linear, BUDGET, scores, 2)) == ["model.layers.1", "model.layers.3"]
    with pytest.raises(UsageError, match="1 layers have a score where 2"):
        placements.top_layers(linear, BUDGET, {"model.layers.0": 1.0}, 2)


def test_lowest_types(linear):
    scores = {"q_proj": 2.5, "k_proj": 2.6, "v_proj": 0.96, "o_proj": 0.9, "gate_proj": 1.4, "up_proj": 1.1}
    scores["down_proj"] = 1.04  # Llama-3.2-1B on math: the pick of PLoP is o, v, down
    ranks = placements.lowest_types(linear, BUDGET, scores)
    assert {name.rsplit(".", 1)[-1] for name in ranks} == {"o_proj", "v_proj", "down_proj"}


def test_a_random_adapter_on_some_layers_has_the_same_shape_elsewhere(linear):
    advised = even_ranks(placements.in_layers(linear, ["model.layers.5"]), 38_912)
    draws = [placements.random_like(linear, advised, seed) for seed in range(300)]
    for ranks in draws:
        assert len(layers_of(ranks)) == 1
        assert parameters(linear, ranks) == 38_912
        assert Counter(ranks.values()) == Counter(advised.values())
    # Every layer is drawn, about equally often, the advised one too.
    counts = Counter(layers_of(ranks)[0] for ranks in draws)
    assert len(counts) == 6
    assert min(counts.values()) > 25


def test_the_same_seed_draws_the_same(linear):
    advised = even_ranks(placements.in_layers(linear, ["model.layers.0", "model.layers.1"]), 70_000)
    assert placements.random_like(linear, advised, 7) == placements.random_like(linear, advised, 7)
    assert len({tuple(sorted(placements.random_like(linear, advised, s))) for s in range(20)}) > 5


def test_a_random_adapter_on_types_goes_to_modules_of_the_same_cost(linear):
    advised = even_ranks([module for module in linear if module.leaf in ("up_proj", "down_proj")], BUDGET)
    ranks = placements.random_like(linear, advised, 3)
    assert set(ranks) != set(advised)
    assert parameters(linear, ranks) == parameters(linear, advised)
    assert len(ranks) == len(advised)


def test_layers_that_differ_cannot_be_swapped():
    modules = [LinearModule("h.0.up", 8, 8), LinearModule("h.1.other", 8, 8)]
    # Which of the two layers is drawn depends on the seed: one of them moves the adapter, the other leaves it.
    moving = next(seed for seed in range(10) if random.Random(seed).sample(["h.0", "h.1"], 1) == ["h.1"])
    with pytest.raises(UsageError, match="has no module like"):
        placements.random_like(modules, {"h.0.up": 2}, moving)
