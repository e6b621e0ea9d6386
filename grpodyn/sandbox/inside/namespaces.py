"""Walls without bubblewrap: own user, mount, network, process and IPC namespaces, made by the process itself."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Sequence
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 442, -100, 0x8000, 0x1, 0x2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, LAST_CAP = 1, 24, 64
HIDDEN = ("/root", "/home", "/var", "/run", "/mnt", "/media", "/srv", "/sys", "/boot")


class MountAttr(ctypes.Structure):
    """`struct mount_attr` of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def wall_in(scratch_bytes: int, needed: Sequence[str]) -> None:
    """Enter own namespaces with a read-only file system and an empty /tmp; return in a new process that is its first.

    Args:
        scratch_bytes: size of /tmp.
        needed: folders of the interpreter; what is hidden must not hide these.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()

    def check(result: int, what: str) -> None:
        if result:
            error = ctypes.get_errno()
            raise OSError(error, f"{what}: {os.strerror(error)}")

    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
    check(libc.unshare(flags), "unshare")
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"65534 {uid} 1")
    write("/proc/self/gid_map", f"65534 {gid} 1")
    guard(libc)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount / private")
    for folder in HIDDEN:
        if os.path.isdir(folder) and not any(place == folder or place.startswith(folder + "/") for place in needed):
            libc.mount(b"tmpfs", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, b"size=4096,mode=555")
    attributes = MountAttr(attr_set=MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID)
    where = (AT_FDCWD, b"/", AT_RECURSIVE)
    size_of = ctypes.sizeof(attributes)
    check(libc.syscall(SYS_MOUNT_SETATTR, *where, ctypes.byref(attributes), size_of), "mount_setattr")
    size = f"size={int(scratch_bytes)},mode=700".encode()
    check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", MS_NOSUID | MS_NODEV, size), "mount /tmp")
    check(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None), "mount /proc")
    write("/proc/sys/user/max_user_namespaces", "0")
    for capability in range(LAST_CAP):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    drop_capabilities(libc)


def guard(libc: Any) -> None:
    """End with the process that started this one, also when that is killed."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def drop_capabilities(libc: Any) -> None:
    """Give up every capability in the new user namespace."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    class Data(ctypes.Structure):
        _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]

    header, data = Header(0x20080522, 0), (Data * 2)()
    if libc.capset(ctypes.byref(header), ctypes.byref(data)):
        raise OSError(ctypes.get_errno(), "capset")


def write(path: str, text: str) -> None:
    """Write a kernel file."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
