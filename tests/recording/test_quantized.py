"""A model whose frozen part is quantized: layers count it decoded, or say that they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig


class Int8Linear(nn.Module):
    """A frozen linear layer whose weight is a buffer of 8-bit codes."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.detach().abs().max() / 127
        self.register_buffer("weight", (linear.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def _values(self) -> Tensor:
        return self.weight.float() * self.scale

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self._values())


class Decoding(Int8Linear):
    def dequantize(self) -> Tensor:
        return self._values()


@pytest.mark.parametrize("layer_class", [Int8Linear, Decoding])
def test_the_displacement_of_a_layer_with_quantized_parts(
    layer_class, tmp_path: Path, make_trainer, make_model, watcher
):
    model = make_model()
    for layer in model.model.layers:
        layer.mlp.down_proj = layer_class(layer.mlp.down_proj)
    recorder = Recorder(tmp_path / "run", RecordConfig(preset="full"))
    make_trainer(model=model, callbacks=[watcher, recorder], max_steps=2).train()
    run = open_run(tmp_path / "run")
    assert [event for event in run.events if "fault" in event["what"]] == []
    assert not [name for name in run.tensors["tensor"].values if "down_proj" in name]
    last = run.layers["layer_delta"].isel(row=-1)
    if layer_class is Int8Linear:
        assert np.isnan(last.values).all()
        (event, _) = [event for event in run.events if "norms of 1 frozen weights" in event["what"]]
        assert event["why"] == "stored as int8 codes, which Int8Linear does not decode"
        return
    for i, layer in enumerate(model.model.layers):
        names = [name for name in watcher.start if name.startswith(f"model.layers.{i}.")]
        size = sum(float(watcher.start[name].double().square().sum()) for name in names)
        size += float(layer.mlp.down_proj.dequantize().double().square().sum())
        moved = sum(float((watcher.after[-1][n].double() - watcher.start[n].double()).square().sum()) for n in names)
        assert float(last.sel(layer=i)) == pytest.approx((moved / size) ** 0.5, rel=1e-5)
