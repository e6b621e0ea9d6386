"""What the base reaches when it is only made as sure as a trained model is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grpodyn.evaluation import exact_accuracy
from grpodyn.evaluation.skill_gain import HIGHEST, LOWEST
from grpodyn.evaluation.token_entropy import token_entropy
from grpodyn.tasks import Examples

_POINTS = 25
_SAMPLES = 2


class CooledBase:
    """The base's entropy over temperatures, measured once; any trained model is then matched by interpolation."""

    def __init__(self, model: Any, tokenizer: Any, prompts: tuple[str, ...], max_new_tokens: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._tokens = max_new_tokens
        self._log_temperatures = np.linspace(math.log(LOWEST), math.log(HIGHEST), _POINTS)
        entropies = [self._entropy(model, math.exp(t)) for t in self._log_temperatures]
        # Sampling noise must not make the curve turn back, or it could not be inverted.
        self._entropies = np.maximum.accumulate(np.array(entropies))

    def skill_gain(self, trained: Any, accuracy: float, examples: Examples) -> float:
        """Return a trained model's accuracy at T=1 minus the base's, at the temperature of the same mean entropy."""
        wanted = self._entropy(trained, 1.0)
        temperature = math.exp(float(np.interp(wanted, self._entropies, self._log_temperatures)))
        cooled = exact_accuracy(self._model, self._tokenizer, examples.prompts, examples.answers, temperature)
        return accuracy - cooled

    def _entropy(self, model: Any, temperature: float) -> float:
        return token_entropy(
            model, self._tokenizer, self._prompts, temperature, max_new_tokens=self._tokens, samples=_SAMPLES
        )
