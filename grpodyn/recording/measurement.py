"""Reads one optimizer step: squared norms and counts of all that the step's probes need, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from grpodyn.naming.adapters import Unmeasured
from grpodyn.naming.inventory import Frozen, Inventory, Stored
from grpodyn.naming.shards import local
from grpodyn.probe import OF_WINDOW, FloatArray, Need, TensorProbe
from grpodyn.recording.adapter_changes import Value, changes
from grpodyn.recording.gradient_moments import GradientMoments
from grpodyn.recording.optimizers import IntendedSteps, Part
from grpodyn.recording.pieces import Batch, Piece, batches, differences, widened
from grpodyn.recording.plan import LayerMap
from grpodyn.recording.previous import PreviousWeights
from grpodyn.recording.reference import Reference
from grpodyn.recording.spectra_worker import Weights
from grpodyn.recording.sums import Row, Sums
from grpodyn.spectra.changes import changed_bits, changed_noticeably
from grpodyn.spectra.norms import squared_norms

_OF_STEP = (Need.STEP, Need.INTENDED_STEP, Need.CHANGED_BY_STEP)
_OF_WEIGHT = (Need.BASE_WEIGHT, Need.PREVIOUS_WEIGHT)

OF_DISPLACEMENT = frozenset({Need.DELTA, Need.CHANGED_SINCE_START, Need.BASE_WEIGHT, Need.ELEMENTS})
"""What can be measured of the live weights at any time, without a step."""


class Measurement:
    """Measures the steps of one recording.

    Args:
        inventory: what is measured.
        reference: W_0 of the stored tensors.
        optimizer: the optimizer, wrapped or not.
        needs: what any probe needs at any step.
        copy_limit: bytes of copies of W_{t−1}.
    """

    def __init__(
        self, inventory: Inventory, reference: Reference, optimizer: object, needs: frozenset[Need], copy_limit: int
    ) -> None:
        self._inventory = inventory
        self._reference = reference
        self._live: list[nn.Parameter] = [entry.parameter for entry in inventory.stored]
        self._place = {id(parameter): i for i, parameter in enumerate(self._live)}
        self._batches = batches([local(parameter) for parameter in self._live])
        self.intended = IntendedSteps(optimizer)
        self.previous = PreviousWeights(self._live, copy_limit) if needs & set(_OF_STEP) else None
        self._copied = batches(self.previous.copies) if self.previous else []
        self._forms = [_form(parameter) for parameter in self._live]
        self._moments = GradientMoments(self._live) if needs & OF_WINDOW else None
        self._base_squares: Tensor | None = None
        self._sums = Sums(self.rows)
        self.knows_step = False
        """Whether W_{t−1} of the last step is held."""
        self.without_gradient: list[str] = []
        """Names of tensors that had no gradient at the last step that looked."""
        self.lost: list[str] = []
        """Names of tensors that are no longer what they were at the start, and are not measured any more."""

    @property
    def rows(self) -> int:
        """Length of the tensor axis."""
        return len(self._inventory.infos)

    @property
    def split(self) -> Tensor:
        """Which rows are split among ranks: bool, shape (rows,)."""
        stored = [entry.share is not None for entry in self._inventory.stored]
        return torch.tensor(stored + [False] * len(self._inventory.effective), dtype=torch.bool)

    def counted(self, *, is_first: bool) -> Tensor:
        """Return the rows that this rank's sums count for, among those of all ranks: bool, shape (rows,).

        Args:
            is_first: whether this is the rank that counts what every rank holds whole.
        """
        stored = [is_first if entry.share is None else self._counts(entry) for entry in self._inventory.stored]
        return torch.tensor(stored + [is_first] * len(self._inventory.effective), dtype=torch.bool)

    @torch.no_grad()
    def before_step(self, needs: Iterable[Need], *, hidden: bool = False) -> None:
        """Read gradients and the weights before the step. Call it when gradients are clipped.

        Args:
            needs: what is measured at this step.
            hidden: whether the gradients that are there now are not those of the step.
        """
        wanted = set(needs)
        if self._moments is not None and not hidden:
            self._moments.add()
        self._leave_out_lost()
        self._sums = Sums(self.rows)
        if Need.GRADIENT in wanted:
            self._gradients()
        if Need.PREVIOUS_WEIGHT in wanted:
            for batch in self._batches:
                self._add(Need.PREVIOUS_WEIGHT, batch, [piece.of(self._live[piece.index]) for piece in batch])
        if self.previous is not None and wanted & set(_OF_STEP):
            self.previous.take()

    @torch.no_grad()
    def after_step(self, needs: Iterable[Need]) -> dict[Need, Tensor]:
        """Read what the step did; return the sums of the whole step, float64 of shape (rows,) by need.

        nan stands where something could not be measured.
        """
        wanted = set(needs)
        self.knows_step = self.previous is not None and bool(wanted & set(_OF_STEP))
        return self._measure(wanted)

    def _measure(self, wanted: set[Need]) -> dict[Need, Tensor]:
        self._leave_out_lost()
        if self.previous is not None:
            self._steps(self.previous, wanted)
        if self.previous is not None and Need.INTENDED_STEP in wanted and self.intended.unavailable is None:
            self._intended_steps(self.previous)
        self._deltas(wanted)
        sums = self._sums.collect()
        base = self._bases() if wanted & set(_OF_WEIGHT) else None
        if base is not None:
            sums[Need.BASE_WEIGHT] = base
            if Need.PREVIOUS_WEIGHT in wanted:
                # The weight under an adapter does not move.
                sums[Need.PREVIOUS_WEIGHT][self._adapted] = base[self._adapted]
        if self._moments is not None and wanted & OF_WINDOW:
            missing = torch.full((len(self._inventory.effective),), torch.nan, dtype=torch.float64)
            pair = zip((Need.GRADIENT_SIGNAL, Need.GRADIENT_NOISE), self._moments.read(), strict=True)
            sums |= {need: torch.cat([values, missing]) for need, values in pair}
        if Need.ELEMENTS in wanted:
            sums[Need.ELEMENTS] = self._elements
        for name in wanted - sums.keys():
            sums[name] = torch.full((self.rows,), torch.nan, dtype=torch.float64)
        return sums

    @torch.no_grad()
    def displacement(self, needs: Iterable[Need]) -> dict[Need, Tensor]:
        """Return the sums that tell how far the live weights are from the start, without a step.

        Args:
            needs: some of `OF_DISPLACEMENT`.
        """
        self._sums = Sums(self.rows)
        return self._measure(set(OF_DISPLACEMENT & set(needs)))

    @property
    def measured(self) -> dict[Need, set[int]]:
        """Rows that the last step measured, by need."""
        return {need: self._sums.measured(need) for need in Need}

    def has_start(self, row: int) -> bool:
        """Return whether W_0 of a stored tensor is known."""
        return self._reference.tensors[row] is not None

    @torch.no_grad()
    def delta_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return a copy of a stored tensor's W_t − W_0, in at least float32, on the CPU; None if W_0 is not known.

        Args:
            row: its place on the tensor axis.
            expert: the matrix of a stack; None for a tensor that is one matrix.
        """
        if self._reference.tensors[row] is None:
            return None
        return self._change_of(row, expert, self._reference.piece)

    @torch.no_grad()
    def step_of(self, row: int, expert: int | None = None) -> Tensor | None:
        """Return a copy of a stored tensor's W_t − W_{t−1}, like `delta_of`; None if W_{t−1} is not known whole."""
        if self.previous is None or not self.knows_step or self.previous.is_sampled(row):
            return None
        copy = self.previous.copies[row]
        return self._change_of(row, expert, lambda piece, _: piece.of(copy))

    @torch.no_grad()
    def weights_of(self, row: int, expert: int | None = None) -> Weights | None:
        """Return copies of a stored tensor's W_0 and W_t, in at least float32, on the CPU; None if W_0 is not known.

        Args:
            row: its place on the tensor axis.
            expert: the matrix of a stack; None for a tensor that is one matrix.
        """
        if self._reference.tensors[row] is None:
            return None
        live, info = self._live[row], self._inventory.stored[row].info
        length = live.shape[0] // info.matrices
        part = Piece(row) if expert is None else Piece(row, expert * length, (expert + 1) * length)
        dtype = torch.float64 if live.dtype == torch.float64 else torch.float32
        both = (self._reference.piece(part, live), part.of(live))
        return Weights(*(side.reshape(info.rows, info.cols).to("cpu", dtype, copy=True) for side in both))

    def _change_of(self, row: int, expert: int | None, before: Callable[[Piece, Tensor], Tensor]) -> Tensor:
        live = self._live[row]
        info = self._inventory.stored[row].info
        dtype = torch.float64 if live.dtype == torch.float64 else torch.float32
        if expert is not None:
            # One matrix of a stack (experts, …), or of matrices that lie under one another.
            length = live.shape[0] // info.matrices
            part = Piece(row, expert * length, (expert + 1) * length)
            change = differences([part.of(live)], [before(part, live)])[0]
            return change.reshape(info.rows, info.cols).to("cpu", dtype, copy=True)
        delta = torch.empty(live.shape, dtype=dtype)
        for batch in batches([live]):
            for piece in batch:
                start = before(Piece(row, piece.start, piece.stop), live)
                piece.of(delta).copy_(differences([piece.of(live)], [start])[0])
        return delta

    def has_previous(self, row: int) -> bool:
        """Return whether W_{t−1} of a stored tensor is kept whole at the steps that need it."""
        return self.previous is not None and not self.previous.is_sampled(row)

    def previous_of(self, parameter: nn.Parameter) -> Tensor | None:
        """Return W_{t−1} of a stored parameter; None where it is not known whole."""
        return self._before(self.previous)(parameter) if self.previous is not None and self.knows_step else None

    def start_of(self, parameter: nn.Parameter) -> Tensor | None:
        """Return W_0 of a stored parameter on its device; None where it is not known."""
        place = self._place.get(id(parameter))
        if place is None or self._reference.tensors[place] is None:
            return None
        return self._reference.piece(Piece(place), parameter)

    @property
    def _elements(self) -> Tensor:
        sizes = [info.rows * info.cols * info.matrices for info in self._inventory.infos]
        return torch.tensor(sizes, dtype=torch.float64)

    def _counts(self, entry: Stored) -> bool:
        return entry.share is not None and entry.share.counted and local(entry.parameter).numel() > 0

    @property
    def _adapted(self) -> slice:
        return slice(len(self._live), self.rows)

    def _leave_out_lost(self) -> None:
        """Stop measuring parameters whose shape, dtype or place has changed: a difference would mean nothing."""
        changed = {i for i, parameter in enumerate(self._live) if _form(parameter) != self._forms[i]}
        for i in sorted(changed):
            self._forms[i] = _form(self._live[i])
            self.lost.append(self._inventory.stored[i].info.name)
            self._place.pop(id(self._live[i]), None)
            self._reference.tensors[i] = None
            if self.previous is not None:
                self.previous.forget(i)
        if changed:
            self._batches = _without(self._batches, changed)
            self._copied = _without(self._copied, changed)

    def _add(self, need: Need, batch: Batch, values: list[Tensor]) -> None:
        self._sums.add(need, [piece.index for piece in batch], squared_norms(values))

    def _gradients(self) -> None:
        without = [entry for entry in self._inventory.stored if entry.parameter.grad is None]
        self.without_gradient = [entry.info.name for entry in without if entry.share is None or self._counts(entry)]
        gradients = [_values(parameter.grad) for parameter in self._live]
        for batch in batches(gradients):
            pairs = [(piece, gradients[piece.index]) for piece in batch]
            self._add(Need.GRADIENT, batch, [piece.of(values) for piece, values in pairs if values is not None])

    def _steps(self, previous: PreviousWeights, wanted: set[Need]) -> None:
        norms, counts = Need.STEP in wanted, Need.CHANGED_BY_STEP in wanted
        for batch in self._copied if norms or counts else ():
            after = [piece.of(previous.matching(piece.index, self._live[piece.index].detach())) for piece in batch]
            before = [piece.of(previous.copies[piece.index]) for piece in batch]
            if norms:
                self._add_scaled(Need.STEP, batch, squared_norms(differences(after, before)), previous)
            if counts:
                self._add_scaled(Need.CHANGED_BY_STEP, batch, changed_bits(after, before), previous)
        if norms:
            self._add_adapted(Need.STEP, lambda factor: factor.detach(), self._before(previous))

    def _intended_steps(self, previous: PreviousWeights) -> None:
        self.intended.refresh()
        dense: dict[int, Tensor] = {}
        factors = {id(f) for entry in self._inventory.effective for a in entry.adapters for f in (a.a, a.b)}
        for batch in self._copied:
            parts = [self._part(previous, piece) for piece in batch]
            steps = self.intended.steps(parts)
            self._add_scaled(Need.INTENDED_STEP, batch, squared_norms(steps), previous)
            for piece, part, step in zip(batch, parts, steps, strict=True):
                if id(part.parameter) in factors:
                    key = id(part.parameter)
                    dense[key] = step if piece.start == 0 else torch.cat([dense[key], step])
        before = self._before(previous)

        def after(factor: nn.Parameter) -> Tensor | None:
            start, step = before(factor), dense.get(id(factor))
            return None if start is None or step is None else start.double() + step.double()

        self._add_adapted(Need.INTENDED_STEP, after, before)

    def _part(self, previous: PreviousWeights, piece: Piece) -> Part:
        def select(tensor: Tensor) -> Tensor:
            return piece.of(previous.matching(piece.index, tensor.detach()))

        return Part(self._live[piece.index], select, piece.of(previous.copies[piece.index]))

    def _before(self, previous: PreviousWeights) -> Value:
        def value(factor: nn.Parameter) -> Tensor | None:
            place = self._place.get(id(factor))
            return None if place is None or previous.is_sampled(place) else previous.copies[place]

        return value

    def _deltas(self, wanted: set[Need]) -> None:
        norms, counts = Need.DELTA in wanted, Need.CHANGED_SINCE_START in wanted
        for batch in self._batches if norms or counts else ():
            known = [piece for piece in batch if self._reference.tensors[piece.index] is not None]
            if not known:
                continue
            live = [piece.of(self._live[piece.index]) for piece in known]
            start = [self._reference.piece(piece, self._live[piece.index]) for piece in known]
            if norms:
                self._add(Need.DELTA, known, differences(live, start))
            if counts:
                changed = changed_noticeably(widened(live), widened(start))
                self._sums.add(Need.CHANGED_SINCE_START, [piece.index for piece in known], changed)
        if norms:
            self._add_adapted(Need.DELTA, lambda factor: factor.detach(), self.start_of)

    def _add_scaled(self, need: Need, batch: Batch, sums: Tensor, previous: PreviousWeights) -> None:
        if any(previous.is_sampled(piece.index) for piece in batch):
            scales = torch.tensor([previous.scale(piece.index) for piece in batch], dtype=torch.float64)
            sums = sums * scales.to(sums.device)
        self._sums.add(need, [piece.index for piece in batch], sums)

    def _add_adapted(self, need: Need, after: Value, before: Value) -> None:
        found = changes(self._inventory.effective, after, before)
        if found.places:
            self._sums.add(need, [len(self._live) + place for place in found.places], found.squares)

    def _bases(self) -> Tensor:
        """Return ‖W_0‖_F² of every row, read once."""
        if self._base_squares is None:
            sums = Sums(self.rows)
            for batch in self._batches:
                known = [piece for piece in batch if self._reference.tensors[piece.index] is not None]
                starts = [self._reference.piece(piece, self._live[piece.index]) for piece in known]
                if known:
                    sums.add(Need.BASE_WEIGHT, [piece.index for piece in known], squared_norms(starts))
            for place, entry in enumerate(self._inventory.effective):
                values = entry.base_values()
                if values is not None:
                    sums.add(Need.BASE_WEIGHT, [len(self._live) + place], squared_norms([values]))
            nowhere = torch.full((self.rows,), torch.nan, dtype=torch.float64)
            self._base_squares = sums.collect().get(Need.BASE_WEIGHT, nowhere)
        return self._base_squares


