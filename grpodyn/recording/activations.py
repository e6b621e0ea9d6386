"""What the blocks of a model make of a few fixed prompts, at the start and later: forwards beside the training's own.

A forward runs without gradients and in evaluation mode, leaves every generator of random numbers as it was, and takes
its hooks away again. It runs on this rank alone, so a model whose layers are spread over ranks gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.inventory import sharding
from grpodyn.probe import Need
from grpodyn.recording.plain_forward import plain_forward
from grpodyn.recording.plan import LayerMap
from grpodyn.recording.start_activations import load_start, save_start
from grpodyn.spectra.norms import squared_norm

PROMPTS = 4
"""Prompts taken from the first generation batch."""
_WIDEST = 8192
"""Width that a model is taken to have if its config does not say."""


class Activations:
    """Holds h_0, the output of every block on a few prompts before the first update, and measures how it shifts.

    Args:
        model: the live model.
        layers: whose blocks are watched.
        tokenizer: the trainer's; None where it has none.
        prompts: texts; None for the first prompts of the first generation batch.
        limit: bytes of h_0 (float32, on the CPU); what does not fit is cut off the prompts.
        together: lets the other ranks run the model on the same inputs, where it is split among them; tells if they do.
        file: takes h_0, so that a resumed training can be compared with its first start; None keeps it in memory alone.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: LayerMap,
        tokenizer: Any,
        prompts: Sequence[str] | None,
        limit: int,
        together: Callable[[dict[str, Tensor]], bool] | None = None,
        file: Path | None = None,
    ) -> None:
        self._model = _bare(model)
        self._file = file
        self._names = [f"{stack}.{layer}" for stack, layer in zip(layers.stacks, layers.layers, strict=True)]
        self._together = together
        self._layers = len(layers.layers)
        self._blocks = _blocks(self._model, layers)
        self._tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        self._prompts: list[Any] | None = None if prompts is None else list(prompts)
        self._tokens = limit // (4 * _width(self._model) * max(1, len(self._blocks)))
        self._inputs: dict[str, Tensor] = {}
        self._start: dict[int, Tensor] = {}
        self.unavailable = self._obstacle()
        """Why nothing is measured, or None."""

    def offer(self, prompts: Sequence[Any]) -> None:
        """Take prompts (texts, or lists of messages), unless there are some; repeated ones count once."""
        if self._prompts is None:
            different = list({str(prompt): prompt for prompt in prompts}.values())
            self._prompts = different[:PROMPTS]

    def begin(self) -> None:
        """Record h_0, unless that is done. Call it before the first update."""
        if self.unavailable is not None or self._inputs:
            return
        if not self._prompts:
            self.unavailable = "there were no prompts before the first update; name some in record.activation_prompts"
            return
        # Until it has succeeded there is nothing to compare with; later it would be too late.
        self.unavailable = "the forward before the first update failed"
        self._inputs = self._encoded(self._prompts)
        self._forward(self._keep)
        self.unavailable = None if self._start else "no block of the model returned one vector per token"
        if self._file is not None and self._start:
            save_start(self._file, self._inputs, {self._names[layer]: own for layer, own in self._start.items()})

    def restore(self) -> None:
        """Take h_0 of the run's first segment from its file: a resumed training begins with other weights."""
        if self.unavailable is not None:
            return
        kept = None if self._file is None else load_start(self._file)
        if kept is None:
            self.unavailable = "the run was resumed, and what the blocks returned before its first update was not kept"
            return
        device = next(self._model.parameters()).device
        self._inputs = {name: values.to(device) for name, values in kept.inputs.items()}
        self._start = {layer: kept.blocks[name] for layer, name in enumerate(self._names) if name in kept.blocks}

    def sums(self) -> dict[Need, Tensor]:
        """Return Σ‖h − h_0‖² and Σ‖h_0‖² over tokens, float64 of shape (layers,); nan for what cannot be measured."""
        shift, start = (torch.full((self._layers,), torch.nan, dtype=torch.float64) for _ in range(2))
        if self.unavailable is None:

            def compare(layer: int, hidden: Tensor) -> None:
                if layer in self._start and hidden.shape == self._start[layer].shape:
                    shift[layer] = squared_norm(hidden - self._start[layer])
                    start[layer] = squared_norm(self._start[layer])

            self._forward(compare)
        return {Need.ACTIVATION_SHIFT: shift, Need.START_ACTIVATION: start}

    @property
    def tokens(self) -> int:
        """Tokens that the shift is measured over; 0 before `begin`."""
        return int(self._inputs["attention_mask"].sum()) if self._inputs else 0

    def _obstacle(self) -> str | None:
        if self._tokenizer is None:
            return "there is no tokenizer: only a trainer that has one can be measured"
        if not self._blocks:
            return "the model has no stack of blocks"
        if self._tokens < 1:
            return "not one token of every block fits into record.activation_limit; raise it"
        # Forwards of models that DeepSpeed has partitioned have never been tried.
        alone = self._together is None or any(hasattr(own, "ds_shape") for own in self._model.parameters())
        if alone and any(sharding(own, name) for name, own in self._model.named_parameters()):
            return "the model is spread over ranks, and a forward of one rank alone would wait for the others"
        if any(hasattr(module, "_orig_mod") or module._compiled_call_impl for module in self._model.modules()):
            return "the model is compiled: a forward of another shape could change its code"
        return None

    def _keep(self, layer: int, hidden: Tensor) -> None:
        self._start[layer] = hidden

    def _encoded(self, prompts: Sequence[Any]) -> dict[str, Tensor]:
        rows: list[list[int]] = []
        left = self._tokens
        for prompt in prompts:
            ids = self._ids(prompt)[:left]
            left -= len(ids)
            if ids:
                rows.append(ids)
        if not rows:
            raise ValueError(f"the prompts {prompts!r} have no tokens; name others in record.activation_prompts")
        longest = max(len(ids) for ids in rows)
        device = next(self._model.parameters()).device
        # Padding stands at the right, where no token of a decoder can see it, and is masked besides.
        padded = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        return {"input_ids": padded, "attention_mask": mask}

    def _ids(self, prompt: Any) -> list[int]:
        if not isinstance(prompt, str):
            prompt = self._tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        ids: list[int] = self._tokenizer(prompt)["input_ids"]
        return ids

    def _forward(self, receive: Any) -> None:
        mask = self._inputs["attention_mask"].bool()
        # Where ranks run together, what is raised between two layers would keep the others waiting for the next one.
        held: dict[int, Tensor] = {}
        take_now = receive if self._together is None else held.__setitem__

        def hook(layer: int) -> Any:
            def take(module: nn.Module, arguments: Any, output: Any) -> None:
                hidden = output[0] if isinstance(output, tuple | list) else output
                if isinstance(hidden, Tensor) and hidden.shape[:-1] == mask.shape:
                    take_now(layer, hidden.detach()[mask].to("cpu", torch.float32))

            return take

        if self._together is not None and not self._together(self._inputs):
            self.unavailable = "the other ranks do not run the model with this one"
            return
        handles = [block.register_forward_hook(hook(layer)) for layer, block in self._blocks.items()]
        try:
            plain_forward(self._model, self._inputs)
        finally:
            for handle in handles:
                handle.remove()
        while held:
            receive(*held.popitem())


def _bare(model: nn.Module) -> nn.Module:
    # The wrapper of data parallelism would wait for the other ranks to copy its buffers.
    parallel = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    while isinstance(model, parallel):
        model = model.module
    return model


def _blocks(model: nn.Module, layers: LayerMap) -> dict[int, nn.Module]:
    """Return the module of each layer by its place on the layer axis: the outermost, if it is wrapped."""
    places = {f"{stack}.{layer}": i for i, (stack, layer) in enumerate(zip(layers.stacks, layers.layers, strict=True))}
    found: dict[int, nn.Module] = {}
    for name, module in model.named_modules():
        place = places.get(canonical_name(name))
        if place is not None:
            found.setdefault(place, module)
    return found


def _width(model: nn.Module) -> int:
    config: Any = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return int(getattr(text, "hidden_size", None) or _WIDEST)
