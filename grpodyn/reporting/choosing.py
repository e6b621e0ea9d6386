"""Which notebooks have something to say about some runs."""

from __future__ import annotations

from collections.abc import Sequence

from grpodyn.ablation import results
from grpodyn.attribution import result
from grpodyn.evaluation import kept_losses
from grpodyn.evaluation.retention import DRIFT, PERPLEXITY, STAGE
from grpodyn.trace.reader import Run
from grpodyn.trace.stages import past

KINDS = ("convergence", "stages", "group_size", "layer_dynamics", "lora_advice", "forgetting")
"""Notebooks, in the order in which a report shows them."""


def choose(runs: Sequence[Run]) -> tuple[list[str], dict[str, str]]:
    """Return the kinds of notebooks to run, and why each of the others is left out.

    Stages are not missing where a run has none, so nothing is said of them then.
    """
    left_out = {
        kind: why
        for kind, why, holds in (
            ("group_size", "no run holds rollouts", any(run.rows["rollouts"] for run in runs)),
            ("layer_dynamics", "no run holds probes of tensors or layers", any(_moves(run) for run in runs)),
            ("lora_advice", "no run holds probes of tensors, a patch test or an ablation", any(map(_tests, runs))),
            ("forgetting", "no run measured anything beside its task", any(_kept(run) for run in runs)),
        )
        if not holds
    }
    silent = () if any(past(run.manifest.segments) for run in runs) else ("stages",)
    return [kind for kind in KINDS if kind not in left_out and kind not in silent], left_out


def _moves(run: Run) -> bool:
    return bool(run.rows["tensors"] or run.rows["layers"] or run.rows["spectra"])


def _tests(run: Run) -> bool:
    return bool(run.rows["tensors"]) or any((run.path / name).is_file() for name in (result.FILE, results.FILE))


def _kept(run: Run) -> bool:
    if (run.path / kept_losses.FILE).is_file():
        return True
    if not run.rows["evaluations"]:
        return False
    return any(str(name).startswith((PERPLEXITY, STAGE, DRIFT)) for name in run.evaluations["metric"].values)
