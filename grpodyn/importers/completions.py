"""Parquet files of scored completions, as TRL (`log_completions`) and this package write them: groups and rewards."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpodyn.errors import UnreadableError
from grpodyn.importers.log import Batch, Log

if TYPE_CHECKING:
    import pandas as pd

_BESIDE = frozenset({"step", "prompt", "completion", "advantage", "advantages", "reward", "prompt_id", "generation"})
_NOT_REWARDS = frozenset({"length", "terminated", "answer"})


def read(paths: list[Path]) -> Log:
    """Return the groups in parquet files of completions.

    Raises:
        UnreadableError: a file is no parquet, lacks what makes a group, or the reader is not installed.
    """
    import pandas as pd  # noqa: PLC0415  # most logs are no parquet, and it takes half a second

    try:
        frame = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
    except ImportError as error:
        raise UnreadableError(f"reading {paths[0]} needs pyarrow: pip install pyarrow") from error
    except (ValueError, OSError) as error:
        raise UnreadableError(f"{paths[0]} is no readable parquet file ({error})") from error
    if not {"step", "prompt"} <= set(frame.columns):
        raise UnreadableError(
            f"{paths[0]} has the columns {', '.join(map(str, frame.columns))}; expected completions with step, prompt "
            "and rewards"
        )
    functions = [
        str(name)
        for name in frame.columns
        if name not in _BESIDE | _NOT_REWARDS and pd.api.types.is_numeric_dtype(frame[name])
    ]
    left_out = {str(n): "text" for n in frame.columns if n not in _BESIDE and str(n) not in functions}
    batches, notes = [], []
    for step, rows in frame.groupby("step", sort=True):
        batch = _batch(int(str(step)), rows, functions)
        if batch is None:
            notes.append(f"step {step}: prompts have different numbers of completions; left out")
        else:
            batches.append(batch)
    if not batches:
        raise UnreadableError(f"{paths[0]}: no step holds whole groups of completions with a reward")
    return Log("completions (parquet)", (), {}, tuple(notes), left_out, tuple(batches), tuple(functions), "step")


def _batch(step: int, rows: pd.DataFrame, functions: list[str]) -> Batch | None:
    prompts = rows["prompt"].astype(str).to_numpy()
    new = np.r_[True, prompts[1:] != prompts[:-1]]
    starts = np.flatnonzero(new)
    sizes = np.diff(np.r_[starts, len(prompts)])
    group = int(np.gcd.reduce(sizes))
    # The same prompt twice in a row is two groups.
    if group < 2 or (len(set(sizes.tolist())) > 1 and group != int(sizes.min())):
        return None
    shape = (len(prompts) // group, group)
    parts = rows[functions].to_numpy(np.float64).reshape(*shape, len(functions))
    if "reward" in rows:
        reward = rows["reward"].to_numpy(np.float64).reshape(shape)
    elif functions:
        # TRL skips a function that returned None for a completion; so does the sum.
        reward = np.where(np.isnan(parts).all(axis=-1), np.nan, np.nansum(parts, axis=-1))
    else:
        return None
    advantage = np.full(shape, np.nan)
    for name in ("advantage", "advantages"):
        if name in rows:
            advantage = rows[name].to_numpy(np.float64).reshape(shape)
    codes = np.array([int.from_bytes(sha256(text.encode()).digest()[:7]) for text in prompts[::group]], dtype=np.int64)
    return Batch(step, codes, reward, advantage, parts)
