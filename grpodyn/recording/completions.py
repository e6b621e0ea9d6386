"""Sampled prompts and completions as parquet files, on request."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from grpodyn.recording.rollouts import Rollouts


class CompletionFiles:
    """Writes `completions/step_<step>_<batch>.parquet` for every so many generation batches.

    Args:
        run_dir: the run.
        every: generation batches from one file to the next; 0 writes none.
    """

    def __init__(self, run_dir: Path, every: int) -> None:
        self._folder = run_dir / "completions"
        self._every = every
        self._batches = 0

    def save(self, step: int, batch: Rollouts) -> None:
        """Write a generation batch, if it is its turn.

        Raises:
            OSError: the disk is full or gone.
        """
        self._batches += 1
        if not self._every or (self._batches - 1) % self._every:
            return
        self._folder.mkdir(exist_ok=True)
        prompt_ids = batch.prompt_ids().repeat(batch.generations)
        frame = pd.DataFrame(
            {
                "step": step,
                "prompt_id": prompt_ids,
                "generation": [i % batch.generations for i in range(len(batch.prompts))],
                "prompt": [str(prompt) for prompt in batch.prompts],
                "completion": [str(completion) for completion in batch.completions],
                "reward": batch.reward,
                "advantage": batch.advantage,
                "length": batch.length,
                "terminated": batch.terminated,
            }
        )
        frame.to_parquet(self._folder / f"step_{step:08d}_{self._batches:06d}.parquet", index=False)
