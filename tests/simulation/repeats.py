"""How often a simulation is repeated: as often as tells right from wrong, or as often as a stated rate was shown.

`benchmarks/stated_rates.py` runs these tests with the full counts.
"""

from __future__ import annotations

import os

ALL = "GRPODYN_ALL_REPEATS"
"""Named in `benchmarks/stated_rates.py` too."""


def repeats(full: int, everyday: int) -> int:
    """Return how often to simulate: `everyday`, or `full` where the environment variable `ALL` is set."""
    return full if os.environ.get(ALL) else everyday
