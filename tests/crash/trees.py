"""Process trees to kill: a program that detaches itself in every way it can, and obeys over a socket."""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outlast.clock import boottime
from outlast.engine.processes import supervisor_argv

LIMIT_S = 20.0

PROGRAM = """
import os, signal, socket, sys, time
role, address, effect = sys.argv[1:4]
if role == "child":
    if os.fork() == 0:
        os.setsid()
        role = "detached"
        between = os.fork()
        if between == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            role = "orphan"
        else:
            os.waitpid(between, 0)
connection = socket.socket(socket.AF_UNIX)
connection.connect(address)
connection.sendall(role.encode())
def say(text):
    connection.sendall(str(text).encode())
def deadline(seconds):
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(int(os.environ["OUTLAST_DEADLINE_FD"]), b"%020d" % (now + int(seconds * 1e9)))
def late_effect():
    with open(effect, "a") as file:
        file.write(role)
while True:
    order = connection.recv(4096)
    if not order:
        os._exit(99)
    exec(order)
"""


@dataclass(frozen=True, slots=True)
class Member:
    """One living process of a tree."""

    role: str
    pid: int
    connection: socket.socket

    def order(self, statement: str) -> None:
        """Let it run one Python statement."""
        self.connection.sendall(statement.encode())

    def ask(self, expression: str) -> str:
        """What it answers, within the limit."""
        self.order(f"say({expression})")
        return self.connection.recv(4096).decode()

    def is_gone(self) -> bool:
        """Whether no process has its pid now, not even a zombie."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def dies(self) -> bool:
        """Whether it ends within the limit."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([pidfd], [], [], LIMIT_S)[0])
        finally:
            os.close(pidfd)


@dataclass
class Grove:
    """Where the trees of one test stand."""

    directory: Path
    listener: socket.socket
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    connections: list[socket.socket] = field(default_factory=list[socket.socket])
    started: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def locks(self) -> Path:
        return self.directory / "locks"

    @property
    def lock(self) -> Path:
        return self.locks / "worker-1"

    @property
    def effect(self) -> Path:
        """The file that a process which should be dead would write."""
        return self.directory / "effect"

    def program(self, role: str = "child") -> list[str]:
        """`child` grows a tree of three: itself, a detached child, and an orphan in a session of its own."""
        source = self.directory / "tree.py"
        if not source.exists():
            source.write_text(PROGRAM)
        return [
            sys.executable,
            "-I",
            "-S",
            str(source),
            role,
            str(self.directory / "socket"),
            str(self.effect),
        ]

    def supervise(
        self, argv: list[str], *, lock: Path | None = None, ttl_s: float = 60, grace_s: float = 0
    ) -> subprocess.Popen[bytes]:
        """Start a supervisor with a command of our own."""
        return self.start(supervisor_argv(argv, lock=lock or self.lock, ttl_s=ttl_s, grace_s=grace_s))

    def start(self, argv: list[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start any program, killed with the test at the latest."""
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        self.started.append(process)
        return process

    def gather(self, *roles: str) -> list[Member]:
        """Wait until these have reported, and return them in that order."""
        while not set(roles) <= set(self.members):
            connection, _ = self.listener.accept()
            self.connections.append(connection)
            connection.settimeout(LIMIT_S)
            # The kernel's word on who it is: inside a pid namespace, it does not know its own pid.
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid = int(struct.unpack("3i", credentials)[0])
            role = connection.recv(64).decode()
            self.members[role] = Member(role, pid, connection)
        return [self.members[role] for role in roles]

    def grow(self, *, ttl_s: float = 60) -> tuple[subprocess.Popen[bytes], list[Member]]:
        """A supervisor and its tree of three, all of them alive."""
        supervisor = self.supervise(self.program(), ttl_s=ttl_s)
        return supervisor, self.gather("child", "detached", "orphan")


@contextmanager
def planted(directory: Path) -> Generator[Grove]:
    """A grove; whatever is left of it dies at the end."""
    (directory / "locks").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        listener.listen()
        listener.settimeout(LIMIT_S)
        grove = Grove(directory, listener)
        try:
            yield grove
        finally:
            for process in grove.started:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.wait(LIMIT_S)
                if process.stderr is not None:
                    process.stderr.close()
            for connection in grove.connections:
                connection.close()  # which ends any that a killed supervisor left behind


def milliseconds_since(moment_s: float) -> float:
    return (boottime() - moment_s) * 1e3
