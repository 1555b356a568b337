"""Tries every escape from a box by bubblewrap. A program: it says, one line of JSON for each, what came of it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from outlast.ids import new_id
from outlast.sandbox import Box, JobAsk, Mount, Spec
from outlast.workspaces.sandbox.bubblewrap import Bubblewrap
from outlast.workspaces.sandbox.bubblewrap.system import Sizes, python
from tests.sandboxes.escapes import ESCAPES, Escape, Outside, text_of

_MB = 1 << 20
SECRET = "the secret of the host"


@contextmanager
def outside(directory: Path, data: Path, other: str) -> Generator[Outside]:
    """What must not be reached, standing."""
    with ExitStack() as stack:
        secret, drive = directory / "secret", directory / "other-drive"
        secret.write_text(SECRET)
        drive.mkdir()
        (drive / "file").write_text(SECRET)
        marker, abstract = new_id("marker"), new_id("abstract")
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", marker])
        stack.callback(sleeper.wait)
        stack.callback(sleeper.kill)
        inet = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for name in (str(directory / "gateway"), f"\0{abstract}"):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(name)
            unix.listen()
        supervisor = str(data / "boxes" / other / "supervisor")
        port = str(inet.getsockname()[1])
        yield Outside(str(secret), str(drive), str(directory / "gateway"), supervisor, marker, abstract, port)


async def attempt(box: Box, escape: Escape, there: Outside) -> str:
    words = [python()[0], "-I", "-c", text_of(escape)]
    job = await box.begin(JobAsk(escape.name, words, env=there.env(), timeout_s=30))
    status = await job.wait()
    pieces = [piece async for _, piece in job.output("stdout")]
    pieces += [piece async for _, piece in job.output("stderr")]
    return b"".join(pieces).decode("utf-8", "replace") + f"\nstatus {status}\n"


def control(escape: Escape, there: Outside) -> str:
    """What the same program says outside."""
    words = [python()[0], "-I", "-c", text_of(escape)]
    return subprocess.run(words, env=dict(there.env()), capture_output=True, text=True, check=False).stdout


async def main() -> None:
    os.environ["OUTLAST_TEST_SECRET"] = SECRET
    with TemporaryDirectory() as name:
        directory, data = Path(name), Path(name) / "data"
        sizes = Sizes(tmp=64 * _MB, shm=64 * _MB, state=64 * _MB)
        provider, other, mine = Bubblewrap(data, sizes=sizes), new_id("other"), new_id("mine")
        own = directory / "own-drive"
        own.mkdir()
        mounts = [Mount(own, "/data", writable=True)]
        with outside(directory, data, other) as there:
            theirs = [Mount(Path(there.other_drive), "/workspace", writable=True)]
            async with (
                provider.attach(Spec(other, mounts=theirs), 1) as neighbour,
                provider.attach(Spec(mine, mounts=mounts), 1) as box,
            ):
                for escape in ESCAPES:
                    said = await attempt(box, escape, there)
                    outside_said = control(escape, there) if escape.controlled else ""
                    say(name=escape.name, said=said, control=outside_said)
                say(name="neighbour", said=await kill_all(box, neighbour), control="")


async def kill_all(box: Box, neighbour: Box) -> str:
    """Kill everything that can be seen, from inside; the neighbour and the box itself go on."""
    sleeper = await neighbour.begin(JobAsk("sleeper", ["sleep", "1"]))
    killer = await box.begin(JobAsk("killer", ["sh", "-c", "kill -9 -1; kill -9 1"]))
    ended = await killer.wait()
    after = await (await box.begin(JobAsk("after", ["true"]))).wait()
    return f"killer {ended} sleeper {await sleeper.wait()} after {after}"


def say(**facts: str) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main)
