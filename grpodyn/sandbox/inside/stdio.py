"""The process of a program that reads standard input and prints: confined, then simply run."""

from __future__ import annotations

import os
import sys

from grpodyn.sandbox.inside.confine import confine
from grpodyn.sandbox.inside.wire import receive


def main() -> None:
    """Read the settings and the code from the file descriptor that the first argument names."""
    orders = int(sys.argv[1])
    settings = receive(orders, 1 << 24)
    code = receive(orders, 1 << 24)["code"]
    os.close(orders)
    confine(settings["limits"], settings["uid"])
    if settings.get("scratch"):
        os.chdir(settings["scratch"])
    sys.argv = ["completion"]
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(code, "<completion>", "exec", dont_inherit=True), space)
