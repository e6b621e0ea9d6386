"""W_0: where the starting weights can be read again at any later step, without a second copy in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.inventory import Stored
from grpodyn.recording.checkpoint_files import CheckpointFiles, folder_of
from grpodyn.recording.pieces import Piece

BASE_FOLDER = "base"
_BASE_FILE = "start.safetensors"
_SAMPLES = 64


@dataclass
class Reference:
    """The starting weight of each stored tensor, or why there is none."""

    tensors: list[Tensor | None]
    """W_0 of each stored tensor, in the dtype it is kept in; None where nothing holds it."""
    facts: dict[str, Any]
    """What the manifest says about it."""
    unmeasured: list[Unmeasured] = field(default_factory=list)
    mapped: dict[int, CheckpointFiles] = field(default_factory=dict)
    """By tensor, the files that its W_0 is read from."""

    def drop_rewritten(self) -> Unmeasured | None:
        """Give up what is mapped from files that were written to in the meantime; return what that is and why.

        Call it before W_0 is read: the file of a checkpoint may be that which a training saves its result into.
        """
        for files in {id(files): files for files in self.mapped.values()}.values():
            file = files.rewritten()
            if file is not None:
                lost = [i for i, source in self.mapped.items() if source is files]
                for i in lost:
                    self.tensors[i] = None
                    del self.mapped[i]
                why = f"{file}, which held their starting weights, was written to while training ran"
                return Unmeasured(f"displacement of {len(lost)} tensors", why)
        return None

    def piece(self, piece: Piece, like: Tensor) -> Tensor:
        """Return some rows of W_0 on the device and in the dtype of the live weight."""
        tensor = self.tensors[piece.index]
        if tensor is None:
            raise KeyError(f"tensor {piece.index} has no starting weight")
        return piece.of(tensor).to(device=like.device, dtype=like.dtype)


def establish(
    stored: Sequence[Stored],
    model_config: Any,
    reference_model: nn.Module | None,
    run_dir: Path,
    limit: int,
    *,
    start_step: int = 0,
) -> Reference:
    """Find what holds W_0 at the start of a run: the checkpoint, the trainer's reference model, or a copy in `base/`.

    A source counts only where it equals the live weights bit for bit.

    Args:
        stored: the trained tensors, with their live values.
        model_config: the model's config, which knows where it was loaded from.
        reference_model: the trainer's frozen reference, if it has one that never changes.
        run_dir: the run, whose `base/` takes what nothing else holds.
        limit: bytes that may be saved there.
        start_step: step at which recording starts, if training had begun before.

    Raises:
        OSError: `base/` cannot be written.
    """
    tensors: list[Tensor | None] = [None] * len(stored)
    facts: dict[str, Any] = {"step": start_step, "path": None, "revision": None, "dtype": dtypes(stored)}
    counts = {"checkpoint": 0, "reference_model": 0, "base": 0}
    mapped: dict[int, CheckpointFiles] = {}
    place = folder_of(model_config)
    if place is not None:
        files = CheckpointFiles(place[0])
        filled = _fill(tensors, stored, lambda name: _from_files(files, name))
        mapped = dict.fromkeys(filled, files)
        counts["checkpoint"] = len(filled)
        facts |= {"path": str(place[0]), "revision": place[1]} if filled else {}
    if reference_model is not None:
        named = {canonical_name(name): parameter for name, parameter in reference_model.named_parameters()}
        counts["reference_model"] = len(_fill(tensors, stored, named.get))
    missing = [i for i, tensor in enumerate(tensors) if tensor is None]
    size = sum(stored[i].parameter.numel() * stored[i].parameter.element_size() for i in missing)
    unmeasured: list[Unmeasured] = []
    if size > limit:
        unmeasured.append(
            Unmeasured(
                f"displacement of {len(missing)} tensors",
                f"nothing on this machine holds their starting weights, and a copy takes {size >> 20} MB, more than "
                f"record.base_limit ({limit >> 20} MB)",
            )
        )
    elif missing:
        _save([stored[i] for i in missing], run_dir / BASE_FOLDER)
        saved = CheckpointFiles(run_dir / BASE_FOLDER, [_BASE_FILE])
        filled = _fill(tensors, stored, lambda name: saved.tensor(name) if saved.find(name) == name else None)
        mapped |= dict.fromkeys(filled, saved)
        counts["base"] = len(filled)
    facts["source"] = "+".join(source for source, count in counts.items() if count) or "none"
    facts["tensors"] = {source: count for source, count in counts.items() if count}
    facts["fingerprint"] = _fingerprint(stored, tensors)
    return Reference(tensors, facts, unmeasured, mapped)


def reopen(
    stored: Sequence[Stored], reference_model: nn.Module | None, run_dir: Path, facts: Mapping[str, Any]
) -> Reference:
    """Find the W_0 of a run's first segment again, from what its manifest says."""
    tensors: list[Tensor | None] = [None] * len(stored)
    # The live weights have moved on: here a name and a shape must do, and the fingerprint vouches for the values.
    mapped: dict[int, CheckpointFiles] = {}
    if facts.get("path") and Path(facts["path"]).is_dir():
        files = CheckpointFiles(Path(facts["path"]))
        filled = _fill(tensors, stored, lambda name: _from_files(files, name), compare=False)
        mapped = dict.fromkeys(filled, files)
    if "reference_model" in facts.get("tensors", {}) and reference_model is not None:
        named = {canonical_name(name): parameter for name, parameter in reference_model.named_parameters()}
        _fill(tensors, stored, named.get, compare=False)
    if (run_dir / BASE_FOLDER / _BASE_FILE).is_file():
        saved = CheckpointFiles(run_dir / BASE_FOLDER, [_BASE_FILE])
        for i, entry in enumerate(stored):
            if saved.find(entry.info.name) == entry.info.name:
                tensors[i] = saved.tensor(entry.info.name)
                mapped[i] = saved
    found = _fingerprint(stored, tensors)
    if found == facts.get("fingerprint"):
        return Reference(tensors, dict(facts), mapped=mapped)
    where = f"{facts.get('source')}, {facts.get('path')}"
    why = f"the starting weights of the run's first segment ({where}) are gone or changed"
    return Reference([None] * len(stored), dict(facts), [Unmeasured("displacement of all tensors", why)])


