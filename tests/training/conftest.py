from __future__ import annotations

from collections.abc import Iterator

import pytest

from grpodyn.training.quiet import quiet_libraries


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Run as `record` does: deprecations inside transformers and TRL are not ours to mend."""
    with quiet_libraries():
        yield
