"""What differs between two versions of a model's weights, and each difference in the form that a state asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from grpodyn.attribution.adapter import AdapterWeights
from grpodyn.attribution.state import ROUNDED, State
from grpodyn.attribution.weights import Trained, Weights, required
from grpodyn.errors import UnreadableError
from grpodyn.naming.canonical import canonical_name
from grpodyn.naming.matrices import matrices_of
from grpodyn.naming.place import head_of, place
from grpodyn.recording.reference import equal_bits
from grpodyn.spectra.reduced import gram_upper
from grpodyn.spectra.singular import singular_values
from grpodyn.trace.schema import TensorInfo

_ROWS_MAY_DIFFER = ("embedding", "head")
_VECTOR_LIKE = ("conv", "norm", "bias", "ssm", "sink")
_NOTABLE_ROUNDING = 0.1
_SAMPLED_WEIGHTS = 1 << 16
_KEPT_RANK = 64
"""Directions of each change that are kept, so that a second rank costs no second decomposition."""


@dataclass(frozen=True)
class Changed:
    """One tensor that the two versions hold with different values."""

    info: TensorInfo
    parameter: nn.Parameter
    """The live weight."""
    rows: int | None = None
    """Rows that both versions have, where the vocabulary was changed; None for all."""

    @property
    def is_matrix(self) -> bool:
        """Whether its change has a rank (a stack of experts: one each)."""
        dimensions = self.parameter.dim()
        stacked = dimensions == 3 and self.info.kind == "expert"
        return (dimensions == 2 and self.info.kind not in _VECTOR_LIKE) or stacked


@dataclass(frozen=True)
class Scan:
    """All changed tensors, and what limits the comparison."""

    changed: tuple[Changed, ...]
    unchanged: int
    notes: tuple[str, ...]

    @property
    def infos(self) -> list[TensorInfo]:
        """What the parts are made of."""
        return [entry.info for entry in self.changed]


def scan(model: nn.Module, base: Weights, final: Trained) -> Scan:
    """Compare the two versions, one tensor at a time, in the dtype of the live model.

    Args:
        model: the live model, which holds the base.
        base: the weights before training.
        final: the weights after it.

    Raises:
        UnreadableError: a weight is missing, a shape differs (but for rows of the vocabulary), the live model does
            not hold the base, or an adapter changes what the live model has no place for.
    """
    head = head_of(model)
    changed: list[Changed] = []
    notes = _beyond(model, base, final)
    unchanged = 0
    lost = 0.0
    dense = _Rounding()
    for live_name, parameter in model.named_parameters():
        name = canonical_name(live_name)
        before, after = required(base, name), required(final, name)
        where = place(model, live_name, tuple(parameter.shape), head)
        rows = _common_rows(name, where.kind, before, after, parameter, final.place)
        old, new = _cast(before, parameter, rows), _cast(after, parameter, rows)
        if not equal_bits(old, parameter.detach()[: old.shape[0]].cpu()):
            raise UnreadableError(
                f"the live model does not hold the weights of {base.place} ({name} differs): its files were changed, "
                "or "
                "another version of transformers reads them otherwise"
            )
        if rows is not None and rows < max(before.shape[0], after.shape[0]):
            notes.append(
                f"{name} has {before.shape[0]} rows in the base and {after.shape[0]} after training: the first {rows} "
                "are "
                "compared, the others keep the base's values"
            )
        if equal_bits(old, new):
            unchanged += 1
            continue
        lost = max(lost, _rounded_away(before, after, old, new, rows))
        dense.add(name, before[:rows], after[:rows], parameter.dtype)
        sizes = matrices_of(where.owner, live_name.rsplit(".", 1)[-1], tuple(parameter.shape), where.kind)
        info = TensorInfo(
            name,
            where.layer,
            where.module,
            where.stack,
            where.kind,
            sizes.rows,
            sizes.cols,
            str(parameter.dtype).removeprefix("torch."),
            True,
            "full",
            sizes.count,
            sizes.layout,
        )
        changed.append(Changed(info, parameter, rows))
    if lost > 0.1:
        notes.append(
            f"rounding to the model's dtype loses up to {100 * lost:.0f} % of a tensor's change; --dtype float32 "
            "keeps it"
        )
    if dense.share > _NOTABLE_ROUNDING:
        notes.append(
            f"{ROUNDED} {100 * dense.share:.0f} % of a change of this size that is spread over all weights, as one in "
            "random directions or of a low rank is: their figures are not of what they are called, and no rank is read "
            "off them; --dtype float32 keeps it"
        )
    return Scan(tuple(changed), unchanged, tuple(notes))


def _beyond(model: nn.Module, base: Weights, final: Trained) -> list[str]:
    """Return a note on what the trained weights hold with other values than the base and the live model lacks."""
    saved = model.state_dict().keys()
    derived = {canonical_name(name) for name, _ in model.named_buffers() if name not in saved}
    live = {canonical_name(name) for name, _ in model.named_parameters(remove_duplicate=False)}
    names = final.beyond(live | derived)
    if isinstance(final, AdapterWeights):
        if names:
            raise UnreadableError(
                f"the adapter of {final.place} changes {_some(names)}, which the model has no place for: that part of "
                "the change would be lost; merge the adapter into whole weights and give their folder"
            )
        return []
    differing = [name for name in names if not _same(base.tensor(name), final.tensor(name))]
    if not differing:
        return []
    return [
        f"{final.place} holds {_some(differing)}, which the model has no place for: what they do after training is "
        "not in any figure here"
    ]


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and equal_bits(one, other)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _common_rows(
    name: str, kind: str, before: Tensor, after: Tensor, parameter: nn.Parameter, final_place: str
) -> int | None:
    if before.shape == after.shape == parameter.shape:
        return None
    same_width = before.shape[1:] == after.shape[1:] == parameter.shape[1:]
    if kind in _ROWS_MAY_DIFFER and same_width:
        return min(before.shape[0], after.shape[0], parameter.shape[0])
    raise UnreadableError(
        f"the base does not match: {name} has shape {tuple(before.shape)} there and {tuple(after.shape)} in "
        f"{final_place}; "
        "give the checkpoint that training started from"
    )


def _cast(tensor: Tensor, parameter: nn.Parameter, rows: int | None) -> Tensor:
    return tensor.detach()[:rows].to("cpu", parameter.dtype)


def _rounded_away(before: Tensor, after: Tensor, old: Tensor, new: Tensor, rows: int | None) -> float:
    """Return ‖(after − before) − (new − old)‖ / ‖after − before‖ where the live model's dtype is the coarser one."""
    if before.dtype == old.dtype and after.dtype == new.dtype:
        return 0.0
    true = after[:rows].float() - before[:rows].float()
    size = float(true.norm())
    return float((true - (new.float() - old.float())).norm()) / size if size > 0 else 0.0


