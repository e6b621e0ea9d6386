"""`layer_delta`: the displacement of a whole layer over its initial norm."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn import registry
from grpodyn.probe import Need


def tensor(delta: torch.Tensor, base: torch.Tensor) -> dict[Need, torch.Tensor]:
    return {Need.DELTA: delta, Need.BASE_WEIGHT: base}


def test_golden(measure):
    # Two tensors: √(3² + 4²) / √(6² + 8²) = 5/10. The mean of their own ratios would be (3/6 + 4/8)/2 = 0.5 as well,
    # so the second case is uneven: √(3² + 4²) / √(10² + 0²) = 0.5, where the mean has no value at all.
    layer = [tensor(torch.tensor([3.0]), torch.tensor([6.0])), tensor(torch.tensor([4.0]), torch.tensor([8.0]))]
    assert measure("layer_delta", *layer) == 0.5
    layer = [tensor(torch.tensor([3.0]), torch.tensor([10.0])), tensor(torch.tensor([4.0]), torch.tensor([0.0]))]
    assert measure("layer_delta", *layer) == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_oracle(measure, random, dtype):
    shapes = [(40, 70), (70, 40), (1, 9), (70,)]
    layer = [
        tensor((1e-3 * random(*shape, seed=i)).to(dtype), random(*shape, seed=i + 9).to(dtype))
        for i, shape in enumerate(shapes)
    ]
    flat = {need: np.concatenate([part[need].double().numpy().ravel() for part in layer]) for need in layer[0]}
    expected = np.linalg.norm(flat[Need.DELTA]) / np.linalg.norm(flat[Need.BASE_WEIGHT])
    assert measure("layer_delta", *layer) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 2**32 - 1), tensors=st.integers(1, 6), exponent=st.integers(-20, 20))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_scale_order_rotation_and_bounds(measure, random, seed, tensors, exponent):
    layer = [tensor(random(5, 7, seed=seed + i).double(), random(5, 7, seed=seed - i).double()) for i in range(tensors)]
    plain = measure("layer_delta", *layer)
    scale = 2.0**exponent
    moved = [tensor(part[Need.DELTA] * scale, part[Need.BASE_WEIGHT]) for part in layer]
    rotation = torch.linalg.qr(random(5, 5, seed=seed).double()).Q
    turned = [{need: rotation @ value for need, value in part.items()} for part in layer]
    assert measure("layer_delta", *moved) == pytest.approx(plain * scale, rel=1e-6)
    assert measure("layer_delta", *reversed(layer)) == pytest.approx(plain, rel=1e-6)
    assert measure("layer_delta", *turned) == pytest.approx(plain, rel=1e-6)
    own = [measure("layer_delta", part) for part in layer]
    assert min(own) * (1 - 1e-6) <= plain <= max(own) * (1 + 1e-6)


def test_degenerate(measure):
    zero, one = torch.zeros(3, 4), torch.ones(3, 4)
    assert measure("layer_delta", tensor(zero, one), tensor(zero, zero)) == 0.0
    assert np.isnan(measure("layer_delta", tensor(zero, zero)))
    assert np.isnan(measure("layer_delta", tensor(zero, one), tensor(one * np.nan, one)))
    assert np.isnan(measure("layer_delta", tensor(one * np.inf, one)))


def test_declares():
    probe = registry.probe("layer_delta")
    assert (probe.group, probe.dims) == ("layers", ("row", "layer"))
    assert probe.needs == {Need.DELTA, Need.BASE_WEIGHT}
