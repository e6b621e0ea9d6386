"""`path_and_displacement`: against walks that really happen, and the triangle inequality."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError

NAMES = [
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.layers.1.mlp.up_proj.weight",
]


def analyse(run):
    return registry.analysis("path_and_displacement").run(run)


@pytest.fixture
def walk(write_run, tensor_info):
    """Write a run of three tensors that take these steps, shape (steps, tensors, elements)."""

    def write(steps: np.ndarray, update_every: int = 1, delta_every: int = 1, infos=None, **changes):
        place = np.cumsum(steps, axis=0)
        infos = infos or [tensor_info(name, int(name.split(".")[2]), 4, 5) for name in NAMES]
        rows = {}
        for t in range(len(steps)):
            step, last = t + 1, t + 1 == len(steps)
            nothing = [math.nan] * steps.shape[1]
            due = {every: step % every == 0 or step == 1 or last for every in (update_every, delta_every)}
            rows[step] = {
                "update_norm": np.linalg.norm(steps[t], axis=-1) if due[update_every] else nothing,
                "delta_norm": np.linalg.norm(place[t], axis=-1) if due[delta_every] else nothing,
            } | changes.get(f"step_{step}", {})
        return write_run(tensors=infos, rows=rows)

    return write


def random_steps(count: int, drift: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(drift, 1.0, size=(count, 3, 20))


def test_golden(walk):
    # Along x by 3, along y by 4: the path is 7, the displacement 5. Back along y by 4: 11 and 3. The second tensor
    # goes straight, the third stays.
    steps = np.zeros((3, 3, 2))
    steps[:, 0] = [[3, 0], [0, 4], [0, -4]]
    steps[:, 1] = [[1, 0], [1, 0], [2, 0]]
    found = analyse(walk(steps))
    assert found.steps == (1, 2, 3)
    turning, straight, still = found.tensors
    assert (turning.path, turning.displacement) == ((3.0, 7.0, 11.0), (3.0, 5.0, 3.0))
    assert turning.coherence == pytest.approx((1.0, 5 / 7, 3 / 11))
    assert straight.coherence == (1.0, 1.0, 1.0)
    assert still.path == (0.0, 0.0, 0.0)
    assert all(math.isnan(value) for value in still.coherence), "no way, no direction"
    # Layer 0 as one vector: steps of √(9 + 1), √(16 + 1), √(16 + 4); displaced by √(9 + 16) at the end.
    layer, other = found.layers
    assert (layer.name, other.name) == ("model.layers.0", "model.layers.1")
    assert layer.path == pytest.approx(np.cumsum([10**0.5, 17**0.5, 20**0.5]))
    assert layer.displacement[-1] == pytest.approx(5.0)
    assert found.stride == 1
    assert found.notes == ()


@pytest.mark.parametrize("delta_every", [1, 4])
def test_oracle(walk, delta_every):
    steps = random_steps(23, 0.3)
    found = analyse(walk(steps, delta_every=delta_every))
    assert found.steps == tuple(s for s in range(1, 24) if s % delta_every == 0 or s in (1, 23))
    for row, step in enumerate(found.steps):
        for i, way in enumerate(found.tensors):
            path = sum(np.linalg.norm(steps[t, i]) for t in range(step))
            displacement = np.linalg.norm(steps[:step, i].sum(0))
            assert way.path[row] == pytest.approx(path, rel=1e-5)
            assert way.displacement[row] == pytest.approx(displacement, rel=1e-5)
            assert way.coherence[row] == pytest.approx(displacement / path, rel=1e-5)
        both = steps[:step, :2].reshape(step, -1)
        assert found.layers[0].path[row] == pytest.approx(np.linalg.norm(both, axis=1).sum(), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_at_random_gets_nowhere_and_no_way_is_shorter_than_the_line(walk, seed):
    found = analyse(walk(random_steps(64, 0.0, seed)))
    for way in (*found.tensors, *found.layers):
        assert max(way.coherence) <= 1.0 + 1e-6
        # 1/√64 for independent steps of equal length.
        assert way.coherence[-1] == pytest.approx(1 / 8, rel=0.35)


def test_updates_recorded_now_and_then_stand_for_the_others(walk):
    steps = np.ones((21, 3, 20))
    found = analyse(walk(steps, update_every=5))
    assert found.stride == 5
    assert found.steps == (1, 5, 10, 15, 20, 21)
    # Equal steps: the estimate is exact at each step that was recorded.
    assert found.tensors[0].path == pytest.approx(np.array(found.steps) * 20**0.5, rel=1e-5)
    assert found.tensors[0].coherence == pytest.approx([1.0] * 6, rel=1e-5)
    assert "up to 5 steps lie between" in found.notes[0]


def test_an_unknown_step_makes_the_way_unknown_from_there_on(walk):
    bad = {"update_norm": [1.0, math.nan, 1.0]}
    found = analyse(walk(random_steps(4, 1.0), step_3=bad))
    assert [math.isnan(value) for value in found.tensors[1].path] == [False, False, True, True]
    assert not any(math.isnan(value) for value in found.tensors[0].path)
    assert [math.isnan(value) for value in found.layers[0].path] == [False, False, True, True]
    assert NAMES[1] in found.notes[0]


def test_the_factors_of_an_adapter_are_no_part_of_the_layer(walk, tensor_info):
    stem = NAMES[0].removesuffix(".weight")
    infos = [
        tensor_info(f"{stem}.lora_A", 0, 2, 5, kind="lora_factor", source="factor"),
        tensor_info(f"{stem}.lora_B", 0, 4, 2, kind="lora_factor", source="factor"),
        tensor_info(NAMES[0], 0, 4, 5, source="lora"),
    ]
    found = analyse(walk(random_steps(5, 1.0), infos=infos))
    assert len(found.tensors) == 3
    (layer,) = found.layers
    assert layer.path == pytest.approx(found.tensors[2].path)


def test_nothing_recorded_is_an_error(walk, write_run, tensor_info):
    with pytest.raises(MissingDataError, match="no step has a finite update_norm and delta_norm"):
        analyse(walk(np.full((3, 3, 2), math.nan)))
    run = write_run("bare", tensors=[tensor_info(NAMES[0], 0, 4, 5)], rows={1: {"update_norm": [1.0]}})
    with pytest.raises(MissingDataError, match="delta_norm"):
        analyse(run)