class _Rounding:
    """How much of a dense change of the same size the live dtype would lose, on a sample of each tensor.

    A change that was trained in half precision lies on its grid, and none of it is lost. Cut to a rank or turned in
    random directions it does not: each weight gets a step that may be smaller than half of what its dtype can tell.
    """

    def __init__(self) -> None:
        self._lost, self._asked = 0.0, 0.0

    def add(self, name: str, before: Tensor, after: Tensor, dtype: torch.dtype) -> None:
        """Count a tensor in by its number of weights."""
        size = float((after.float() - before.float()).square().mean().sqrt())
        generator = _generator(name, 0)
        taken = torch.randint(before.numel(), (min(before.numel(), _SAMPLED_WEIGHTS),), generator=generator)
        old = before.detach().reshape(-1)[taken].to("cpu", torch.float32)
        asked = size * torch.randn(old.shape, generator=generator)
        stored = (old + asked).to(dtype).float() - old.to(dtype).float()
        self._lost += before.numel() * float((stored - asked).square().mean())
        self._asked += before.numel() * float(asked.square().mean())

    @property
    def share(self) -> float:
        """‖stored − asked‖ / ‖asked‖ over all tensors."""
        return (self._lost / self._asked) ** 0.5 if self._asked > 0 else 0.0


class Forms:
    """Works out what a changed tensor's values are in a state.

    Args:
        base: the weights before training.
        final: the weights after it.
    """

    def __init__(self, base: Weights, final: Weights) -> None:
        self._base, self._final = base, final
        self._directions: dict[str, list[Tensor]] = {}

    def value(self, entry: Changed, state: State) -> Tensor:
        """Return a tensor's values in a state, in the live dtype on the CPU; only the rows that are compared."""
        name = entry.info.name
        if name not in state.changed:
            return _cast(required(self._base, name), entry.parameter, entry.rows)
        new = required(self._final, name)[: entry.rows]
        truncated = state.rank is not None and entry.is_matrix
        if not truncated and state.random_seed is None:
            return _cast(new, entry.parameter, entry.rows)
        old = required(self._base, name)[: entry.rows].float()
        change = new.float() - old
        if state.random_seed is not None:
            change = _turned(change, entry.is_matrix, _generator(name, state.random_seed))
        if truncated and state.rank is not None:
            change = self._of_rank(name, change, state.rank)
        return (old + change).to(entry.parameter.dtype)

    def _of_rank(self, name: str, change: Tensor, rank: int) -> Tensor:
        """Return the best approximation: the projection on the leading directions of the smaller side."""
        matrices = change if change.dim() == 3 else change[None]
        wanted = min(rank, *matrices.shape[1:])
        directions = self._directions.get(name)
        if directions is None or directions[0].shape[1] < wanted:
            directions = [_leading(matrix, max(wanted, _KEPT_RANK)) for matrix in matrices]
            self._directions[name] = directions
        projected = [_project(m, d[:, :wanted].to(m.dtype)) for m, d in zip(matrices, directions, strict=True)]
        return torch.stack(projected).reshape(change.shape)


