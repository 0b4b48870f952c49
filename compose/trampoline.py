"""Becomes the server, after tying its life to its parent's: run as a script, never imported.

    python -I -S trampoline.py PARENT_PID DEATH_SIGNAL UID:GID REACH -- ARGV…

The kernel sends DEATH_SIGNAL to the server when the *thread* that spawned it ends, in whatever way: so a
supervisor killed by -9 leaves no server behind. UID:GID ("-": stay who I am) is for PostgreSQL, which refuses
to run as root. REACH ("reach" or "-") keeps the one capability that lets that user into folders closed to it,
such as a checkout below /root. The order matters: a change of user clears the death signal, so that
comes last, and after it the parent may already be gone.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 4
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def become(uid: int, gid: int, reach: bool) -> None:
    if reach:
        # access(2) asks what the *user* may, without capabilities, unless this is set; initdb calls it.
        # It also makes the capabilities outlast the change of user.
        checked(libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0), "secure bits")
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if reach:
        keep_reach()


def keep_reach() -> None:
    """Drop every capability but one, and hand that one on to the program that follows."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    mask = 1 << CAP_DAC_OVERRIDE
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    checked(libc.capset(header, effective_permitted_inheritable), "set capabilities")
    checked(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0), "raise capability")


def main() -> None:
    parent, death_signal, user, reach, _, *argv = sys.argv[1:]
    os.setpgid(0, 0)
    os.umask(0o077)
    if user != "-":
        uid, gid = user.split(":")
        become(int(uid), int(gid), reach == "reach")
    checked(libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0), "death signal")
    if os.getppid() != int(parent):
        sys.exit("the parent is gone")
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
