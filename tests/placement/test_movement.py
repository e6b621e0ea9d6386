import math

import numpy as np
import pytest

from grpodyn.placement import movement
from grpodyn.placement.gathering import SHARES, Source, moved
from grpodyn.trace.schema import TensorInfo
from tests.simulation.recorded import record

NAMES = [
    ("model.layers.0.self_attn.q_proj.weight", 0, "q_proj"),
    ("model.layers.0.mlp.up_proj.weight", 0, "up_proj"),
    ("model.layers.1.self_attn.q_proj.weight", 1, "q_proj"),
    ("model.layers.1.mlp.up_proj.weight", 1, "up_proj"),
]
STEPS = 20


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(7)
    return {probe: rng.uniform(0.5, 2.0, (STEPS, 4)) for probe in ("update_norm", "grad_norm", "delta_norm")}


@pytest.fixture(scope="module")
def run(drawn, tmp_path_factory):
    tensors = [
        TensorInfo(name, layer, module, "model.layers", "linear", 8, 8, "float32", True, "full")
        for name, layer, module in NAMES
    ]
    rows = {t + 1: {probe: values[t] for probe, values in drawn.items()} for t in range(STEPS)}
    return record(tmp_path_factory.mktemp("run") / "run", tensors=tensors, tensor_rows=rows)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 1.0])
def test_each_score_by_loops_over_steps_and_tensors(run, drawn, share):
    found = movement.scores(run, share)
    until = math.ceil(share * STEPS)
    for part, index in {"layer 0": [0, 1], "layer 1": [2, 3], "q_proj": [0, 2], "up_proj": [1, 3]}.items():
        path = sum(math.sqrt(sum(drawn["update_norm"][t, i] ** 2 for i in index)) for t in range(until))
        energy = sum(drawn["grad_norm"][t, i] ** 2 for t in range(until) for i in index)
        net = math.sqrt(sum(drawn["delta_norm"][until - 1, i] ** 2 for i in index))
        assert found[movement.PATH][part] == pytest.approx(path, rel=1e-6)
        assert found[movement.GRADIENT][part] == pytest.approx(energy, rel=1e-6)
        assert found[movement.DISPLACEMENT][part] == pytest.approx(net, rel=1e-6)
        assert found[movement.COHERENCE][part] == pytest.approx(net / path, rel=1e-6)


def test_what_was_not_recorded_is_absent(run):
    assert movement.RANK not in movement.scores(run)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01, math.nan])
def test_a_share_that_is_none_is_refused(run, share):
    with pytest.raises(ValueError, match="share of the run"):
        movement.scores(run, share)


def test_what_a_checkpoint_tells_is_no_merit_of_a_trace_at_any_share(run):
    found = moved(run, Source("full run", run.path))
    assert {p.share for p in found} == set(SHARES)
    by_need = {p.name: {q.source for q in found if q.name == p.name} for p in found}
    trace = {"trace: full run"}
    assert by_need == {
        "net displacement": {"two checkpoints: full run"},
        "path length": trace,
        "coherence": trace,
        "gradient energy": trace,
    }
