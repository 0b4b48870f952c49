"""What a child process does to itself before a handler's code runs: it gives up whatever the handler need not
have. Linux only, by the kernel's own calls; nothing here needs root, and what root could do more is done when
we have it.

The order matters. Namespaces and the change of user come before the capabilities go, which both need; the
signal for the parent's death comes after them, since a change of user clears it; the limits come last, so
that none of this runs into them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import resource
import signal
from collections.abc import Collection
from pathlib import Path

from shardwheel.errors import UsageError
from shardwheel.isolation import Limits

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CAPABILITY_VERSION_3 = 0x20080522
MIB = 1024 * 1024
# Above the handler's own limit, to tell of its MemoryError in.
RESERVE_MIB = 32
# Between SIGXCPU, which can be caught, and SIGKILL.
CPU_GRACE_S = 1

_libc = ctypes.CDLL(None, use_errno=True)


def confine(limits: Limits, user: str, *, parent: int, fenced: bool) -> None:
    """Take from this process, which is its session's first, what the limits do not grant. `fenced`: this
    system lets us have a network of our own; should it now refuse, so does this."""
    separated = limits.network or not fenced or _try_unshare(CLONE_NEWNET)
    become(user)
    if not separated:
        _separate_as_user()
    # From here on nobody of the same user, another attempt say, may read its memory or attach to it.
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    die_with(parent)
    _limit(limits)


def can_separate(user: str) -> str:
    """Try in this process what `confine` does for the network; "" if the system allows it, else why not."""
    if _try_unshare(CLONE_NEWNET):
        return ""
    try:
        become(user)
        _separate_as_user()
    except OSError as error:
        return f"unshare: {error.strerror}"
    return ""


def become(user: str) -> None:
    """Another user for good, with its own groups only; "" stays who it is."""
    if not user:
        return
    entry = user_entry(user)
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    # The kernel takes /proc/self from a process that changed its user, and a namespace of its own needs that.
    prctl(PR_SET_DUMPABLE, 1)


def user_entry(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise UsageError(f"isolated_user: there is no user {user!r} here", field="isolated_user") from None


def die_with(parent: int) -> None:
    """SIGKILL when the parent ends, or now if it has ended already."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def keep_only(descriptors: Collection[int], own: Collection[int] = ()) -> None:
    """Leave no inherited file open but these. `own` are closed; what the handler's module may have opened
    as it was imported becomes /dev/null instead: its number stays taken, so that no later file is written
    to by whoever remembers it."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in _open_descriptors():
        if descriptor in own:
            os.close(descriptor)
        elif descriptor > 2 and descriptor not in descriptors and descriptor != null:
            with contextlib.suppress(OSError):  # The listing's own is closed by now.
                os.fstat(descriptor)
                os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), "prctl")


def raise_memory_limit() -> None:
    """Let this process use its reserve: the handler has ended, for want of memory."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _open_descriptors() -> list[int]:
    return [int(path.name) for path in Path("/proc/self/fd").iterdir()]


def _try_unshare(flags: int) -> bool:
    return bool(_libc.unshare(flags) == 0)


def _separate_as_user() -> None:
    """A network of our own without being root: in a user namespace, as the user that we are outside."""
    uid, gid = os.geteuid(), os.getegid()
    _checked(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNET), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _drop_capabilities() -> None:
    """All of them: root's, and those that a new user namespace gives. Without new privileges none comes
    back."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, none), "capset")


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, limits.open_files, limits.open_files)
    _lower(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + CPU_GRACE_S)
    mapped = _mapped_bytes() + limits.memory_mb * MIB
    _lower(resource.RLIMIT_AS, mapped, mapped + RESERVE_MIB * MIB)


def _lower(what: int, soft: int, hard: int) -> None:
    """Never above a limit that the worker itself was started with."""
    most = resource.getrlimit(what)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(what, (soft, hard))


def _mapped_bytes() -> int:
    """The address space in use: the interpreter, the libraries, the imported module."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
