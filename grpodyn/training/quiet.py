"""Turns off the progress bars and prints of other libraries: the display shows one run, once."""

from __future__ import annotations

import warnings

import datasets
import transformers


def silence_libraries() -> None:
    """Turn off bars and informational messages of transformers, datasets and TRL for the rest of the process.

    Errors still come through; so does everything that grpodyn itself logs.
    """
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    # Deprecations inside the libraries: nothing that someone who starts a run can act on.
    for category in (FutureWarning, DeprecationWarning, UserWarning):
        warnings.filterwarnings(
            "ignore", category=category, module=r"(transformers|trl|peft|accelerate|datasets|torch)\b"
        )
