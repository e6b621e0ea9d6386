"""The first thing that runs inside: gives up what the process may do, for good, before it reads any foreign code."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Mapping

PR_SET_NO_NEW_PRIVS = 38


def confine(limits: Mapping[str, float], uid: int | None) -> None:
    """Set resource limits, become the ordinary user `uid` (None: stay), and never gain a privilege again."""
    caps = {
        resource.RLIMIT_CPU: int(limits["cpu_seconds"]),
        resource.RLIMIT_AS: int(limits["memory_bytes"]),
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_CORE: 0,
    }
    for which, cap in caps.items():
        resource.setrlimit(which, (cap, cap))
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # After the change of user: the kernel counts processes by user, and the counts of root have no limit.
    count = int(limits["processes"])
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs could not be set")
    os.umask(0o077)
