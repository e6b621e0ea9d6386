"""W_0 where parameters are split among ranks: each rank knows its own part, from the checkpoint or from its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Stored
from grpodyn.naming.shards import local
from grpodyn.recording.checkpoint_files import CheckpointFiles, folder_of
from grpodyn.recording.reference import Reference, dtypes, equal_bits


def establish_shares(
    stored: Sequence[Stored], model_config: Any, limit: int, ranks: int, *, start_step: int
) -> Reference:
    """Find this rank's part of every W_0: in the checkpoint, where that holds it bit for bit, else as a copy in memory.

    Args:
        stored: the trained tensors, with their live values.
        model_config: the model's config, which knows where it was loaded from.
        limit: bytes that a rank may hold on average.
        ranks: among how many the model is split.
        start_step: step at which recording starts.
    """
    facts: dict[str, Any] = {"step": start_step, "path": None, "revision": None, "dtype": dtypes(stored)}
    tensors: list[Tensor | None] = [None] * len(stored)
    mapped: dict[int, CheckpointFiles] = {}
    place = folder_of(model_config)
    if place is not None:
        files = CheckpointFiles(place[0])
        tensors = [_mapped(files, entry) for entry in stored]
        mapped = {i: files for i, tensor in enumerate(tensors) if tensor is not None}
        facts |= {"path": str(place[0]), "revision": place[1]} if any(t is not None for t in tensors) else {}
    missing = [i for i, tensor in enumerate(tensors) if tensor is None]
    counts = {"checkpoint": len(stored) - len(missing), "memory": 0}
    size = sum(_bytes(stored[i]) for i in missing) // ranks
    lost: list[Unmeasured] = []
    if size > limit:
        why = f"a copy takes {size >> 20} MB of each rank, more than record.base_limit ({limit >> 20} MB)"
        lost = [Unmeasured(f"displacement of {len(missing)} tensors", why)]
    else:
        counts["memory"] = len(missing)
        for i in missing:
            tensors[i] = local(stored[i].parameter).detach().to("cpu", copy=True)
    facts["source"] = "+".join(source for source, count in counts.items() if count) or "none"
    facts["tensors"] = {source: count for source, count in counts.items() if count}
    return Reference(tensors, facts, lost, mapped)


def lost_shares(stored: Sequence[Stored], facts: Mapping[str, Any]) -> Reference:
    """Return that W_0 is not known any more: the ranks of the run's first segment held it in their memory."""
    why = "the starting weights of a sharded model are held in the memory of its ranks, and the run was resumed"
    return Reference([None] * len(stored), dict(facts), [Unmeasured("displacement of all tensors", why)])


def _mapped(files: CheckpointFiles, entry: Stored) -> Tensor | None:
    """Return this rank's part of a tensor of the checkpoint, if that is what is live; it stays in the mapped file."""
    key = files.find(entry.info.name)
    if key is None or (entry.share is not None and entry.share.box is None):
        return None
    whole, live = files.tensor(key), local(entry.parameter).detach()
    if tuple(whole.shape) != (tuple(live.shape) if entry.share is None else entry.share.shape):
        return None
    part = whole if entry.share is None or entry.share.box is None else entry.share.box.of(whole)
    return part if equal_bits(part.to(live.device, live.dtype), live) else None


def _bytes(entry: Stored) -> int:
    return entry.info.rows * entry.info.cols * entry.info.matrices * entry.parameter.element_size()
