"""The model's twin on the meta device: its modules and shapes from the recorded config, without weights or network."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from grpodyn.errors import AdviceError
from grpodyn.lora.modules import LinearModule, layer_of
from grpodyn.naming.place import place

MAMBA_TYPES = frozenset({"falcon_h1", "mamba", "mamba2", "falcon_mamba", "nemotron_h"})
MAMBA_REFUSED = frozenset({"out_proj", "conv1d"})
"""PEFT refuses these leaf names on these model types, because their fused kernels bypass the module's forward."""

MAMBA_BYPASSED_TYPES = frozenset({"mamba", "falcon_mamba", "jamba"})
MAMBA_BYPASSED = frozenset({"dt_proj", "x_proj"})
"""PEFT accepts these, but the model reads their weight past the module's forward (`dt_proj` always, `x_proj` in the
fused kernel), so an adapter on them would have no effect and no gradient."""

HEAD_REASON = "the output head stays frozen by default"
ROUTER_REASON = "a router: adapting it changes which experts are used"

_NOT_NEEDED = ("quantization_config", "auto_map")
# What transformers raises on a config that does not fit, and torch on an operation that the meta device lacks.
_BUILD_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RuntimeError,
    AssertionError,
    ArithmeticError,
    ImportError,
    StrictDataclassError,
)


@dataclass(frozen=True)
class Twin:
    """A model on the meta device, and what an adapter can sit on."""

    model: torch.nn.Module
    model_type: str
    linear: tuple[LinearModule, ...]
    """Linear modules of the blocks that PEFT accepts."""
    experts: tuple[LinearModule, ...]
    """Stacks of experts of the blocks, which PEFT adapts as bare parameters."""
    left_out: tuple[tuple[str, str], ...]
    """(module name, why it is kept out) of the other linear modules."""
    module_names: tuple[str, ...]
    block_elements: Mapping[str, int]
    """Elements of every weight with at least two dimensions inside the blocks, by parameter name."""


def build(model: Mapping[str, Any]) -> Twin:
    """Build the twin of the model that a manifest describes (`class` and `config`).

    Raises:
        AdviceError: the config cannot be turned into a model here; says why.
    """
    config_values = model.get("config")
    if not isinstance(config_values, Mapping) or "model_type" not in config_values:
        raise AdviceError(
            f"the manifest holds no usable model config (model.config = {config_values!r}); it is needed to check "
            "the advice against the model's own modules"
        )
    module = _meta_model(str(model.get("class") or ""), dict(config_values))
    linear, left_out = _linear_modules(module, str(config_values["model_type"]))
    if not linear:
        raise AdviceError(
            f"{type(module).__name__} ({config_values['model_type']}) has no linear module that PEFT can adapt"
        )
    return Twin(
        model=module,
        model_type=str(config_values["model_type"]),
        linear=tuple(linear),
        experts=tuple(_stacked_experts(module)),
        left_out=tuple(left_out),
        module_names=tuple(name for name, _ in module.named_modules() if name),
        block_elements={
            name: parameter.numel()
            for name, parameter in module.named_parameters()
            if parameter.dim() >= 2 and layer_of(name) is not None
        },
    )


def _meta_model(class_name: str, values: dict[str, Any]) -> Any:
    model_type = values["model_type"]
    if model_type not in CONFIG_MAPPING:
        raise AdviceError(
            f"transformers {transformers.__version__} does not know the model type {model_type!r} (custom code is "
            "never executed from a run); install the transformers version the run was recorded with"
        )
    # A quantised base has the same modules and shapes; its quantiser may not be installed here.
    values = {key: value for key, value in copy.deepcopy(values).items() if key not in _NOT_NEEDED}
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        config = CONFIG_MAPPING[model_type].from_dict(values)
        model_class: Any = getattr(transformers, class_name, None)
        with torch.device("meta"):
            # `_from_config` is what `AutoModel.from_config` calls once it knows the class.
            known = inspect.isclass(model_class) and issubclass(model_class, transformers.PreTrainedModel)
            build_model = model_class._from_config if known else AutoModelForCausalLM.from_config
            return build_model(config, attn_implementation="eager")
    except _BUILD_ERRORS as error:
        raise AdviceError(
            f"the recorded config of {class_name or model_type} does not build a model on the meta device: {error}"
        ) from error
    finally:
        transformers.logging.set_verbosity(verbosity)


def _linear_modules(module: Any, model_type: str) -> tuple[list[LinearModule], list[tuple[str, str]]]:
    head = module.get_output_embeddings()
    linear: list[LinearModule] = []
    left_out: list[tuple[str, str]] = []
    for name, child in module.named_modules():
        if not isinstance(child, (torch.nn.Linear, Conv1D)):
            continue
        leaf = name.rsplit(".", 1)[-1]
        if child is head:
            left_out.append((name, HEAD_REASON))
        elif model_type in MAMBA_TYPES and leaf in MAMBA_REFUSED:
            left_out.append((name, f"PEFT refuses {leaf} on {model_type}"))
        elif model_type in MAMBA_BYPASSED_TYPES and leaf in MAMBA_BYPASSED:
            left_out.append((name, f"{model_type} reads the weight of {leaf} past its forward"))
        elif place(module, f"{name}.weight", tuple(child.weight.shape), head).kind == "router":
            left_out.append((name, ROUTER_REASON))
        else:
            # Conv1D stores (in, out), Linear (out, in).
            sizes = tuple(child.weight.shape)
            inputs, outputs = sizes if isinstance(child, Conv1D) else sizes[::-1]
            linear.append(LinearModule(name, inputs, outputs))
    return linear, left_out


def _stacked_experts(module: Any) -> Iterator[LinearModule]:
    for name, parameter in module.named_parameters():
        where = place(module, name, tuple(parameter.shape))
        if where.kind != "expert" or parameter.dim() != 3 or where.layer < 0 or name.endswith(".weight"):
            continue
        experts, first, second = parameter.shape
        # Which side is which depends on the family; an adapter's size does not.
        yield LinearModule(name, int(second), int(first), int(experts))
