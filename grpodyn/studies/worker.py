"""One run of a sweep in a process of its own: `python -m grpodyn.studies.worker PARENT CORES record …`.

It is `grpodyn record` and nothing else, held to its cores, and it does not outlive the process that started it.
"""

from __future__ import annotations

import os
import signal
import sys

from grpodyn.training.parent import watch_parent


def _stop_with_a_checkpoint() -> None:
    # What was trained is kept: the next start of the sweep goes on from there.
    os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    """Run the command line that follows the parent's id and the cores."""
    parent, cores, *arguments = sys.argv[1:]
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    # What a shell starts in the background ignores Ctrl-C, and so would this: here it must always end the run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    watch_parent(int(parent), _stop_with_a_checkpoint)
    from grpodyn.cli.app import main as command_line  # noqa: PLC0415 - the cores are set before anything counts them

    sys.argv = ["grpodyn", *arguments]
    try:
        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
