"""Where arms moved: each layer's share of a run's displacement, and whether arms differ in it by more than seeds do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpodyn.arms.separation import Separation, adjusted, separation

if TYPE_CHECKING:
    from grpodyn.arms.arm import Arm
    from grpodyn.trace.reader import Run

PROBE = "layer_delta"


@dataclass(frozen=True)
class LayerShare:
    """One layer's share of Σ_l ‖W_t − W_0‖/‖W_0‖ at the end of each run, in two arms."""

    layer: str
    """Stack and index."""
    arm: str
    reference: str
    """The arm that `arm` is compared with."""
    mean: float
    """Of the arm's runs."""
    reference_mean: float
    separation: Separation


@dataclass(frozen=True)
class LayerComparison:
    """Where each arm moved, beside the first."""

    shares: tuple[LayerShare, ...]
    notes: tuple[str, ...]
    """What could not be compared, and the finding in words."""


def layer_shares(run: Run) -> dict[str, float]:
    """Return each layer's share of a run's relative displacement at its last record; empty where not recorded."""
    if not run.rows["layers"] or PROBE not in run.layers:
        return {}
    values = np.asarray(run.layers[PROBE].values, np.float64)
    whole = np.flatnonzero(np.isfinite(values).all(axis=1))
    if not whole.size or values[whole[-1]].sum() <= 0:
        return {}
    last = values[whole[-1]]
    stacks = run.layers["stack"].values if "stack" in run.layers.coords else [""] * len(last)
    pairs = zip(stacks, run.layers["layer"].values, strict=True)
    names = [f"{stack}.{layer}" if stack else str(layer) for stack, layer in pairs]
    return dict(zip(names, (last / last.sum()).tolist(), strict=True))


def compare_layers(arms: Sequence[Arm]) -> LayerComparison:
    """Return each layer's share in every arm beside the first, judged over seeds; p is adjusted over all of them."""
    held = [[layer_shares(run) for run in arm.runs] for arm in arms]
    lacking = [
        str(run.path)
        for arm, shares in zip(arms, held, strict=True)
        for run, share in zip(arm.runs, shares, strict=True)
        if not share
    ]
    if lacking:
        how = f"record the probe {PROBE} (`record.preset=standard`)"
        return LayerComparison((), (f"layers are not compared: {', '.join(lacking)} lack {PROBE}; {how}",))
    names = [set(share) for shares in held for share in shares]
    common = [name for name in held[0][0] if all(name in other for other in names)]
    if not common:
        return LayerComparison((), ("layers are not compared: the runs have no layer in common",))
    found = [
        _share(arms[0], held[0], arm, shares, name)
        for arm, shares in zip(arms[1:], held[1:], strict=True)
        for name in common
    ]
    family = adjusted([one.separation for one in found])
    judged = tuple(
        LayerShare(one.layer, one.arm, one.reference, one.mean, one.reference_mean, separated)
        for one, separated in zip(found, family, strict=True)
    )
    notes = (
        []
        if all(len(share) == len(common) for shares in held for share in shares)
        else [f"only the {len(common)} layers that all runs have are compared"]
    )
    return LayerComparison(judged, (*notes, *_in_words(judged)))


def _share(
    first: Arm, first_shares: Sequence[Mapping[str, float]], arm: Arm, shares: Sequence[Mapping[str, float]], name: str
) -> LayerShare:
    a, b = [share[name] for share in first_shares], [share[name] for share in shares]
    return LayerShare(name, arm.label, first.label, float(np.mean(b)), float(np.mean(a)), separation(a, b))


def _in_words(shares: Sequence[LayerShare]) -> list[str]:
    said = []
    for arm in dict.fromkeys(one.arm for one in shares):
        own = [one for one in shares if one.arm == arm]
        apart = [one for one in own if one.separation.separable]
        if apart:
            named = ", ".join(f"{one.layer} ({one.reference_mean:.3f} → {one.mean:.3f})" for one in apart)
            said.append(f"{arm} moves elsewhere than {own[0].reference}, in shares of displacement: {named}")
        else:
            most = max(own, key=lambda one: abs(one.separation.difference.value))
            said.append(
                f"{arm} and {own[0].reference} move alike as far as can be told: the largest difference of a layer's "
                f"share is {most.separation.difference.value:+.3f} ({most.layer}; {most.separation.verdict})"
            )
    return said
