"""One name per parameter, whatever has been wrapped around the model."""

from __future__ import annotations

# DDP, torch.compile, activation checkpointing, FSDP, PEFT. A wrapper can stand anywhere and more than once: compiling a
# block of a model puts its segment inside the name.
WRAPPERS = ("module", "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "base_layer")
_PEFT = ("base_model", "model")


def canonical_name(name: str) -> str:
    """Return the name that a parameter or module has in the bare model.

    >>> canonical_name("module._orig_mod.model.layers.0._orig_mod.self_attn.q_proj.weight")
    'model.layers.0.self_attn.q_proj.weight'
    >>> canonical_name("base_model.model.model.layers.0.mlp.up_proj.base_layer.weight")
    'model.layers.0.mlp.up_proj.weight'
    >>> canonical_name("base_model.model.lm_head.modules_to_save.default.weight")
    'lm_head.weight'
    """
    segments = [segment for segment in name.split(".") if segment not in WRAPPERS]
    if tuple(segments[:2]) == _PEFT:
        segments = segments[2:]
    if "modules_to_save" in segments:
        # The segment after it is the adapter's name.
        at = segments.index("modules_to_save")
        segments = segments[:at] + segments[at + 2 :]
    return ".".join(segment for segment in segments if segment != "original_module")
