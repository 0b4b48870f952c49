"""Handlers that misbehave, for a fork server to import: no test does."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trio

from shardwheel import Fatal, Retryable, handler

# As a careless module would: its children must not write to it.
OPENED_AT_IMPORT = Path(__file__).open("rb")  # noqa: SIM115


@handler("facts", isolated=True)
def facts(ctx: Any, params: Any) -> Any:
    return {"task": ctx.task, "attempt": ctx.attempt, "params": params, "has_time": ctx.seconds_left > 1}


@handler("async", isolated=True)
async def in_trio(ctx: Any, params: Any) -> Any:
    await trio.lowlevel.checkpoint()
    if params:
        raise Retryable("soon", after_s=2.5)
    await ctx.checkpoint({"at": 7})
    return await ctx.load_checkpoint()


class Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even as text")


@handler("raise", isolated=True)
def fail(ctx: Any, params: Any) -> None:
    kinds = {
        "retryable": Retryable("later", after_s=1),
        "fatal": Fatal("never"),
        "exit": SystemExit(3),
        "unspeakable": Unspeakable(),
    }
    raise kinds.get(params["kind"]) or ValueError(f"with {params['kind']}\ud800")


@handler("burn", isolated=True)
def burn(ctx: Any, params: Any) -> None:
    if params:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass


@handler("hoard", isolated=True)
def hoard(ctx: Any, params: Any) -> None:
    hoarded = []
    while True:
        hoarded.append(bytes(1_000_000))


@handler("open", isolated=True)
def open_many(ctx: Any, params: Any) -> None:
    opened = []
    while True:
        opened.append(os.open(os.devnull, os.O_RDONLY))


@handler("talk", isolated=True)
def talk(ctx: Any, params: Any) -> None:
    print("first")
    sys.stderr.write("second\n")
    for _ in range(params["lines"]):
        print("y" * 99)


@handler("die", isolated=True)
def die(ctx: Any, params: Any) -> None:
    if params["signal"]:
        os.kill(os.getpid(), params["signal"])
    os._exit(3)


@handler("garble", isolated=True)
def garble(ctx: Any, params: Any) -> None:
    ctx._desk._line._channel.send(b"\xc1 no frame")
    time.sleep(60)


@handler("look", isolated=True)
def look(ctx: Any, params: Any) -> Any:
    """What a handler finds around itself."""
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    files = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return {
        "environment": dict(os.environ),
        "files": files,
        "opened_at_import": str(Path(f"/proc/self/fd/{OPENED_AT_IMPORT.fileno()}").readlink()),
        "leads_session": os.getsid(0) == os.getpid() == os.getpgid(0),
        "no_new_privileges": status["NoNewPrivs"],
        "capabilities": status["CapEff"],
        "core_bytes": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "user": os.getuid(),
    }


@handler("connect", isolated=True)
def connect(ctx: Any, params: Any) -> str:
    try:
        socket.create_connection(("127.0.0.1", params["port"]), timeout=5).close()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "connected"


@handler("inputs", isolated=True)
def read_inputs(ctx: Any, params: Any) -> Any:
    return [ctx.inputs(), ctx.skipped_parents()]


@handler("desk", isolated=True)
def use_desk(ctx: Any, params: Any) -> Any:
    ctx.progress(50, "half")
    ctx.log.warning("slow", seconds=3)
    before = ctx.load_checkpoint()
    ctx.checkpoint([1, 2])
    try:
        ctx._desk._line.call("leave")
    except Exception as error:
        refused = f"{type(error).__name__}: {error}"
    return [before, ctx.load_checkpoint(), refused]


@handler("betray", isolated=True)
def betray(ctx: Any, params: Any) -> Any:
    print("printed", params["key"])
    ctx.log(f"logged {params['key']}")
    if params.get("fail"):
        raise ValueError(params["key"])
    return {"key": params["key"]}


@handler("family", isolated=True)
def family(ctx: Any, params: Any) -> None:
    """Start what goes away into a session of its own, say who is who, and never look at ctx.cancelled."""
    runaway = subprocess.Popen(["sleep", "600"], start_new_session=True)
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout is not None
    others = [runaway.pid, shell.pid, int(shell.stdout.readline())]
    print(json.dumps({"child": os.getpid(), "keeper": os.getppid(), "others": others}))
    while True:
        time.sleep(600)


@handler("polite", isolated=True)
def polite(ctx: Any, params: Any) -> None:
    print("ready")
    while not ctx.cancelled:
        signal.pause()
    print("tidied up")


@handler("polite.async", isolated=True)
async def polite_async(ctx: Any, params: Any) -> None:
    print("ready")
    try:
        await trio.sleep_forever()
    finally:
        print("tidied up", ctx.cancelled)


@handler("parent", isolated=True)
def server(ctx: Any, params: Any) -> int:
    """The fork server: the parent of this child's keeper."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


@handler("wait", isolated=True)
def wait(ctx: Any, params: Any) -> str:
    """Say who is who; end when the given file does, which is when its reader is told to."""
    print(json.dumps({"child": os.getpid(), "keeper": os.getppid(), "server": server(ctx, params)}))
    with Path(params["pipe"]).open() as pipe:
        return pipe.read()


@handler("leave.one.behind", isolated=True)
def leave_one_behind(ctx: Any, params: Any) -> int:
    return subprocess.Popen(["sleep", "600"], start_new_session=True).pid


@handler("interfaces", isolated=True)
def interfaces(ctx: Any, params: Any) -> list[str]:
    return [name for _, name in socket.if_nameindex()]


@handler("peep", isolated=True)
def peep(ctx: Any, params: Any) -> str:
    """Look into the memory of another process of the same user, confined as an attempt is."""
    other = os.fork()
    if other == 0:
        signal.pause()
    try:
        with Path(f"/proc/{other}/mem").open("rb"):
            return "open"
    except PermissionError:
        return "refused"
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


@handler("look_at_self", isolated=True)
def look_at_self(ctx: Any, params: Any) -> str:
    """What ordinary code does by way of /proc/self: closing files before an exec, for one."""
    assert list(Path("/proc/self/fd").iterdir())
    return subprocess.run(["echo", "well"], stdout=subprocess.PIPE, text=True, check=True).stdout
