"""Schema v1 of a trace: groups, arrays, dimensions and chunks. `docs/trace-schema.md` is the page for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = 1

STORE = "trace.zarr"
MANIFEST = "run.json"
COMMIT = "commit.json"
EVENTS = "events.jsonl"
LOCK = "writer.lock"

CHUNK_ROWS = 512
"""Rows of a chunk, from the first write: a chunk that starts small stays small for ever."""
MAX_CHUNK_CELLS = 4 * 1024 * 1024
"""Cells of a chunk at most, so that one chunk fits in memory for arrays with three or four dimensions."""

GROUPS = ("metrics", "tensors", "layers", "spectra", "rollouts", "evaluations")


@dataclass(frozen=True)
class TensorInfo:
    """One entry of the `tensor` axis: a parameter (or the effective update of one adapted module)."""

    name: str
    """Canonical name."""
    layer: int
    """Index of its layer; −1 for none."""
    module: str
    """`q_proj`, `embed_tokens`, `input_layernorm` …"""
    stack: str
    """Stack of layers it belongs to, such as `model.layers`; empty for none."""
    kind: str
    """`linear`, `embedding`, `norm`, `head`, `bias`, `conv`, `router`, `expert`, `ssm`, `sink`, `lora_factor` or
    `other`."""
    rows: int
    cols: int
    """Shape of one matrix as stored; a vector is (n, 1)."""
    dtype: str
    trainable: bool
    source: str
    """`full`, `lora` (an effective ΔW) or `factor`."""
    matrices: int = 1
    """Matrices in the tensor: more than one where experts are stored as a stack."""
    layout: str = ""
    """`out_in`, `in_out`, `in_out_interleaved` (gate and up columns alternate), or empty."""


@dataclass(frozen=True)
class ArraySpec:
    """One array of a group: its dimensions (`row` first), storage dtype, unit and attributes."""

    dims: tuple[str, ...]
    dtype: str = "float32"
    unit: str = "1"
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fill(self) -> float | int:
        """What an absent value reads as: nan, or −1 in integer arrays."""
        return math.nan if self.dtype.startswith("float") else -1


# What a group always holds beside the arrays that are declared for it.
ROW_ARRAYS: Mapping[str, ArraySpec] = {
    "step": ArraySpec(("row",), "int64", "optimizer step"),
    "segment": ArraySpec(("row",), "int32", "1"),
}
_PER_GENERATION = ("row", "prompt", "generation")
FIXED_ARRAYS: Mapping[str, Mapping[str, ArraySpec]] = {
    "metrics": {
        "time": ArraySpec(("row",), "float64", "second since 1970-01-01 UTC"),
        "values": ArraySpec(("row", "metric"), "float64"),
    },
    "evaluations": {"values": ArraySpec(("row", "metric"), "float64")},
    "spectra": {"measured_step": ArraySpec(("row", "tensor"), "int64", "optimizer step")},
    "rollouts": {
        "prompt_id": ArraySpec(("row", "prompt"), "int64"),
        "reward": ArraySpec(_PER_GENERATION, "float64"),
        "length": ArraySpec(_PER_GENERATION, "float32", "token"),
        "terminated": ArraySpec(_PER_GENERATION, "float32"),
        "advantage": ArraySpec(_PER_GENERATION, "float64"),
        "rewards": ArraySpec((*_PER_GENERATION, "reward_function"), "float64"),
    },
}

# Labels of the axes that have names: coordinate -> storage dtype ("string" is variable-length).
AXIS_COORDS: Mapping[str, Mapping[str, str]] = {
    "metric": {"metric": "string"},
    "reward_function": {"reward_function": "string"},
    "layer": {"layer": "int64", "stack": "string"},
    "tensor": {
        "tensor": "string",
        "layer": "int64",
        "module": "string",
        "stack": "string",
        "kind": "string",
        "rows": "int64",
        "cols": "int64",
        "dtype": "string",
        "trainable": "bool",
        "source": "string",
        # Not in traces of the first days; `open_run` leaves out what is not stored.
        "matrices": "int64",
        "layout": "string",
    },
}
GROUP_AXES: Mapping[str, str] = {
    "metrics": "metric",
    "evaluations": "metric",
    "tensors": "tensor",
    "spectra": "tensor",
    "layers": "layer",
    "rollouts": "reward_function",
}
_AXIS_BLOCKS = {"metric": 64, "tensor": 64, "layer": 16}


def axis_capacity(dim: str, size: int) -> int:
    """Return the stored length of a dimension that holds `size` entries: named axes grow in blocks.

    >>> axis_capacity("metric", 3), axis_capacity("tensor", 400), axis_capacity("generation", 8)
    (64, 448, 8)
    """
    block = _AXIS_BLOCKS.get(dim, 1)
    return max(block, -(-size // block) * block)


def row_capacity(rows: int) -> int:
    """Return the stored length of the row dimension: whole chunks."""
    return max(1, -(-rows // CHUNK_ROWS)) * CHUNK_ROWS


def chunk_shape(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunk of an array whose dimensions after `row` have the stored lengths `sizes`.

    >>> chunk_shape((448,)), chunk_shape((3008, 16))
    ((512, 448), (512, 512, 16))
    """
    if not sizes:
        return (CHUNK_ROWS,)
    rest = math.prod(sizes[1:])
    return (CHUNK_ROWS, min(sizes[0], max(1, MAX_CHUNK_CELLS // (CHUNK_ROWS * rest))), *sizes[1:])