def digests(facts: Mapping[str, Any], run_dir: Path) -> dict[str, str | None]:
    """Return the SHA-256 of every file that holds a part of W_0.

    Raises:
        OSError: a file is gone.
    """
    found: dict[str, str | None] = {}
    if facts.get("path"):
        found |= CheckpointFiles(Path(facts["path"])).sha256()
    if "base" in facts.get("tensors", {}):
        found |= CheckpointFiles(run_dir / BASE_FOLDER, [_BASE_FILE]).sha256()
    return found


def equal_bits(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one dtype hold the same bits (so that NaN equals itself, and −0 is not 0)."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return bool(torch.equal(a.contiguous().view(-1).view(integer), b.contiguous().view(-1).view(integer)))


def _from_files(files: CheckpointFiles, name: str) -> Tensor | None:
    key = files.find(name)
    return files.tensor(key) if key is not None else None


def _fill(tensors: list[Tensor | None], stored: Sequence[Stored], source: Any, *, compare: bool = True) -> list[int]:
    """Fill the gaps in `tensors` from a source, where it fits; return the places that it filled."""
    filled: list[int] = []
    for i, entry in enumerate(stored):
        if tensors[i] is not None:
            continue
        candidate, live = source(entry.info.name), entry.parameter.detach()
        if candidate is None or candidate.shape != live.shape:
            continue
        # A checkpoint in half precision, loaded in float32, still holds the start exactly.
        if compare and not equal_bits(candidate.detach().to(live.device, live.dtype), live):
            continue
        tensors[i] = candidate.detach()
        filled.append(i)
    return filled


def _save(stored: Sequence[Stored], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    partial = folder / f"{_BASE_FILE}.partial"
    save_file({entry.info.name: entry.parameter.detach().cpu().contiguous() for entry in stored}, partial)
    partial.replace(folder / _BASE_FILE)


def dtypes(stored: Sequence[Stored]) -> str | None:
    """Return the dtypes of the trained tensors, for the manifest."""
    return ", ".join(sorted({entry.info.dtype for entry in stored})) or None


def _fingerprint(stored: Sequence[Stored], tensors: Sequence[Tensor | None]) -> str:
    """Return a digest of names, shapes and some values of each tensor: other weights of the same shape do not pass."""
    digest = hashlib.sha256()
    for entry, tensor in zip(stored, tensors, strict=True):
        digest.update(f"{entry.info.name} {tuple(entry.parameter.shape)}".encode())
        if tensor is not None:
            flat = tensor.reshape(-1)
            taken = flat[:: max(1, flat.numel() // _SAMPLES)].to("cpu", torch.float64)
            digest.update(taken.numpy().tobytes())
    return digest.hexdigest()
