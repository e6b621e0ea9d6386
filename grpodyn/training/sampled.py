"""Held-out accuracy by sampling, as a run config asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from grpodyn import rewards
from grpodyn.config.batching import TRL_DEFAULTS
from grpodyn.config.run import RunConfig
from grpodyn.evaluation.sampled import SampledAccuracy, Sampling, sampled_accuracy
from grpodyn.rewards import RewardContext, RewardFunction
from grpodyn.training import checks, data


@dataclass(frozen=True)
class SampledTest:
    """Prompts that are sampled and judged, always the same, from the same seed."""

    rows: Dataset
    judge: RewardFunction
    samples: int
    sampling: Sampling
    tokenizer: Any

    def measure(self, model: Any) -> SampledAccuracy:
        """Return what the model makes of them now."""
        columns = {name: self.rows[name] for name in self.rows.column_names if name != "prompt"}
        prompts = list(self.rows["prompt"])
        return sampled_accuracy(model, self.tokenizer, prompts, columns, self.judge, self.samples, self.sampling)


def sampled_test(config: RunConfig, tokenizer: Any) -> SampledTest | None:
    """Return the test that a run asks for, or None if its accuracy is exact, or not measured.

    Raises:
        ConfigError, UnknownNameError: the split or the reward is missing, a row lacks what the reward reads, or a
            prompt is too long.
    """
    evaluate = config.evaluate
    if evaluate is None or evaluate.samples is None or not evaluate.prompts:
        return None
    chosen = next(one for one in config.rewards if evaluate.judge in (None, one.recorded_as))
    longest = int(config.grpo.get("max_completion_length") or TRL_DEFAULTS["max_completion_length"])
    ends = () if tokenizer.eos_token_id is None else (int(tokenizer.eos_token_id),)
    sampling = Sampling(
        temperature=float(config.grpo.get("temperature", 1.0)),
        max_new_tokens=longest,
        batch_size=evaluate.batch_size,
        seed=config.seed,
        template=config.grpo.get("chat_template_kwargs"),
    )
    rows = data.held_out_rows(config.task, evaluate.split, evaluate.prompts)
    # Found now, and not by the first evaluation, when the run has begun.
    checks.check_columns(config.model_copy(update={"rewards": [chosen]}), rows)
    rows = checks.fitting(config, rows, tokenizer, "held-out prompts")
    return SampledTest(
        rows=rows,
        judge=rewards.reward(chosen.name, chosen.options, RewardContext(ends, longest), chosen.label),
        samples=evaluate.samples,
        sampling=sampling,
        tokenizer=tokenizer,
    )
