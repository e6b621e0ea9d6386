"""The contract of a probe: what it declares, and the pure functions that measure.

A probe never sees a model, an optimizer or a process group. The recorder hands it one tensor's `Sample` (for the
`tensors` and `layers` groups) or one tensor's singular values (for the `spectra` group), shares the work among probes
that need the same thing, and reduces over ranks.

A probe lives in `probes/<name>.py`; the file stem is its registered name, its array's name in the trace and its name on
the command line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from grpodyn.spectra.spectral_change import SpectralChange

FloatArray = NDArray[np.float64]


Cost = Literal["norm", "spectrum", "decomposition", "forward"]


class Need(StrEnum):
    """What a probe can ask the recorder for, of one tensor at one optimizer step."""

    GRADIENT = "gradient"
    """The accumulated gradient the optimizer is given, after clipping."""
    STEP = "step"
    """W_t − W_{t−1}, as stored."""
    INTENDED_STEP = "intended_step"
    """The optimizer's step before it is rounded to the storage dtype."""
    PREVIOUS_WEIGHT = "previous_weight"
    """W_{t−1} (W_0 of the base weight under LoRA)."""
    DELTA = "delta"
    """W_t − W_0."""
    BASE_WEIGHT = "base_weight"
    """W_0."""
    CHANGED_BY_STEP = "changed_by_step"
    """The elements whose stored bits the step changed: a count."""
    CHANGED_SINCE_START = "changed_since_start"
    """The elements with |w_t − w_0| > 10⁻³ max(|w_t|, |w_0|): a count."""
    ELEMENTS = "elements"
    """All elements: a count."""
    GRADIENT_SIGNAL = "gradient_signal"
    """E g over the steps since it was last measured; its squared norm is an unbiased estimate, and may be negative."""
    GRADIENT_NOISE = "gradient_noise"
    """g − E g over the same steps; its squared norm is the mean over them."""
    ACTIVATION_SHIFT = "activation_shift"
    """h − h_0, over the tokens of a few fixed prompts: a block's output now and before the first update."""
    START_ACTIVATION = "start_activation"
    """h_0."""


OF_WINDOW = frozenset({Need.GRADIENT_SIGNAL, Need.GRADIENT_NOISE})
"""Needs that are gathered at every step, whenever they are measured."""

COUNTS = frozenset({Need.CHANGED_BY_STEP, Need.CHANGED_SINCE_START, Need.ELEMENTS})
"""Needs that are counted, with `Sample.count`; of all others a sample gives the squared norm."""


class Sample(Protocol):
    """One tensor (one rank's shard of it) at one step, as the recorder offers it to probes."""

    def squared_norm(self, need: Need) -> torch.Tensor:
        """Return ‖·‖_F² of what `need` names as a 0-d float64 tensor; computed once however many probes ask."""
        ...

    def count(self, need: Need) -> torch.Tensor:
        """Return the number of elements that `need`, one of `COUNTS`, names as a 0-d float64 tensor.

        An estimate, and no whole number, where only some rows of the weight before the step are known.
        """
        ...


class Probe(ABC):
    """What every probe declares. Instances hold no state."""

    name: ClassVar[str]
    """Registered name; equals the file stem."""
    title: ClassVar[str]
    """One line for catalogues."""
    group: ClassVar[Literal["tensors", "layers", "spectra"]]
    """Group of the trace that its array lives in."""
    dims: ClassVar[tuple[str, ...]]
    """Named dimensions of its array, `row` first."""
    unit: ClassVar[str] = "1"
    """Unit; `"1"` is dimensionless."""
    dtype: ClassVar[str] = "float32"
    """Storage dtype."""
    cost: ClassVar[Cost]
    """Cost class: `norm` reads each element once; `spectrum` takes a matrix's singular values. `decomposition` takes
    singular vectors too, of two matrices, and `forward` runs the model: these are only measured where they are asked
    for."""
    needs: ClassVar[frozenset[Need]]
    """What the recorder must provide; it takes the union over all probes."""
    when: ClassVar[Literal["point", "ends"]] = "point"
    """Point in time at a cadence, or at the start and the end unless `record.every` asks for more."""
    reduction: ClassVar[Literal["sum", "whole"]]
    """Over ranks: `sum` adds the sums of `measure`; `whole` needs the full matrix in one place."""
    reference: ClassVar[str]
    """Paper and equation."""
    constants: ClassVar[Mapping[str, float]] = {}
    """Numbers that its definition leaves open, by name; they become attributes of its array."""


class TensorProbe(Probe):
    """A per-tensor or per-layer scalar made of additive sums.

    `measure` returns sums that may be added over shards of a tensor (and, for the `layers` group, over the tensors of a
    layer); `compute` turns the added sums into the value. A squared norm is thus reduced before the root is taken.
    """

    cost: ClassVar[Cost] = "norm"
    reduction = "sum"

    @abstractmethod
    def measure(self, sample: Sample) -> tuple[torch.Tensor, ...]:
        """Return the additive sums of one tensor, each a 0-d float64 tensor on the sample's device."""

    @abstractmethod
    def compute(self, *sums: FloatArray) -> FloatArray:
        """Return the values from the reduced sums, elementwise over arrays of shape (tensors,) or (layers,)."""


class ActivationProbe(TensorProbe):
    """A per-layer scalar made of sums over the tokens of a few fixed prompts."""

    group = "layers"
    cost = "forward"
    needs = frozenset({Need.ACTIVATION_SHIFT, Need.START_ACTIVATION})
    when = "ends"


class SpectralProbe(Probe):
    """A function of the singular values of the one matrix in `needs`: W_t − W_0, or W_t − W_{t−1}."""

    group = "spectra"
    cost = "spectrum"
    needs = frozenset({Need.DELTA})
    reduction = "whole"

    @abstractmethod
    def compute(self, singular_values: FloatArray) -> float | FloatArray:
        """Return the value from the singular values, shape (min(rows, cols),), descending, finite.

        A probe with a `k` dimension returns an array of any length; the recorder cuts or pads it (with nan) to `k`.
        """


class SpectralChangeProbe(Probe):
    """A function of the spectra of W_0 and W_t themselves."""

    group = "spectra"
    cost = "decomposition"
    needs = frozenset({Need.BASE_WEIGHT, Need.DELTA})
    when = "ends"
    reduction = "whole"

    @abstractmethod
    def compute(self, change: SpectralChange) -> float:
        """Return the value; nan where it is not defined."""
