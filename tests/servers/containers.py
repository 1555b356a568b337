"""Containers that stand-ins for container APIs really run: process trees of their own, in bubblewrap.

An image is this machine's programs, read-only, on an empty root; a volume is a directory. What a real runtime does by
`setns`, entering a container for `exec`, is asked of its first process here, which starts every program of it.
"""

import array
import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from outlast.engine.pidns import find_bwrap

INIT = """
import array, json, os, socket, subprocess, sys, threading
chan = socket.socket(fileno=int(sys.argv[1]))
lock = threading.Lock()
uid = int(sys.argv[2])
USER = dict(user=uid, group=uid, extra_groups=[]) if uid else {}
def tell(**said):
    with lock: chan.send(json.dumps(said).encode())
def wait(number, ran):
    status = ran.wait()
    tell(id=number, status=128 - status if status < 0 else status)
    if number == 0: os._exit(0)
while True:
    data, rights, _, _ = chan.recvmsg(1 << 20, socket.CMSG_SPACE(12))
    if not data: os._exit(0)
    asked = json.loads(data)
    fds = array.array("i")
    for _, _, piece in rights: fds.frombytes(piece)
    try:
        ran = subprocess.Popen(asked["argv"], env=asked["env"], cwd=asked["cwd"], stdin=fds[0], stdout=fds[1],
                               stderr=fds[2], start_new_session=True, **USER)
    except OSError as error:
        tell(id=asked["id"], status=127, error=str(error))
    else:
        tell(id=asked["id"], pid=ran.pid)
        threading.Thread(target=wait, args=(asked["id"], ran), daemon=True).start()
    for fd in fds: os.close(fd)
"""
BIN = f"{sys.base_prefix}/bin"
PATH = f"{BIN}:/usr/local/bin:/usr/bin:/bin"


THREADS = ThreadPoolExecutor(256)
"""Wait for pipes: as many at a time as there are programs in all containers."""


class NoSuchProgram(Exception):
    """As a runtime says it: the program of a container is not in its image."""


@dataclass
class Running:
    """A program in a container."""

    stdin: int
    stdout: int
    stderr: int
    started: asyncio.Future[int]
    ended: asyncio.Future[int]


@dataclass
class Wish:
    """What a container is to be."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    binds: Sequence[tuple[Path, str, bool]] = ()
    """(source, target, writable)"""
    tmpfs: Sequence[str] = ("/tmp",)
    path: str = PATH
    uid: int = 1000


@dataclass
class Container:
    """A container that runs. Made by `start`."""

    wish: Wish
    process: asyncio.subprocess.Process
    channel: socket.socket
    programs: dict[int, Running] = field(default_factory=dict[int, Running])
    output: bytearray = field(default_factory=bytearray)
    count: int = 0
    silent: list[int] = field(default_factory=list[int])
    """Which of its first program's two outputs have ended."""
    quiet: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str = "") -> Running:
        """Start a program in it."""
        stdin, ours_in = os.pipe()
        ours_out, stdout = os.pipe()
        ours_err, stderr = os.pipe()
        fds = [stdin, stdout, stderr]
        loop = asyncio.get_running_loop()
        running = Running(ours_in, ours_out, ours_err, loop.create_future(), loop.create_future())
        number, self.count = self.count, self.count + 1
        self.programs[number] = running
        asked = {
            "id": number,
            "argv": list(argv),
            "env": {"PATH": self.wish.path, **self.wish.env, **(env or {})},
            "cwd": cwd or self.wish.cwd,
        }
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        self.channel.sendmsg([json.dumps(asked).encode()], rights)
        for fd in fds:
            os.close(fd)
        await running.started
        return running

    @property
    def alive(self) -> bool:
        return self.process.returncode is None and not (self.programs and self.programs[0].ended.done())

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self.channel, self._heard)

    def _heard(self) -> None:
        try:
            data = self.channel.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.forget()
            return
        said = json.loads(data)
        running = self.programs[said["id"]]
        if "status" in said:
            if not running.started.done():
                running.started.set_result(0)
            running.ended.set_result(int(said["status"]))
        elif not running.started.done():  # whoever has started it may be gone
            running.started.set_result(int(said["pid"]))

    def forget(self) -> None:
        """It has ended: so have its programs."""
        with suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self.channel)
        self.channel.close()
        for running in self.programs.values():
            for future in (running.started, running.ended):
                if not future.done():
                    future.set_result(137)

    async def kill_first(self) -> None:
        """SIGKILL to its first program alone."""
        killing = await self.run(["kill", "-9", str(self.programs[0].started.result())])
        await killing.ended
        for fd in (killing.stdin, killing.stdout, killing.stderr):
            os.close(fd)

    async def kill(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
        if self.channel.fileno() >= 0:
            self.forget()


def _system() -> list[str]:
    options = ["--tmpfs", "/"]
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc"):
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            options += ["--ro-bind", str(path), str(path)]
    if not Path(sys.base_prefix).is_relative_to("/usr"):
        options += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    return options


async def start(wish: Wish) -> Container:
    """Start a container, and its first program.

    Raises:
        NoSuchProgram: the image does not have it.
    """
    if not shutil.which(wish.argv[0], path=wish.path):
        raise NoSuchProgram(wish.argv[0])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    options = [*_system(), "--proc", "/proc", "--dev", "/dev"]
    for target in wish.tmpfs:
        options += ["--perms", "1777", "--tmpfs", target]
    for source, target, writable in sorted(wish.binds, key=lambda bind: len(Path(bind[1]).parts)):
        for parent in reversed(Path(target).parents[:-1]):  # else they are for their owner alone
            options += ["--perms", "0755", "--dir", str(parent)]
        options += ["--bind" if writable else "--ro-bind", str(source), target]
    options += ["--dir", wish.cwd, "--remount-ro", "/", "--chdir", "/"]
    options += [f"--unshare-{one}" for one in ("ipc", "pid", "net", "uts")]
    options += ["--die-with-parent", "--new-session"]
    root = os.geteuid() == 0  # then its user is a real one; else it is ours, by another number
    options += [] if root else ["--unshare-user", "--uid", str(wish.uid), "--gid", str(wish.uid)]
    for source in [
        source for source, _, writable in wish.binds if writable and root and source.stat().st_uid == 0
    ]:
        os.chown(source, wish.uid, wish.uid)
    init = [f"{BIN}/python3", "-I", "-S", "-c", INIT, str(theirs.fileno()), str(wish.uid if root else 0)]
    process = await asyncio.create_subprocess_exec(
        find_bwrap() or "bwrap",
        *options,
        *init,
        pass_fds=[theirs.fileno()],
        stdin=asyncio.subprocess.DEVNULL,
        env={"PATH": wish.path},
    )
    theirs.close()
    ours.setblocking(True)  # noqa: FBT003 - the library's own signature
    container = Container(wish, process, ours)
    container.listen()
    first = await container.run(wish.argv)
    os.close(first.stdin)
    asyncio.get_running_loop().add_reader(first.stdout, _keep, container, first.stdout)
    asyncio.get_running_loop().add_reader(first.stderr, _keep, container, first.stderr)
    return container


def _keep(container: Container, fd: int) -> None:
    data = os.read(fd, 65536)
    if data:
        container.output += data
        del container.output[:-10000]
    else:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        container.silent.append(fd)
        if len(container.silent) == 2:
            container.quiet.set()


def write_all(fd: int, data: bytes) -> None:
    """All of `data`, however long that takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
