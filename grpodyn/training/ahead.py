"""Checks the stages that come later before the first one is trained: what is wrong with the last is said at once."""

from __future__ import annotations

from typing import Any

from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError
from grpodyn.training import checks, data
from grpodyn.training.legs import Leg, legs


def check_later_stages(config: RunConfig, begun: Leg, tokenizer: Any) -> None:
    """Check the data of every later stage of GRPO: columns, length of prompts, the split of its tests.

    Raises:
        ConfigError: naming the stage that could not be trained.
    """
    for leg in legs(config):
        if leg.number <= begun.number or leg.kind != "grpo":
            continue
        staged = config.model_copy(update={"task": leg.task})
        try:
            prompts = data.train_prompts(leg.task)
            checks.check_columns(staged, prompts)
            checks.fitting(staged, prompts, tokenizer)
            if leg.in_curriculum and config.curriculum is not None:
                data.held_out(leg.task, config.curriculum.split, config.curriculum.items)
        except ConfigError as error:
            raise ConfigError(f"stage {leg.name}, which is to come later: {error}") from error
