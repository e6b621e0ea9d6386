"""How far a stage of a run moved the weights of each layer, from where it began: no difference of two displacements.

‖W_t − W_0‖ of two stages do not tell it, as the second may turn back what the first did. So the weights that a stage
begins from are kept until it has ended, as hard links to the files of the checkpoint, which take no room of their own
while that checkpoint is there.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from grpodyn.attribution.adapter import AdapterWeights, is_adapter
from grpodyn.attribution.weights import FolderWeights, Weights, required
from grpodyn.errors import GrpodynError, UnreadableError
from grpodyn.lora import twin
from grpodyn.naming.canonical import canonical_name
from grpodyn.spectra.norms import squared_norm
from grpodyn.trace.reader import Run, open_run

_KEPT = ("model*.safetensors", "model.safetensors.index.json", "adapter_model.safetensors", "adapter_config.json")


class _Zeros:
    """A base of zeros in the shapes of the model: on it an adapter's weights are its change alone."""

    def __init__(self, model: nn.Module) -> None:
        self.place = "zeros"
        self._shapes = {canonical_name(name): weight.shape for name, weight in model.named_parameters()}

    def tensor(self, name: str) -> Tensor | None:
        shape = self._shapes.get(name)
        return None if shape is None else torch.zeros(shape)

    def digest(self) -> str:
        return ""


def keep_start(run_dir: Path, number: int, checkpoint: Path) -> str | None:
    """Keep the weights that a stage begins from, until `own_movement` has compared them.

    Args:
        run_dir: of the run.
        number: of the stage.
        checkpoint: its weights; they are left where they are.

    Returns:
        Why they could not be kept; None if they are.
    """
    folder = start_folder(run_dir, number)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        for pattern in _KEPT:
            for file in checkpoint.glob(pattern):
                os.link(file, folder / file.name)
    except OSError as error:
        # A copy would take the room of the whole model.
        shutil.rmtree(folder, ignore_errors=True)
        return f"the weights at its start were not kept: no hard link to them ({error.strerror or error})"
    return None


def start_folder(run_dir: Path, number: int) -> Path:
    """Return where the weights at the start of a stage are kept while it is trained."""
    return run_dir / "stages" / f"start-of-{number}"


def forget_start(run_dir: Path, number: int) -> None:
    """Delete what `keep_start` kept."""
    folder = start_folder(run_dir, number)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        # The tuned model may lie beside it.
        folder.parent.rmdir()


def own_movement(run_dir: Path, number: int, end: Path) -> dict[str, Any]:
    """Return what a stage moved, as fields of its segment.

    Args:
        run_dir: of the run.
        number: of the stage.
        end: folder of the weights at its end.

    Returns:
        `moved`: ‖W_end − W_start‖_F by layer (`stack.index`), over all tensors of the layer that the run records; of an
        adapter of the effective weights. Or `moved_unknown`: why not.
    """
    folder = start_folder(run_dir, number)
    if not folder.is_dir():
        return {"moved_unknown": "the weights at its start were not kept"}
    try:
        run = open_run(run_dir)
        before, after = (_weights(run, one) for one in (folder, end))
        return {"moved": _by_layer(run, lambda name: _change(before, after, name))}
    except (GrpodynError, OSError, ValueError) as error:
        return {"moved_unknown": " ".join(str(error).split())}


def _weights(run: Run, folder: Path) -> Weights:
    if not is_adapter(folder):
        return FolderWeights(folder)
    if (run.manifest.lora or {}).get("use_dora"):
        raise UnreadableError("DoRA rescales the base's weights, so its change is not that of its factors")
    # PEFT puts the adapter into the model that it is given, so each has one of its own.
    model = twin.build(run.manifest.model).model
    return AdapterWeights(_Zeros(model), folder, model)


def _change(before: Weights, after: Weights, name: str) -> float:
    old, new = required(before, name), required(after, name)
    if old.shape != new.shape:
        raise UnreadableError(f"{name} has shape {tuple(old.shape)} before and {tuple(new.shape)} after the stage")
    return float(squared_norm(new.float() - old.float()))


def _by_layer(run: Run, squares: Callable[[str], float]) -> Mapping[str, float]:
    columns = (run.tensors[column].values for column in ("tensor", "layer", "stack", "source"))
    total: dict[tuple[str, int], float] = {}
    for name, layer, stack, source in zip(*columns, strict=True):
        # The factors of an adapter and its effective update are one change seen twice.
        if int(layer) >= 0 and str(source) != "factor":
            place = (str(stack), int(layer))
            total[place] = total.get(place, 0.0) + squares(str(name))
    return {f"{stack}.{layer}": math.sqrt(total[stack, layer]) for stack, layer in sorted(total)}
