"""The plan: parts tile the change, evaluations are counted and capped, stages give way in order, blocks are halved."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grpodyn.attribution import blocks, parts
from grpodyn.attribution.asking import Asker, Outcomes, OutOfEvaluations
from grpodyn.attribution.investigate import Options, investigate, planned_evaluations
from grpodyn.attribution.state import State
from grpodyn.trace.schema import TensorInfo

ROOT = Path(__file__).parents[2]


def load(path: str) -> ModuleType:
    name = Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


bench = load("benchmarks/attribution_verdicts.py")
planted = bench.planted()


def model(name: str, seed: int = 0, **options: Any) -> Any:
    return planted.PlantedModel(next(s for s in planted.SCENARIOS if s.name == name), seed, **options)


def tensor(name: str, layer: int, module: str, kind: str = "linear") -> TensorInfo:
    return TensorInfo(name, layer, module, "model.layers", kind, 4, 4, "float32", True, "full")


INFOS = [bench.info(name) for name in planted.tensor_names(12)]


def test_every_partition_tiles_the_change() -> None:
    names = {info.name for info in INFOS}
    beyond = parts.beyond_adapters(INFOS)
    assert [part.name for part in beyond] == ["embeddings", "head", "norms"]
    assert not any(part.is_target for part in beyond)
    parts.check_tiling([*parts.module_types(INFOS), *beyond], names)
    layers = [parts.block(INFOS, [place]) for place in parts.layer_places(INFOS)]
    parts.check_tiling([*layers, *beyond], names)
    with pytest.raises(ValueError, match="do not tile"):
        parts.check_tiling(layers, names)
    with pytest.raises(ValueError, match="is in 2 of them"):
        parts.check_tiling([*layers, layers[0], *beyond], names)


def test_what_is_no_linear_module_is_the_rest() -> None:
    infos = [tensor("a", 0, "q_proj"), tensor("b", 0, "q_proj", "bias"), tensor("e", 0, "experts", "expert")]
    (rest,) = parts.beyond_adapters(infos)
    assert (rest.name, rest.tensors) == ("rest", frozenset({"b", "e"}))


def test_nothing_is_evaluated_twice_and_the_base_has_one_state() -> None:
    asked: list[State] = []

    def evaluate(state: State, split: str) -> Outcomes:
        asked.append(state)
        return Outcomes(np.zeros(3))

    asker = Asker(evaluate, most=2)
    asker.ask(State())
    asker.ask(State(rank=4))
    asker.ask(State(frozenset({"a"})))
    assert len(asked) == asker.used == 2
    with pytest.raises(OutOfEvaluations):
        asker.ask(State(frozenset({"b"})))
    assert asker.ask(State(frozenset({"a"}))).mean == 0.0


@pytest.mark.parametrize("number", range(7))
def test_every_planted_model_is_read_right(number: int) -> None:
    """A few seeds; benchmarks/attribution_verdicts.py counts over hundreds."""
    for seed in (20_000, 20_001):
        one = planted.PlantedModel(planted.SCENARIOS[number], seed)
        found = bench.attribute(one, 500)
        assert bench.right(one, found), (planted.SCENARIOS[number].name, found.verdict)


def test_of_a_deep_model_only_tens_of_evaluations() -> None:
    one = model("one part carries it", 3, layers=32)
    found = bench.attribute(one, 300)
    assert bench.right(one, found)
    assert found.evaluations <= 80
    (layers,) = [p for p in found.partitions if p.name == "layers"]
    # Fine where the gain is, coarse elsewhere.
    sizes = {len(s.part.layers) for s in layers.shares if s.part.is_target}
    assert {1, 8} <= sizes


@pytest.mark.parametrize("layers", [6, 13, *(pytest.param(n, marks=pytest.mark.slow) for n in (12, 28, 64))])
@pytest.mark.parametrize("name", ["every layer a little", "two parts, each sufficient", "a suppressor"])
def test_never_more_evaluations_than_planned(layers: int, name: str) -> None:
    one = model(name, 5, layers=layers)
    infos = [bench.info(n) for n in one.every]
    options = Options(ranks=(1, 2), null_draws=1)
    found = bench.attribute(one, 60, options)
    assert found.evaluations <= planned_evaluations(infos, options)


@pytest.mark.parametrize("most", [2, 3, 10, 20, 35, 45])
def test_under_a_cap_stages_are_left_out_and_named(most: int) -> None:
    found = bench.attribute(model("one part carries it", 1), 200, Options(ranks=(1, 2, 4), null_draws=1), most)
    assert found.evaluations <= most
    assert any("allowance" in note for note in found.notes)
    for partition in found.partitions:
        parts.check_tiling([s.part for s in partition.shares], {info.name for info in INFOS})


def test_the_base_and_the_trained_weights_are_the_least() -> None:
    with pytest.raises(OutOfEvaluations):
        bench.attribute(model("one part carries it"), 50, most=1)


def test_what_fresh_prompts_do_not_show_is_too_noisy() -> None:
    one = model("one part carries it", 1)

    class Unstable:
        every = one.every

        def outcomes(self, changed: Any, prompts: int, split: str) -> Any:
            if split == "choose":
                return one.outcomes(changed, prompts, split)
            # On fresh prompts every part does the same.
            return np.random.default_rng(0).random(prompts) * 0.1 + 0.5 * len(changed) / len(self.every)

    found = bench.attribute(Unstable(), 300)
    assert found.verdict.word == "too noisy"
    assert any("on those of `confirm` not" in note for note in found.notes)


def test_blocks_of_two_stacks_are_never_mixed() -> None:
    infos = [
        TensorInfo(f"{stack}.{i}.q", i, "q", stack, "linear", 4, 4, "float32", True, "full")
        for stack in ("encoder", "decoder")
        for i in range(10)
    ]
    nothing = Outcomes(np.zeros(5))
    found = blocks.Search(
        infos, parts.layer_places(infos), nothing, nothing, lambda part: blocks.Pair(nothing, nothing), lambda n: True
    ).run()
    assert all(len({name.split(".")[0] for name in part.tensors}) == 1 for part in found)
    parts.check_tiling(list(found), [info.name for info in infos])


def test_a_model_of_one_layer_type_has_no_others() -> None:
    info = tensor("a", 0, "q_proj")

    def evaluate(state: State, split: str) -> Outcomes:
        return Outcomes(np.linspace(0.0, 0.2, 50) + 0.5 * len(state.changed))

    found = investigate(Asker(evaluate), [info], Options(ranks=(), null_draws=0))
    assert found.verdict.word == "localised"
    assert found.shapley is None
