"""Weights turn as they do under supervised fine-tuning."""

from __future__ import annotations

import math

import numpy as np

from grpodyn.diagnosis import patches
from grpodyn.diagnosis.finding import Finding
from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import Rule

SHIFT = 3e-4
"""Normalised spectral shift between reinforcement learning's 1e-5 and supervised fine-tuning's 1e-3."""
ANGLE = math.radians(5)
"""Largest principal angle between 0.5 and 10 degrees."""
LARGE = 1_000_000_000


class SftLikeDrift(Rule):
    """Weights turn as they do under supervised fine-tuning."""

    id = "sft_like_drift"
    title = "The weights' geometry changes as under supervised fine-tuning"
    meaning = (
        "Under reinforcement learning the singular values and leading directions of large models hardly change; a "
        "run that turns them as supervised fine-tuning does has left that regime, mostly by too large steps."
    )
    change = "Lower the learning rate; check what the model has forgotten."
    may_be = ("a small model, float32 weights or an adapter: the known ranges do not hold there",)
    config_key = "grpo.learning_rate"
    reference = "Zhu et al. 2025 (arXiv 2511.08567): NSS 1e-5 and angles under 0.5° against 1e-3 and over 10°"

    def missing(self, seen: Observations) -> str | None:
        """Return what is not there."""
        if seen.trains_adapter or seen.dtype != "bfloat16" or (seen.parameters or 0) < LARGE:
            return "the ranges known hold for full training of at least 1B parameters in bf16 only"
        if seen.spectra is None or not {"spectral_shift", "principal_angle"} <= set(seen.spectra.probes):
            return "spectral_shift and principal_angle are not recorded (preset `full`, or on request)"
        return None

    def check(self, seen: Observations) -> Finding | None:
        """Return the finding."""
        spectra = seen.spectra
        if spectra is None:
            return None
        places = spectra.where("full", "linear")
        shift, angle = (spectra.last(name, places) for name in ("spectral_shift", "principal_angle"))
        if not (np.isfinite(shift).any() and np.isfinite(angle).any()):
            return None
        moved, turned = float(np.nanmedian(shift)), float(np.nanmedian(angle))
        if moved < SHIFT or turned < ANGLE:
            return None
        return self.found(
            "warning",
            int(spectra.steps[-1]),
            f"the singular values shifted by {moved:.1e} and the leading directions turned by "
            f"{math.degrees(turned):.0f}°, medians over {len(places)} matrices; RL is known for 1e-5 and under "
            "0.5°, fine-tuning for 1e-3 and over 10°",
            patch=patches.rate(seen, 1 / 3),
            figures={"spectral_shift": moved, "angle_degrees": math.degrees(turned)},
        )