def _leading(matrix: Tensor, count: int) -> Tensor:
    """Return the leading singular directions of a matrix's smaller side, (side, count), by its float64 Gram matrix."""
    flat = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gram = gram_upper(flat)
    _, vectors = torch.linalg.eigh(gram, UPLO="U")
    leading: Tensor = vectors.flip(1)[:, :count].to(torch.float32)
    return leading


def _project(matrix: Tensor, directions: Tensor) -> Tensor:
    return (
        matrix @ directions @ directions.T
        if matrix.shape[0] >= matrix.shape[1]
        else directions @ (directions.T @ matrix)
    )


def _generator(name: str, seed: int) -> torch.Generator:
    drawn = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:7], "big")
    return torch.Generator().manual_seed(drawn)


def _turned(change: Tensor, is_matrix: bool, generator: torch.Generator) -> Tensor:
    """Return a change with the same singular values (or length) in directions drawn uniformly."""
    if not is_matrix:
        direction = torch.randn(change.shape, generator=generator)
        return direction * float(change.norm() / direction.norm())
    matrices = change if change.dim() == 3 else change[None]
    turned = [_random_like(matrix, generator) for matrix in matrices]
    return torch.stack(turned).reshape(change.shape)


def _random_like(matrix: Tensor, generator: torch.Generator) -> Tensor:
    values = singular_values(matrix)
    sides: Sequence[Tensor] = [_orthonormal(size, len(values), generator) for size in matrix.shape]
    scaled = sides[0] * torch.as_tensor(values, dtype=torch.float64)
    return (scaled @ sides[1].T).to(matrix.dtype)


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Return random orthonormal columns, uniform over all such (QR with the signs of R taken out)."""
    q, r = torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64))
    columns_signed: Tensor = q * r.diagonal().sign()
    return columns_signed
