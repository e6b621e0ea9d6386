"""What lies in a run's directory beside its trace, as functions of the run that a page can show."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from grpodyn.ablation import results
from grpodyn.ablation.results import Ablation
from grpodyn.attribution import result
from grpodyn.attribution.result import Attribution
from grpodyn.errors import MissingDataError
from grpodyn.trace.overview import Overview, overview

if TYPE_CHECKING:
    from grpodyn.lora.advice import Advice
    from grpodyn.trace.reader import Run


def held(run: Run) -> Overview:
    """Return what a run holds, whole or not."""
    return overview(run)


def attribution(run: Run) -> Attribution:
    """Return the patch test of a run.

    Raises:
        MissingDataError: there is none; the message names the command that makes it.
        SchemaError: it is damaged or of another version.
    """
    path = run.path / result.FILE
    if not path.is_file():
        raise MissingDataError(
            f"where {run.path.name} stores what it learned was not tested; `grpodyn attribute {run.path}` tests it"
        )
    return result.read(path)


def ablation(run: Run) -> Ablation:
    """Return the ablation of a run.

    Raises:
        MissingDataError: there is none; the message names the command that makes it.
        SchemaError: it is damaged or of another version.
    """
    if not (run.path / results.FILE).is_file():
        raise MissingDataError(
            f"no adapters were trained against each other for {run.path.name}; `grpodyn ablate {run.path}` does it"
        )
    return results.load(run.path)


def advice(run: Run) -> Advice:
    """Return which adapter to train next, checked with PEFT.

    Raises:
        MissingDataError: PEFT is not installed, or the run lacks what advice rests on.
        AdviceError: the model's twin cannot be built.
    """
    run.require("delta_norm")
    try:
        with warnings.catch_warnings():
            # PEFT's progress bars miss a package for notebooks; advice shows none of them.
            warnings.filterwarnings("ignore", message="IProgress not found")
            from grpodyn.lora.advice import advise  # noqa: PLC0415  # torch, which reading a run must not need
            from grpodyn.lora.policy import Options  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingDataError(
            f"advice is checked with PEFT, and {error.name!r} is not installed: pip install 'grpodyn[train]'"
        ) from error
    return advise(run, Options())
