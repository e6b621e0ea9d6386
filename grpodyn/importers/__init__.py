"""Other people's logs and checkpoints as runs: read, understood, written into an ordinary run directory.

`read_log` turns a file into rows under the producer's own keys, `understand` gives known keys their canonical name and
tells segments, repeats and several runs in one file apart, `write_log` makes a run of it. Nothing is executed or
unpickled.
"""

from grpodyn.importers.history import History, understand
from grpodyn.importers.read import read_log

__all__ = ["History", "read_log", "understand"]
