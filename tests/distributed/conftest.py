"""Trainings on several ranks, each started once: what they recorded is looked at by many tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launching import trained


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process: what all others are held against."""
    folder = tmp_path_factory.mktemp("alone")
    trained(folder, 1, "one", "one-lora")
    return folder


EVERY_DAY = ("fsdp2", "fsdp2-plain", "fsdp2-lora", "fsdp2-part")
ALL_OTHERS = (
    *("ddp", "ddp-plain", "fsdp1", "fsdp1-plain", "fsdp1-lora", "fsdp2-slowly", "fsdp2-mapped", "fsdp1-mapped"),
    *("fsdp2-before", "fsdp2-after", "fsdp2-first", "fsdp2-probe", "fsdp2-spectrum", "fsdp2-lora-factors"),
    *("fsdp2-saved", "fsdp2-lora-saved", "fsdp1-saved", "fsdp1-lora-saved", "ddp-saved"),
    *("zero3", "zero3-absent", "zero3-wrong", "zero3-saved"),
    # The last one: its ranks do not begin together.
    "fsdp2-alone",
)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """Two ranks, started once, in the ways that the chosen tests look at; and what was said."""
    folder = tmp_path_factory.mktemp("two")
    others = any("two_more" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return folder, trained(folder, 2, *EVERY_DAY, *(ALL_OTHERS if others else ()))


@pytest.fixture(scope="session")
def two(both: tuple[Path, str]) -> Path:
    """Two ranks, as far as everyday tests look."""
    return both[0]


@pytest.fixture(scope="session")
def two_more(both: tuple[Path, str]) -> tuple[Path, str]:
    """Two ranks in all other ways, and what was said."""
    return both
