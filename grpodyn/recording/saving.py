"""The trained model, saved once, by the first rank; where it is split among ranks, from all of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from grpodyn.naming.inventory import sharding


def obstacle(model: nn.Module, *, together: bool) -> str | None:
    """Return why a model cannot be saved, or None.

    Args:
        model: the live model, under any wrappers.
        together: whether all ranks help to put it together.
    """
    if not hasattr(bare(model), "save_pretrained"):
        return f"{type(bare(model)).__qualname__} has no save_pretrained; save it yourself"
    if any(hasattr(parameter, "ds_shape") for parameter in model.parameters()):
        return "it is partitioned by DeepSpeed ZeRO-3; let the trainer save it (trainer.save_model)"
    if not together:
        reasons = (sharding(parameter, name) for name, parameter in model.named_parameters())
        why = next((reason for reason in reasons if reason is not None and "shard" in reason), None)
        return None if why is None else f"{why}, and the ranks do not meet; let the trainer save it"
    return None


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the state of a model that is split among ranks, on the CPU of the first rank.

    Every rank calls it, at the same time. Of a model with adapters only what is trained is put together.
    """
    # Without a process group torch has no such module, on some platforms.
    from torch.distributed.checkpoint.state_dict import (  # noqa: PLC0415  # see above
        StateDictOptions,
        get_model_state_dict,
    )

    has_adapters = hasattr(bare(model), "peft_config")
    # What is on the CPU already would not be copied, and FSDP frees it when this returns.
    elsewhere = any(parameter.device.type != "cpu" for parameter in model.parameters())
    options = StateDictOptions(full_state_dict=True, cpu_offload=elsewhere, ignore_frozen_params=has_adapters)
    state: dict[str, Any] = get_model_state_dict(model, options=options)
    return state


def save(model: nn.Module, tokenizer: Any, folder: Path, state: dict[str, Tensor] | None = None) -> None:
    """Save a model (or its adapter) and its tokenizer as transformers does.

    Args:
        model: the live model, under any wrappers.
        tokenizer: the trainer's; None where it has none.
        folder: where to.
        state: the whole state, where the live model does not hold it.
    """
    unwrapped: Any = bare(model)
    unwrapped.save_pretrained(folder, **({} if state is None else {"state_dict": state}))
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def bare(model: nn.Module) -> nn.Module:
    """Return the model under the wrappers of data parallelism."""
    while isinstance(model, DistributedDataParallel | nn.DataParallel) or hasattr(model, "_fsdp_wrapped_module"):
        inner: Any = model
        model = inner.module
    return model
