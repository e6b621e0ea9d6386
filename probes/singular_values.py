"""The leading singular values themselves, for rank rules that nobody has thought of yet."""

from __future__ import annotations

from grpodyn.probe import FloatArray, SpectralProbe


class SingularValues(SpectralProbe):
    """Leading singular values of W_t − W_0."""

    name = "singular_values"
    title = "Leading singular values of W_t − W_0"
    dims = ("row", "tensor", "k")
    reference = "σ_i of W_t − W_0 = UΣVᵀ; Golub & Van Loan 2013 (Matrix Computations), theorem 2.4.1"

    def compute(self, singular_values: FloatArray) -> FloatArray:
        """Return the values, unit 1, descending; the recorder keeps the first k."""
        return singular_values
