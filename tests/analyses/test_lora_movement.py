from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.errors import MissingDataError

LAYERS, TYPES = 3, {"q_proj": (4, 6), "up_proj": (8, 6)}


def movement(run: Any) -> Any:
    return registry.analysis("lora_movement").run(run)


class Walk:
    """Weights that really move: the slow oracle computes every number from the arrays themselves."""

    def __init__(self, steps: int = 24, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.names = [f"model.layers.{i}.{t}.weight" for i in range(LAYERS) for t in TYPES]
        self.layer = np.repeat(np.arange(LAYERS), len(TYPES))
        self.shapes = [shape for _ in range(LAYERS) for shape in TYPES.values()]
        self.start = [rng.normal(size=shape) for shape in self.shapes]
        drift = [
            rng.normal(size=shape) * 0.01 * (1 + layer) for shape, layer in zip(self.shapes, self.layer, strict=True)
        ]
        self.steps = [[d + rng.normal(size=d.shape) * 0.02 for d in drift] for _ in range(steps)]
        self.gradients = [
            [rng.normal(size=d.shape) * (3 - layer) for d, layer in zip(drift, self.layer, strict=True)]
            for _ in range(steps)
        ]

    def weight(self, step: int, i: int) -> np.ndarray:
        return self.start[i] + sum(self.steps[t][i] for t in range(step))

    def rows(self, every: int = 1, delta_every: int = 4) -> dict[int, dict[str, list[float]]]:
        found = {}
        for step in range(1, len(self.steps) + 1):
            if step % every:
                continue
            indices = range(len(self.names))
            moves = [self.steps[step - 1][i] for i in indices]
            due = step % delta_every == 0 or step in (1, len(self.steps))
            found[step] = {
                "update_norm": [np.linalg.norm(m) for m in moves],
                "update_ratio": [np.linalg.norm(moves[i]) / np.linalg.norm(self.weight(step - 1, i)) for i in indices],
                "grad_norm": [np.linalg.norm(self.gradients[step - 1][i]) for i in indices],
                "delta_norm": [
                    np.linalg.norm(self.weight(step, i) - self.start[i]) if due else math.nan for i in indices
                ],
            }
        return found

    def tensors(self, tensor_info: Any, **changes: Any) -> list[Any]:
        return [
            tensor_info(name, int(layer), *shape, **changes)
            for name, layer, shape in zip(self.names, self.layer, self.shapes, strict=True)
        ]


@pytest.mark.parametrize("by", ["layer", "module"])
def test_every_number_equals_the_slow_oracle(write_run, tensor_info, by) -> None:
    walk = Walk()
    found = movement(write_run(tensors=walk.tensors(tensor_info), rows=walk.rows()))
    groups = found.layers if by == "layer" else found.modules
    labels = [str(layer) for layer in walk.layer] if by == "layer" else [name.split(".")[-2] for name in walk.names]
    assert [g.group for g in groups] == list(dict.fromkeys(labels))
    last = len(walk.steps)
    slow: dict[str, dict[str, float]] = {}
    for group in dict.fromkeys(labels):
        members = [i for i, label in enumerate(labels) if label == group]
        # A group is one long vector.
        moves = [np.concatenate([walk.steps[t][i].ravel() for i in members]) for t in range(last)]
        start = np.concatenate([walk.start[i].ravel() for i in members])
        gradients = [np.concatenate([walk.gradients[t][i].ravel() for i in members]) for t in range(last)]
        slow[group] = {
            "displacement": np.linalg.norm(sum(moves)),
            "path": sum(np.linalg.norm(move) for move in moves),
            "gradient": sum(float(g @ g) for g in gradients),
            "relative": np.linalg.norm(sum(moves)) / np.linalg.norm(start),
        }
    for group in groups:
        mine = slow[group.group]
        total = {key: sum(values[key] for values in slow.values()) for key in mine}
        assert group.displacement == pytest.approx(mine["displacement"], rel=1e-5)
        assert group.path == pytest.approx(mine["path"], rel=1e-5)
        assert group.coherence == pytest.approx(mine["displacement"] / mine["path"], rel=1e-5)
        assert group.relative_displacement == pytest.approx(mine["relative"], rel=1e-5)
        assert group.path_share == pytest.approx(mine["path"] / total["path"], rel=1e-5)
        assert group.gradient_share == pytest.approx(mine["gradient"] / total["gradient"], rel=1e-5)
        energies = {name: values["displacement"] ** 2 for name, values in slow.items()}
        assert group.displacement_share == pytest.approx(energies[group.group] / sum(energies.values()), rel=1e-5)
    assert found.outside_share == pytest.approx(0, abs=1e-12)


def test_spread_compares_root_mean_squares_per_element(write_run, tensor_info) -> None:
    walk = Walk()
    found = movement(write_run(tensors=walk.tensors(tensor_info), rows=walk.rows()))
    spread = found.spread("module", "displacement")
    # Types differ in size by two, so equal per-element movement must not read as a spread.
    values = {g.group: g.displacement / math.sqrt(g.elements) for g in found.modules}
    assert spread.max_over_min.value == pytest.approx(max(values.values()) / min(values.values()), rel=1e-6)
    assert spread.groups == 2


def test_ranges_are_over_windows_of_the_run(write_run, tensor_info) -> None:
    walk = Walk()
    run = write_run(tensors=walk.tensors(tensor_info), rows=walk.rows())
    found = movement(run)
    assert found.windows == 4
    # 24 steps in four windows of six; displacement is recorded every four steps and read at each window's last row.
    size = sum(rows * cols for rows, cols in TYPES.values())

    def ratio(step: int) -> float:
        norms = [
            math.sqrt(
                sum(np.sum((walk.weight(step, i) - walk.start[i]) ** 2) for i in np.flatnonzero(walk.layer == layer))
            )
            for layer in range(LAYERS)
        ]
        return max(norms) / min(norms) / math.sqrt(size / size)

    ratios = [ratio(step) for step in (4, 12, 16, 24)]
    spread = found.spread("layer", "displacement").max_over_min
    assert (spread.low, spread.high) == (pytest.approx(min(ratios), rel=1e-5), pytest.approx(max(ratios), rel=1e-5))
    assert spread.value == pytest.approx(ratios[-1], rel=1e-5)


def test_sparser_records_stand_for_the_steps_between_them(write_run, tensor_info) -> None:
    names = [f"model.layers.{i}.up_proj.weight" for i in range(2)]
    tensors = [tensor_info(name, i, 8, 6) for i, name in enumerate(names)]

    def rows(steps: list[int]) -> dict[int, dict[str, list[float]]]:
        return {s: {"update_norm": [1.0, 2.0], "grad_norm": [3.0, 1.0], "delta_norm": [s / 10, s / 5]} for s in steps}

    every = movement(write_run("every", tensors=tensors, rows=rows(list(range(1, 41)))))
    fifth = movement(write_run("fifth", tensors=tensors, rows=rows([1, *range(5, 41, 5)])))
    assert fifth.stride == 5
    assert [g.path for g in every.layers] == pytest.approx([40, 80])
    assert [g.path for g in fifth.layers] == pytest.approx([g.path for g in every.layers])
    assert [g.gradient_share for g in fifth.layers] == pytest.approx([0.9, 0.1])
    assert [g.coherence for g in every.layers] == pytest.approx([0.1, 0.1])


def test_a_lora_run_is_read_from_its_effective_rows(write_run, tensor_info) -> None:
    tensors, update, grad, delta, rank = [], [], [], [], []
    for layer in range(2):
        name = f"model.layers.{layer}.self_attn.q_proj"
        tensors.append(tensor_info(f"{name}.weight", layer, 64, 64, source="lora"))
        tensors.append(tensor_info(f"{name}.lora_A", layer, 8, 64, source="factor", kind="lora_factor"))
        tensors.append(tensor_info(f"{name}.lora_B", layer, 64, 8, source="factor", kind="lora_factor"))
        update += [1.0 + layer, 9.0, 9.0]
        grad += [math.nan, 3.0 * (1 + layer), 4.0 * (1 + layer)]
        delta += [10.0 * (1 + layer), 9.0, 9.0]
        rank += [7.2, math.nan, math.nan]
    row = {"update_norm": update, "grad_norm": grad, "delta_norm": delta}
    run = write_run(
        tensors=tensors,
        rows=dict.fromkeys(range(1, 11), row),
        spectra={10: {"effective_rank": rank, "energy_rank_90": rank, "measured_step": [10] * 6}},
    )
    found = movement(run)
    assert found.lora
    assert found.tensors == 2
    assert [g.path for g in found.layers] == pytest.approx([10, 20])
    # √(3² + 4²) from both factors: 25 and 100 of 125.
    assert [g.gradient_share for g in found.layers] == pytest.approx([0.2, 0.8])
    assert found.ranks.share_of_cap == pytest.approx(0.9, rel=1e-6)
    assert found.ranks.matrices == 2


def test_what_lies_outside_is_a_share_of_all(write_run, tensor_info) -> None:
    tensors = [
        tensor_info("model.layers.0.up_proj.weight", 0, 8, 6),
        tensor_info("model.layers.0.input_layernorm.weight", 0, 6, 1, kind="norm"),
        tensor_info("model.embed_tokens.weight", -1, 30, 6, kind="embedding"),
    ]
    row = {"update_norm": [1, 1, 1], "delta_norm": [3, 0, 4]}
    found = movement(write_run(tensors=tensors, rows=dict.fromkeys(range(1, 9), row)))
    assert found.outside_share == pytest.approx(16 / 25)
    assert found.tensors == 1


def test_two_stacks_keep_their_layers_apart(write_run, tensor_info) -> None:
    tensors = [
        tensor_info(f"{stack}.{i}.up_proj.weight", i, 8, 6, stack=stack)
        for stack in ("text.layers", "vision.layers")
        for i in (0, 1)
    ]
    row = {"update_norm": [1, 2, 3, 4], "delta_norm": [1, 2, 3, 4]}
    found = movement(write_run(tensors=tensors, rows=dict.fromkeys(range(1, 9), row)))
    assert [g.group for g in found.layers] == ["text.layers.0", "text.layers.1", "vision.layers.0", "vision.layers.1"]


def test_tensors_gone_bad_are_left_out_and_named(write_run, tensor_info) -> None:
    tensors = [tensor_info(f"model.layers.{i}.up_proj.weight", i, 8, 6) for i in range(3)]
    rows = {step: {"update_norm": [1, 1, 1.0], "delta_norm": [1, 2, 3.0]} for step in range(1, 9)}
    rows[8] = {"update_norm": [1, math.nan, 1], "delta_norm": [1, math.nan, 3]}
    found = movement(write_run(tensors=tensors, rows=rows))
    assert found.tensors == 2
    assert any("model.layers.1.up_proj.weight" in note for note in found.notes)
    assert [g.group for g in found.layers] == ["0", "2"]


def test_a_layer_that_did_not_move_is_a_measured_zero(write_run, tensor_info) -> None:
    tensors = [tensor_info(f"model.layers.{i}.up_proj.weight", i, 8, 6) for i in range(2)]
    rows = {step: {"update_norm": [0, 1], "delta_norm": [0, 1]} for step in range(1, 9)}
    found = movement(write_run(tensors=tensors, rows=rows))
    assert found.spread("layer", "displacement").max_over_min.value == math.inf
    assert found.layers[0].displacement_share == 0


def test_nothing_finite_is_missing_data(write_run, tensor_info) -> None:
    tensors = [tensor_info("model.layers.0.up_proj.weight", 0, 8, 6)]
    rows = {step: {"update_norm": [math.nan], "delta_norm": [math.nan]} for step in range(1, 9)}
    with pytest.raises(MissingDataError, match="no finite value of update_norm"):
        movement(write_run(tensors=tensors, rows=rows))


def test_few_rows_have_no_range_and_say_so(write_run, tensor_info) -> None:
    tensors = [tensor_info(f"model.layers.{i}.up_proj.weight", i, 8, 6) for i in range(2)]
    rows = {
        step: {"update_norm": [1, 1], "delta_norm": [1, 2] if step == 8 else [math.nan] * 2} for step in range(1, 9)
    }
    found = movement(write_run(tensors=tensors, rows=rows))
    assert found.windows == 0
    assert any("no range" in note for note in found.notes)
    spread = found.spread("layer", "displacement").max_over_min
    assert spread.value == pytest.approx(2)
    assert math.isnan(spread.low)
