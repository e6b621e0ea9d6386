"""Weights stored as codes are decoded where their layer tells how, and never measured as codes.

bitsandbytes and torchao need an accelerator or a wheel of their own: stand-ins with the attributes of their classes.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType, SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from grpodyn.naming.inventory import take_inventory
from grpodyn.naming.quantized import coded, is_helper
from grpodyn.recording.plan import map_layers

ROWS, COLS = 6, 8


class Params4bit(nn.Parameter):
    """As bitsandbytes': two codes to a byte, and what decodes them."""

    def __new__(cls, data: Tensor, quant_state: object) -> Params4bit:
        parameter = torch.Tensor._make_subclass(cls, data, False)
        parameter.quant_state = quant_state
        return parameter


class Int8Params(nn.Parameter):
    """As bitsandbytes': rows scaled so that their largest value is 127."""

    def __new__(cls, data: Tensor, scales: Tensor | None) -> Int8Params:
        parameter = torch.Tensor._make_subclass(cls, data, False)
        parameter.SCB = scales
        return parameter


class Linear4bit(nn.Linear):
    def __init__(self, storage: torch.dtype) -> None:
        super().__init__(COLS, ROWS, bias=False)
        self.values = torch.randint(-8, 8, (ROWS, COLS)).float()
        codes = (self.values.to(torch.int16) + 8).reshape(-1, 2)
        packed = (codes[:, 0] * 16 + codes[:, 1]).to(torch.uint8)[:, None]
        # For FSDP the bytes lie in a floating dtype.
        state = SimpleNamespace(shape=(ROWS, COLS), dtype=torch.float32)
        self.weight = Params4bit(
            packed if storage == torch.uint8 else packed.view(torch.uint8).reshape(-1).view(storage), state
        )


