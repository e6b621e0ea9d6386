"""Turns off the progress bars and prints of other libraries: the display shows one run, once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import datasets
from transformers.utils import logging

_LIBRARIES = r"(accelerate|datasets|peft|torch|transformers|trl)\b"


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Turn off bars, informational messages and internal warnings of transformers, datasets and TRL inside the block.

    Errors still come through; so does everything that grpodyn itself logs.
    """
    with ExitStack() as undo, warnings.catch_warnings():
        if not datasets.are_progress_bars_disabled():
            datasets.disable_progress_bars()
            undo.callback(datasets.enable_progress_bars)
        if logging.is_progress_bar_enabled():
            logging.disable_progress_bar()
            undo.callback(logging.enable_progress_bar)
        undo.callback(logging.set_verbosity, logging.get_verbosity())
        logging.set_verbosity_error()
        # Deprecations inside the libraries: nothing that someone who starts a run can act on.
        for category in (FutureWarning, DeprecationWarning, UserWarning):
            warnings.filterwarnings("ignore", category=category, module=_LIBRARIES)
        yield