def _form(parameter: Tensor) -> tuple[object, ...]:
    return parameter.shape, parameter.dtype, parameter.layout, parameter.device


def _values(gradient: Tensor | None) -> Tensor | None:
    """Return what a norm is taken of: all of a gradient that is here, or the values that a sparse one stores."""
    gradient = None if gradient is None else local(gradient)
    return gradient.coalesce().values() if gradient is not None and gradient.is_sparse else gradient


def _without(lists: Sequence[Batch], indices: set[int]) -> list[Batch]:
    left = ([piece for piece in batch if piece.index not in indices] for batch in lists)
    return [batch for batch in left if batch]


def tensor_values(probe: TensorProbe, measured: dict[Need, Tensor], rows: int) -> FloatArray:
    """Return a per-tensor probe's values, shape (rows,); nan where they are not finite."""
    return _finite(probe.compute(*_sums(probe, measured, range(rows)).T))


def layer_values(
    probe: TensorProbe, measured: dict[Need, Tensor], layers: LayerMap, frozen: dict[Need, Tensor]
) -> FloatArray:
    """Return a per-layer probe's values, shape (layers,), from sums over each layer's tensors.

    Args:
        probe: the probe.
        measured: sums of the rows of the tensor axis.
        layers: which rows make up a layer.
        frozen: sums of the frozen parameters.
    """
    totals = []
    for rows, still in zip(layers.rows, layers.frozen, strict=True):
        totals.append(_sums(probe, measured, rows).sum(0) + _sums(probe, frozen, still).sum(0))
    values = _finite(probe.compute(*np.asarray(totals).T))
    return np.where(layers.complete, values, np.nan)


