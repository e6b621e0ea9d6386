"""How many threads of torch the recorder's own arithmetic uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work on this thread alone inside the block.

    What is read here is bound by memory, and much of it is small: helper threads would spend more time waiting for each
    other than they save (on a model of a million parameters, ten times the CPU seconds).
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
