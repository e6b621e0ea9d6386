"""Layer by step and layer by module, held to a run whose movement was set by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError
from grpodyn.trace.reader import Run
from tests.simulation.whole_run import write_whole_run


def analyse(run: Run) -> Any:
    return registry.analysis("layer_dynamics").run(run)


def test_a_layer_is_one_vector(tmp_path: Path) -> None:
    found = analyse(write_whole_run(tmp_path / "r", layers=3, steps=8))
    # Layer l: three tensors that move p, p and 2p with p = (l+1)·1e-4, each of norm 10: √6 p over √300.
    expected = np.sqrt(6) * 1e-4 / np.sqrt(300) * np.array([1, 2, 3])
    assert np.allclose(np.array(found.update.values)[:, 0], expected, rtol=1e-5)
    assert found.update.steps == tuple(range(1, 9))
    assert found.displacement.layers == ("0", "1", "2")
    assert np.allclose(np.array(found.displacement.values)[:, -1], 8e-5 * np.array([1, 2, 3]), rtol=1e-5)
    assert not found.notes


def test_shares_are_of_squares_and_add_up(tmp_path: Path) -> None:
    found = analyse(write_whole_run(tmp_path / "r", layers=2, steps=4)).modules
    assert found.modules == ("q_proj", "v_proj", "down_proj")
    # p²(1, 1, 4) in layer 0 and 4p²(1, 1, 4) in layer 1: 30 p² in all.
    assert np.allclose(np.array(found.share), np.array([[1, 1, 4], [4, 4, 16]]) / 30, rtol=1e-5)
    assert np.array(found.displacement)[1, 2] == pytest.approx(4 * 4e-4, rel=1e-5)
    assert found.step == 4


def test_many_steps_become_blocks(tmp_path: Path) -> None:
    found = analyse(write_whole_run(tmp_path / "r", layers=1, steps=500))
    assert len(found.update.steps) == 167
    assert found.update.steps[:2] == (3, 6)
    assert found.displacement.steps[-1] == 500
    # A displacement is that of the end of its block, not a mean.
    assert found.displacement.values[0][0] == pytest.approx(3e-5, rel=1e-5)


def test_of_an_adapter_the_effective_update_counts(
    write_run: Callable[..., Run], tensor_info: Callable[..., Any]
) -> None:
    infos = [
        tensor_info("model.layers.0.self_attn.q_proj.weight", 0, 4, 4, source="lora"),
        tensor_info("model.layers.0.self_attn.q_proj.lora_A", 0, 2, 4, source="factor", kind="lora_factor"),
    ]
    rows = {1: {"update_norm": [1.0, 100.0], "update_ratio": [0.1, 1.0], "delta_norm": [1.0, 100.0]}}
    found = analyse(write_run(tensors=infos, rows=rows))
    assert found.lora
    assert found.update.values[0][0] == pytest.approx(0.1)
    assert found.modules.modules == ("q_proj",)
    assert found.modules.displacement == ((1.0,),)
    assert "layer_delta" in found.notes[0]


def test_several_stacks_are_told_apart(write_run: Callable[..., Run], tensor_info: Callable[..., Any]) -> None:
    infos = [
        tensor_info("vision.layers.0.q_proj.weight", 0, 4, 4, stack="vision.layers"),
        tensor_info("text.layers.0.q_proj.weight", 0, 4, 4, stack="text.layers"),
    ]
    rows = {1: {"update_norm": [1.0, 2.0], "update_ratio": [0.1, 0.1], "delta_norm": [1.0, 2.0]}}
    assert analyse(write_run(tensors=infos, rows=rows)).update.layers == ("text.layers.0", "vision.layers.0")


def test_nothing_at_all_is_refused_with_the_probe_to_record(write_run: Callable[..., Run]) -> None:
    with pytest.raises(MissingDataError, match="layer_delta"):
        analyse(write_run(metrics={1: {"reward": 1.0}}))