def frozen_sums(entries: Sequence[Frozen]) -> dict[Need, Tensor]:
    """Return the sums of parameters that do not move: zero for all but the weight itself and its size."""
    weights = torch.full((len(entries),), torch.nan, dtype=torch.float64)
    elements = weights.clone()
    for i, entry in enumerate(entries):
        # Decoded one at a time: a quantized model is small because its values are nowhere at once.
        values = entry.values()
        if values is not None:
            weights[i], elements[i] = squared_norms([values])[0].cpu(), values.numel()
    still = torch.zeros(len(entries), dtype=torch.float64)
    return dict.fromkeys(Need, still) | dict.fromkeys(_OF_WEIGHT, weights) | {Need.ELEMENTS: elements}


def unknown_updates(previous: PreviousWeights | None, inventory: Inventory) -> list[Unmeasured]:
    """Return the adapted weights whose update is not measured because a factor is only sampled."""
    if previous is None:
        return []
    place = {id(entry.parameter): i for i, entry in enumerate(inventory.stored)}
    sampled = [
        entry.info.name
        for entry in inventory.effective
        if any(previous.is_sampled(place[id(f)]) for a in entry.adapters for f in (a.a, a.b) if id(f) in place)
    ]
    if not sampled:
        return []
    why = "copies of their factors do not fit into record.copy_limit; raise it"
    return [Unmeasured(f"update of {len(sampled)} adapted weights", why)]


def _sums(probe: TensorProbe, measured: dict[Need, Tensor], rows: Iterable[int]) -> NDArray[np.float64]:
    """Return the additive sums of some rows, shape (rows, sums)."""
    sums = [probe.measure(Row(measured, row)) for row in rows]
    if not sums:
        width = len(probe.measure(Row({need: torch.zeros(1, dtype=torch.float64) for need in Need}, 0)))
        return np.zeros((0, width))
    return torch.stack([part for parts in sums for part in parts]).reshape(len(sums), -1).numpy()


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, np.nan)
