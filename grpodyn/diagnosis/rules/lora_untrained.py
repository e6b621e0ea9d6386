"""Factors of the adapter have not moved."""

from __future__ import annotations

import numpy as np

from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

_SHOWN = 4


class LoraUntrained(Rule):
    """Factors of the adapter have not moved."""

    id = "lora_untrained"
    title = "The adapter does not train"
    meaning = (
        "B starts at zero, so that an adapter whose B is still zero after steps with a learning rate has done "
        "nothing. At step 0, and while a warm-up holds the rate at 0, a zero B is as it should be."
    )
    change = "Let gradients through: non-re-entrant checkpointing, or `enable_input_require_grads` before training."
    may_be = (
        "a learning rate of 0 (warm-up)",
        "groups without spread: no gradient for anything",
        "factors read sharded",
    )
    config_key = "grpo.gradient_checkpointing_kwargs"
    reference = "PEFT issue 1402, TRL issues 3089 and 2671: re-entrant checkpointing over frozen embeddings"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if not seen.trains_adapter:
            return "no adapter is trained"
        if seen.tensors is None or not len(self._factors(seen)):
            return "the factors of the adapter are not recorded, or could not be read (sharded)"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        tensors, places = seen.tensors, self._factors(seen)
        rate = seen.series("learning_rate")
        worked = bool((rate.values > 0).any()) if len(rate) else True
        if tensors is None or not worked or int(tensors.steps.max()) < 2:
            return None
        probe = "delta_norm" if "delta_norm" in tensors.probes else "update_norm"
        moved = tensors.last(probe, places)
        if probe == "update_norm":
            total = np.nansum(tensors.probes[probe][:, places], axis=0)
            moved = np.where(np.isfinite(tensors.probes[probe][:, places]).any(axis=0), total, np.nan)
        still = places[moved == 0]
        if not len(still):
            return None
        dead = seen.dead
        if len(dead) and float(dead.values.min()) >= 1:
            # Nothing at all was there to learn: that is another finding, and none of the adapter's.
            return None
        names = [tensors.names[i] for i in still]
        gradient = tensors.last("grad_norm", still)
        if np.isnan(gradient).all():
            why = "no gradient reached them"
        elif (np.nan_to_num(gradient) == 0).all():
            why = "their gradient is exactly 0"
        else:
            why = "they have a gradient and were not updated: are they in the optimizer?"
        listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        every = len(still) == len(places)
        return self.found(
            "critical" if every else "warning",
            1,
            f"{len(still)} of {len(places)} factors B are exactly where they began after step "
            f"{int(tensors.steps.max())}: {listed}",
            why,
            patch={"grpo": {"gradient_checkpointing_kwargs": {"use_reentrant": False}}},
            figures={"still": float(len(still)), "factors": float(len(places))},
        )

    def _factors(self, seen: Observations) -> np.ndarray:
        if seen.tensors is None:
            return np.array([], dtype=np.intp)
        places = seen.tensors.where("factor")
        return np.array([i for i in places if ".lora_B" in seen.tensors.names[i]], dtype=np.intp)
