"""Each kind of fault that people met in practice, and that recording must get right, has a test of its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KINDS = {
    "a11": "adapters whose factors stay zero",
    "a12": "gradients that are gone where a callback looks",
    "a13": "empty parameters of ZeRO-3",
    "a14": "flattened parameters of FSDP",
    "a15": "prefixes of wrappers in names",
    "a16": "updates that bf16 swallows",
    "a21": "hooks that fire again in the backward pass",
    "a24": "appends that get slower",
    "a25": "a first chunk that fixes tiny chunks",
    "a26": "two writers on one store",
    "a27": "half-written and garbled files",
    "a28": "readers of a live store",
    "a29": "stale consolidated metadata",
    "a30": "NaN in attributes",
    "a31": "stores of another format or version",
    "a32": "forked data-loader workers",
    "a33": "memory that grows while everything is watched",
    "a34": "NaN in a weight",
    "a35": "matrices in half precision",
    "a36": "decompositions that do not converge",
    "a37": "decompositions that take hours",
    "a44": "experts stored as one tensor",
    "a45": "tied embeddings",
    "a48": "names that two classes do not share",
    "a51": "views that drown in tensors and steps",
    "a52": "plotting without a display",
    "a53": "skills that training cost",
}


@pytest.fixture(scope="module")
def names() -> set[str]:
    found: set[str] = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        found |= set(re.findall(r"def (test_\w+)\(", path.read_text()))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_test_that_names_it(kind: str, names: set[str]) -> None:
    assert [name for name in names if name.startswith(f"test_{kind}_")], f"no test_{kind}_…: {KINDS[kind]}"
