"""Reads one optimizer step: squared norms and counts of all that the step's probes need, each computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from grpodyn.naming.inventory import Inventory
from grpodyn.naming.shards import Share, counts, local
from grpodyn.probe import OF_WINDOW, Need
from grpodyn.recording.adapter_changes import Value, changes, dense_change
from grpodyn.recording.gradient_moments import GradientMoments
from grpodyn.recording.optimizers import IntendedSteps
from grpodyn.recording.pieces import Batch, Piece, batches, by_device, differences, widened
from grpodyn.recording.previous import PreviousWeights
from grpodyn.recording.reference import Reference
from grpodyn.recording.step_rule import Part
from grpodyn.recording.sums import Sums
from grpodyn.recording.tracked import Tracked
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
        shares = [entry.share for entry in inventory.stored]
        self._batches = batches([local(parameter) for parameter in self._live])
        self.intended = IntendedSteps(optimizer)
        self.previous = PreviousWeights(self._live, copy_limit, shares) if needs & set(_OF_STEP) else None
        self.tracked = Tracked(inventory, reference, self.previous)
        self._copied = batches(self.previous.copies) if self.previous else []
        self._moments = GradientMoments(self._live, shares) if needs & OF_WINDOW else None
        self._base_squares: Tensor | None = None
        self._sums = Sums(self.rows)
        # Split factors are put together first, by whoever has all ranks at hand.
        here = [(place, e) for place, e in enumerate(inventory.effective) if not e.is_split]
        self._adapted_here = [(place, e) for place, e in here if not e.is_dense]
        self._dense_here = [(place, e) for place, e in here if e.is_dense]
        self.forms_dense = True
        """Whether updates that have no thin factors are formed at this step: each costs a product as large as W."""
        self.intended_factors: dict[int, Tensor] = {}
        """The last intended step of each factor of an adapter, by its id, as this rank holds it."""
        self.without_gradient: list[str] = []
        """Names of tensors that had no gradient at the last step that looked."""

    @property
    def rows(self) -> int:
        """Length of the tensor axis."""
        return len(self._inventory.infos)

    @property
    def split(self) -> Tensor:
        """Which rows are split among ranks: bool, shape (rows,)."""
        stored = [entry.share is not None for entry in self._inventory.stored]
        adapted = [entry.is_split or entry.base_share is not None for entry in self._inventory.effective]
        return torch.tensor(stored + adapted, dtype=torch.bool)

    def counted(self, need: Need, *, is_first: bool) -> Tensor:
        """Return the rows that this rank's sums count for, among those of all ranks: bool, shape (rows,).

        Args:
            need: what was measured.
            is_first: whether this is the rank that counts what every rank holds whole.
        """
        tensors: list[tuple[Share | None, Tensor]] = [(e.share, e.parameter) for e in self._inventory.stored]
        # Of an adapted weight the ranks add nothing but the norm of the frozen weight.
        tensors += [(e.base_share if need in _OF_WEIGHT else None, e.base_weight) for e in self._inventory.effective]
        return torch.tensor([is_first if s is None else counts(s, tensor) for s, tensor in tensors], dtype=torch.bool)

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
        self._sums, self.intended_factors = Sums(self.rows), {}
        if Need.GRADIENT in wanted:
            self._gradients()
        if Need.PREVIOUS_WEIGHT in wanted:
            known = [piece.index for batch in self._batches for piece in batch if not piece.start]
            for whole in by_device(known, self._live):
                self._sums.add(Need.PREVIOUS_WEIGHT, whole, squared_norms([local(self._live[i]) for i in whole]))
        if self.previous is not None and wanted & set(_OF_STEP):
            self.previous.take()

    @torch.no_grad()
    def after_step(self, needs: Iterable[Need]) -> dict[Need, Tensor]:
        """Read what the step did; return the sums of the whole step, float64 of shape (rows,) by need.

        nan stands where something could not be measured.
        """
        wanted = set(needs)
        self.tracked.knows_step = self.previous is not None and bool(wanted & set(_OF_STEP))
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
            if Need.PREVIOUS_WEIGHT in wanted & sums.keys():
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
        self._sums, self.forms_dense = Sums(self.rows), True
        return self._measure(set(OF_DISPLACEMENT & set(needs)))

    @property
    def measured(self) -> dict[Need, set[int]]:
        """Rows that the last step measured, by need."""
        return {need: self._sums.measured(need) for need in Need}

    @property
    def _elements(self) -> Tensor:
        sizes = [info.rows * info.cols * info.matrices for info in self._inventory.infos]
        return torch.tensor(sizes, dtype=torch.float64)

    @property
    def _adapted(self) -> slice:
        return slice(len(self._live), self.rows)

    def _leave_out_lost(self) -> None:
        changed = self.tracked.leave_out_lost()
        if changed:
            self._batches = _without(self._batches, changed)
            self._copied = _without(self._copied, changed)

    def _add(self, need: Need, batch: Batch, values: list[Tensor]) -> None:
        self._sums.add(need, [piece.index for piece in batch], squared_norms(values))

    def _gradients(self) -> None:
        without = [entry for entry in self._inventory.stored if entry.parameter.grad is None]
        self.without_gradient = [e.info.name for e in without if e.share is None or counts(e.share, e.parameter)]
        gradients = [_values(parameter.grad) for parameter in self._live]
        there = [i for i, gradient in enumerate(gradients) if gradient is not None]
        for whole in by_device(there, gradients):
            found = [gradient for i in whole if (gradient := gradients[i]) is not None]
            self._sums.add(Need.GRADIENT, whole, squared_norms(found))

    def _steps(self, previous: PreviousWeights, wanted: set[Need]) -> None:
        norms, counts = Need.STEP in wanted, Need.CHANGED_BY_STEP in wanted
        for batch in self._copied if norms or counts else ():
            after = [previous.matching(piece, self._live[piece.index]) for piece in batch]
            before = [piece.of(previous.copies[piece.index]) for piece in batch]
            if norms:
                self._add_scaled(Need.STEP, batch, squared_norms(differences(after, before)), previous)
            if counts:
                self._add_scaled(Need.CHANGED_BY_STEP, batch, changed_bits(after, before), previous)
        if norms:
            self._add_adapted(Need.STEP, lambda factor: factor.detach(), self.tracked.copy_of)

    def _intended_steps(self, previous: PreviousWeights) -> None:
        self.intended.refresh()
        dense: dict[int, Tensor] = {}
        factors = {id(f) for entry in self._inventory.effective for a in entry.adapters for f in a.trained}
        for batch in self._copied:
            parts = [self._part(previous, piece) for piece in batch]
            steps = self.intended.steps(parts)
            told = [i for i, part in enumerate(parts) if id(part.parameter) not in self.intended.unknown]
            if told:
                pieces, known = [batch[i] for i in told], [steps[i] for i in told]
                self._add_scaled(Need.INTENDED_STEP, pieces, squared_norms(known), previous)
            for i in told:
                piece, step, key = batch[i], steps[i], id(parts[i].parameter)
                if key in factors:
                    dense[key] = step if piece.start == 0 else torch.cat([dense[key], step])
        self.intended_factors = dense
        before = self.tracked.copy_of

        def after(factor: nn.Parameter) -> Tensor | None:
            start, step = before(factor), dense.get(id(factor))
            return None if start is None or step is None else start.double() + step.double()

        self._add_adapted(Need.INTENDED_STEP, after, before)

    def _part(self, previous: PreviousWeights, piece: Piece) -> Part:
        def select(tensor: Tensor) -> Tensor:
            return previous.matching(piece, tensor)

        return Part(self._live[piece.index], select, piece.of(previous.copies[piece.index]))

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
            self._add_adapted(Need.DELTA, lambda factor: factor.detach(), self.tracked.start_of)

    def _add_scaled(self, need: Need, batch: Batch, sums: Tensor, previous: PreviousWeights) -> None:
        if any(previous.is_sampled(piece.index) for piece in batch):
            scales = torch.tensor([previous.scale(piece.index) for piece in batch], dtype=torch.float64)
            sums = sums * scales.to(sums.device)
        self._sums.add(need, [piece.index for piece in batch], sums)

    def _add_adapted(self, need: Need, after: Value, before: Value) -> None:
        found = changes([entry for _, entry in self._adapted_here], after, before)
        if found.places:
            rows = [len(self._live) + self._adapted_here[place][0] for place in found.places]
            self._sums.add(need, rows, found.squares)
        for place, entry in self._dense_here if self.forms_dense else ():
            formed = dense_change(entry, after, before)
            if formed is not None:
                self._sums.add(need, [len(self._live) + place], squared_norms([formed]))

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


def _values(gradient: Tensor | None) -> Tensor | None:
    """Return what a norm is taken of: all of a gradient that is here, or the values that a sparse one stores."""
    gradient = None if gradient is None else local(gradient)
    return gradient.coalesce().values() if gradient is not None and gradient.is_sparse else gradient


def _without(lists: Sequence[Batch], indices: set[int]) -> list[Batch]:
    left = ([piece for piece in batch if piece.index not in indices] for batch in lists)
    return [batch for batch in left if batch]