def dequantize_4bit(data: Tensor, state: SimpleNamespace) -> Tensor:
    packed = data.reshape(-1).view(torch.uint8).to(torch.int16)
    return (torch.stack([packed // 16, packed % 16], dim=1).reshape(state.shape) - 8).to(state.dtype)


class Linear8bitLt(nn.Linear):
    def __init__(self, after_first_forward: bool) -> None:
        super().__init__(COLS, ROWS, bias=False)
        scales = torch.arange(1.0, ROWS + 1)
        codes = torch.randint(-127, 128, (ROWS, COLS), dtype=torch.int8)
        self.values = codes.float() * scales[:, None] / 127
        # The first forward moves the scales from the weight to the state.
        self.weight = Int8Params(codes, None if after_first_forward else scales)
        self.state = SimpleNamespace(SCB=scales if after_first_forward else None)


class GPTQLinear(nn.Module):
    """As gptqmodel's: no parameter at all."""

    def __init__(self) -> None:
        super().__init__()
        self.in_features, self.out_features = COLS, ROWS
        self.values = torch.randint(-8, 8, (ROWS, COLS)).float()
        self.register_buffer("qweight", torch.zeros(COLS // 8, ROWS, dtype=torch.int32))
        self.register_buffer("scales", torch.ones(1, ROWS))

    def dequantize_weight(self) -> Tensor:
        return self.values


class FP8Linear(nn.Module):
    """As transformers' finegrained FP8: codes with a scale for each block, and nothing that joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ROWS, COLS).to(torch.float8_e4m3fn), requires_grad=False)
        self.weight_scale_inv = nn.Parameter(torch.full((1, 1), 100.0), requires_grad=False)


class PlainInt8(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((ROWS, COLS), 100, dtype=torch.int8), requires_grad=False)


class Block(nn.Module):
    def __init__(self, frozen: nn.Module) -> None:
        super().__init__()
        self.q_proj = nn.Linear(COLS, ROWS, bias=False)
        self.frozen = frozen


class Decoder(nn.Module):
    def __init__(self, *frozen: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(module) for module in frozen)


@pytest.fixture
def bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("bitsandbytes")
    module.functional = SimpleNamespace(dequantize_4bit=dequantize_4bit)
    monkeypatch.setitem(sys.modules, "bitsandbytes", module)


KNOWN = {
    "4-bit": lambda: Linear4bit(torch.uint8),
    "4-bit in bfloat16": lambda: Linear4bit(torch.bfloat16),
    "8-bit": lambda: Linear8bitLt(after_first_forward=False),
    "8-bit after a forward": lambda: Linear8bitLt(after_first_forward=True),
    "GPTQ": GPTQLinear,
}


@pytest.mark.parametrize("make", KNOWN.values(), ids=KNOWN)
def test_what_a_layer_decodes_counts_with_its_values(make, bitsandbytes):
    torch.manual_seed(0)
    module = make()
    inventory = take_inventory(Decoder(module))
    assert [entry.info.name for entry in inventory.stored] == ["layers.0.q_proj.weight"]
    assert inventory.unmeasured == []
    (entry,) = inventory.frozen
    torch.testing.assert_close(entry.values(), module.values)
    assert (entry.layer, entry.stack) == (0, "layers")


@pytest.mark.parametrize(
    ("make", "words"),
    [(FP8Linear, "float8_e4m3fn codes with a scale"), (PlainInt8, "int8 codes"), (lambda: Linear8bitLt(True), "")],
    ids=["fp8", "int8", "8-bit without scales"],
)
def test_what_nothing_decodes_is_skipped_with_the_reason(make, words):
    module = make()
    if isinstance(module, Linear8bitLt):
        module.state.SCB = None
    inventory = take_inventory(Decoder(module, nn.Linear(COLS, ROWS)))
    (entry,) = [entry for entry in inventory.frozen if entry.coded is not None]
    assert entry.values() is None
    (reason,) = inventory.unmeasured
    assert (reason.layer, reason.stack) == (0, "layers")
    assert words in reason.why
    assert "does not decode" in reason.why
    # Its layer's norm is unknown; the other layer's is not.
    assert map_layers(inventory).complete.tolist() == [False, True]


def test_a_scale_alone_is_no_weight():
    module = FP8Linear()
    assert is_helper(module, "weight_scale_inv")
    assert not is_helper(module, "weight")
    norm = nn.LayerNorm(4)
    norm.scale = nn.Parameter(torch.ones(4))
    assert not is_helper(norm, "scale")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_plain_weights_are_no_codes(dtype):
    assert coded(nn.Linear(3, 2).to(dtype), "weight") is None


def test_four_bit_weights_that_are_not_quantized_yet_are_plain():
    # bitsandbytes quantizes when a layer moves to the accelerator.
    module = nn.Linear(COLS, ROWS, bias=False)
    module.weight = Params4bit(torch.ones(ROWS, COLS), None)
    assert coded(module, "weight") is None


class TorchaoTensor(torch.Tensor):
    """As torchao's: claims a floating dtype, and decodes itself."""

    def dequantize(self) -> Tensor:
        return torch.full((ROWS, COLS), 2.0)


TorchaoTensor.__module__ = "torchao.quantization"


def test_tensors_that_claim_a_floating_dtype_are_seen_through():
    module = nn.Linear(COLS, ROWS, bias=False)
    # What the subclass holds is beside the point: its codes.
    del module._parameters["weight"]
    module._parameters["weight"] = torch.full((ROWS, COLS), 7.0).as_subclass(TorchaoTensor)
    found = coded(module, "weight")
    assert found is not None
    assert found.values().tolist() == [[2.0] * COLS] * ROWS


def adapted(model: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        # PEFT's advice about what it does not know is not what is tested.
        warnings.simplefilter("ignore")
        return get_peft_model(model, LoraConfig(r=2, target_modules=["frozen"]))


@pytest.fixture
def adapted_4bit() -> nn.Module:
    torch.manual_seed(0)
    return adapted(Decoder(Linear4bit(torch.uint8)))


def test_an_adapter_on_quantized_weights_has_the_shape_of_its_update(adapted_4bit, bitsandbytes):
    """QLoRA: the base is packed (24, 1), the effective update is (6, 8), and the base's norm is that of its values."""
    (entry,) = take_inventory(adapted_4bit).effective
    assert (entry.info.name, entry.info.kind) == ("layers.0.frozen.weight", "linear")
    assert (entry.info.rows, entry.info.cols, entry.info.matrices) == (ROWS, COLS, 1)
    packed = adapted_4bit.base_model.model.layers[0].frozen.base_layer
    assert tuple(packed.weight.shape) == (ROWS * COLS // 2, 1)
    torch.testing.assert_close(entry.base_values(), packed.values)


def test_an_adapter_on_codes_that_nothing_decodes_has_no_base_norm():
    model = adapted(Decoder(nn.Linear(COLS, ROWS, bias=False)))
    base = model.base_model.model.layers[0].frozen.base_layer
    base.weight = nn.Parameter(torch.ones(ROWS, COLS, dtype=torch.int8), requires_grad=False)
    inventory = take_inventory(model)
    (entry,) = inventory.effective
    assert entry.base_values() is None
    (reason,) = inventory.unmeasured
    assert "int8 codes, which Linear does not decode" in reason.why


def test_an_adapter_on_a_layer_without_a_weight():
    """GPTQ keeps its codes in a buffer of another name; the row is that of the weight all the same."""
    model = adapted(Decoder(nn.Linear(COLS, ROWS, bias=False)))
    module = GPTQLinear()
    model.base_model.model.layers[0].frozen.base_layer = module
    inventory = take_inventory(model)
    (entry,) = inventory.effective
    assert (entry.info.name, entry.info.module, entry.info.kind) == ("layers.0.frozen.weight", "frozen", "linear")
    assert (entry.info.rows, entry.info.cols) == (ROWS, COLS)
    assert entry.base_values() is module.values
    assert [frozen.coded for frozen in inventory.frozen] == [None], "the codes under an adapter do not count twice"
