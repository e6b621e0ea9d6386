"""Real models of twelve layers with a change planted by hand, through the whole pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from grpodyn.attribution.request import Request, carry_out
from grpodyn.attribution.result import Attribution
from grpodyn.attribution.run import Watcher

STRONG = 14.0


def found(base: Path, final: Path, heldout: Path, out: Path, **options: Any) -> Attribution:
    out.mkdir(exist_ok=True)
    request = Request(base=base, final=final, prompts_file=heldout, prompts=100, **{"ranks": (), **options})
    return carry_out(request, out, Watcher())


def test_one_layer_carries_it(planting: Any, heldout: Path, tmp_path: Path) -> None:
    change = planting.plant(4, [({}, STRONG * planting.towards_answer)])
    final = planting.save(tmp_path / "final", {**small_changes(planting, (4,), seed=4), **change})
    result = found(planting.folder, final, heldout, tmp_path / "out", ranks=(1, 2))
    assert result.final.value > result.base.value + 0.5
    assert (result.verdict, result.reading.parts) == ("localised", ("layer 4",))
    # Down and gate projections were changed: to name one of the two types says something.
    assert result.verdicts["modules"].parts == ("down_proj",)
    layer = next(part for part in result.layers if part.part == "layer 4")
    assert layer.kept.value == pytest.approx(1.0, abs=0.1)
    assert len(result.layers) == 12
    assert result.truncation[-1].kept.value > 0.9
    # In random directions, the same change does nothing of the kind.
    assert result.null[0]["kept"].value < 0.3
    assert result.confirm[0].share.low > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("places", [(2, 9), (3, 4), (0, 7)])
def test_two_layers_each_sufficient(planting: Any, heldout: Path, tmp_path: Path, places: tuple[int, int]) -> None:
    towards = STRONG * planting.towards_answer
    first = planting.plant(places[0], [({}, towards)])
    second = planting.plant(places[1], [({}, towards), (first, towards)])
    noise = small_changes(planting, places, seed=sum(places))
    final = planting.save(tmp_path / "final", {**noise, **first, **second})
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert result.verdicts["layers"].word == "redundant"
    assert set(result.verdicts["layers"].parts) == {f"layer {place}" for place in places}


@pytest.mark.slow
@pytest.mark.parametrize("places", [(2, 9), (1, 5)])
def test_two_layers_only_together(planting: Any, heldout: Path, tmp_path: Path, places: tuple[int, int]) -> None:
    marker = torch.stack([planting.marker] * 2) * 8.0
    nothing = torch.zeros_like(marker)
    writes = planting.plant(places[0], [({}, marker)])
    reads = planting.plant(places[1], [({}, nothing), (writes, STRONG * planting.towards_answer)])
    final = planting.save(tmp_path / "final", {**small_changes(planting, places, seed=1), **writes, **reads})
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert result.verdicts["layers"].word == "joint"
    assert set(result.verdicts["layers"].parts) == {f"layer {place}" for place in places}


@pytest.mark.slow
def test_a_suppressor(planting: Any, heldout: Path, tmp_path: Path) -> None:
    carries = planting.plant(3, [({}, STRONG * planting.towards_answer)])
    against = planting.plant(8, [(carries, -0.75 * STRONG * planting.towards_answer)])
    final = planting.save(tmp_path / "final", {**carries, **against})
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert result.verdicts["layers"].word == "harmful"
    assert result.verdicts["layers"].parts == ("layer 8",)


@pytest.mark.slow
def test_outside_of_loras_reach(planting: Any, heldout: Path, tmp_path: Path) -> None:
    embedding = planting.base["model.embed_tokens.weight"].clone()
    ids = planting.tokenizer.convert_tokens_to_ids(["=", "7"])
    embedding[ids] += STRONG * planting.towards_answer
    noise = small_changes(planting, (), seed=2)
    final = planting.save(tmp_path / "final", {**noise, "model.embed_tokens.weight": embedding})
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert (result.verdict, result.reading.parts) == ("localised", ("embeddings",))
    assert [part.part for part in result.layers if not part.is_target] == ["embeddings"]


def test_of_one_changed_tensor_there_is_no_place(planting: Any, heldout: Path, tmp_path: Path) -> None:
    final = planting.save(tmp_path / "final", planting.plant(4, [({}, STRONG * planting.towards_answer)]))
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert (result.verdict, result.reading.parts) == ("distributed", ())
    assert "all that has changed is layer 4" in result.reading.text


def test_no_gain_at_all(planting: Any, heldout: Path, tmp_path: Path) -> None:
    final = planting.save(tmp_path / "final", small_changes(planting, (), seed=3))
    result = found(planting.folder, final, heldout, tmp_path / "out")
    assert result.verdict == "flat"
    assert result.evaluations == 2
    assert result.parts == ()


def small_changes(planting: Any, planted: tuple[int, ...], seed: int) -> dict[str, torch.Tensor]:
    """Changes of all other layers that do nothing for the answer."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for layer in range(12):
        name = f"model.layers.{layer}.mlp.{'gate_proj' if layer in planted else 'down_proj'}.weight"
        weight = planting.base[name]
        found[name] = weight + 0.01 * weight.std() * torch.randn(weight.shape, generator=generator)
    return found
