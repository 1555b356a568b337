"""Git, curl, pip and npm in a real sandbox: what is allowed works, with credentials that are never inside."""

import asyncio
import base64
import re
import resource
import ssl
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from outlast.clock import SystemClock
from outlast.sandbox import Box, JobAsk, Spec, Way
from outlast.workspaces.egress import (
    Credential,
    CredentialUsed,
    Event,
    Network,
    Outside,
    Who,
    WorkerSecrets,
    from_env,
    network,
    open_egress,
)
from outlast.workspaces.egress.authority import open_authority
from outlast.workspaces.egress.tunnel import join
from outlast.workspaces.sandbox.bubblewrap import open_bubblewrap
from outlast.workspaces.unix import UnixStream
from tests.egress.forge import Forge, open_forge
from tests.egress.stage import Heard, Line, host, keyed, stage

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120), pytest.mark.anyio]

SECRET = "gLpat-5up3rs3cret-0f-the-f0rge"
BASIC = base64.b64encode(f"git:{SECRET}".encode()).decode()
FORMS = [SECRET, BASIC, base64.b64encode(SECRET.encode()).decode().rstrip("=")]
WHO = Who("default", "ticket-1")
SEARCH = """
import os, sys
forms = [form[::-1].encode() for form in sys.argv[1:]]  # backwards, so that this program does not find itself
found, searched = [], 0
def look(where, data):
    global searched
    searched += len(data)
    found.extend(where for form in forms if form in data)
for top in ("/workspace", "/tmp", "/run", "/etc", "/dev/shm"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path):
                    look(path, open(path, "rb").read())
            except OSError:
                pass
programs = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    try:
        programs.append(open(f"/proc/{pid}/comm").read().strip())
        for name in ("environ", "cmdline"):
            look(f"/proc/{pid}/{name}", open(f"/proc/{pid}/{name}", "rb").read())
        memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        for line in open(f"/proc/{pid}/maps"):
            reach, rights = line.split()[:2]
            begin, end = (int(each, 16) for each in reach.split("-"))
            if "r" in rights and end - begin < 1 << 28:
                try:
                    memory.seek(begin)
                    look(f"/proc/{pid}/mem {reach}", memory.read(end - begin))
                except (OSError, OverflowError):
                    pass
    except (FileNotFoundError, PermissionError, ProcessLookupError):  # it is gone; the supervisor is closed to us
        pass
print("searched", searched, "programs", sorted(programs), "found", found)
"""


@dataclass
class Inside:
    """A box, its way out, and what was said through it."""

    box: Box
    told: list[Event]
    said: bytearray
    jobs: int = 0

    async def run(self, script: str, *arguments: str, works: bool = True) -> str:
        """Both streams of a script's output."""
        job = await self.begin(script, *arguments)
        output = bytearray()
        async for _, piece in job.output("stdout"):
            output += piece
        assert (await job.wait() == 0) is works, output.decode()
        return output.decode()

    async def begin(self, script: str, *arguments: str) -> Any:
        self.jobs += 1
        argv = ["bash", "-c", f"set -eu; exec 2>&1\n{script}", "bash", *arguments]
        return await self.box.begin(JobAsk(f"job-{self.jobs}", argv))


class Tap:
    """Hears what goes over a way, as a program inside could."""

    def __init__(self, behind: Path) -> None:
        self.behind = behind
        self.said = bytearray()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = UnixStream(reader, writer)
        outer = UnixStream(*await asyncio.open_unix_connection(self.behind))
        try:
            await join(Heard(inner, self.said), Heard(outer, self.said), 60)
        finally:
            inner.abort()
            outer.abort()


@asynccontextmanager
async def sandboxed(tmp_path: Path, rules: Network, pem: bytes) -> AsyncGenerator[Inside]:
    """A box whose only way out is for `rules`; hosts are this machine, and trusted if `pem` says so."""
    told: list[Event] = []

    async def resolve(name: str, _: int) -> Sequence[str]:
        return ["127.0.0.1"] if name.endswith(".test") else ["169.254.169.254"]

    outside = Outside(
        secrets=WorkerSecrets({"FORGE_TOKEN": SECRET}),
        resolve=resolve,
        trust=lambda: (
            ssl.create_default_context(cadata=pem.decode()) if pem else ssl.create_default_context()
        ),
        roots=lambda: pem,
        told=told.append,
    )
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="way-") as directory:
        way = Path(directory, "way")
        async with open_egress(rules, WHO, way, outside=outside) as egress:
            (out,) = egress.ways
            tap = Tap(out.socket)
            async with await asyncio.start_unix_server(tap.carry, way / "tap.sock"):
                spec = Spec(
                    "ticket-1", ways=[Way(out.port, way / "tap.sock")], mounts=egress.mounts, env=egress.env
                )
                async with open_bubblewrap(tmp_path).attach(spec, 1) as box:
                    await box.beat(120)
                    yield Inside(box, told, tap.said)


@pytest.fixture
def forge(tmp_path: Path) -> Generator[Forge]:
    """A forge that speaks TLS."""
    authority = open_authority(private(tmp_path / "authority"), ["forge.test"], SystemClock())
    with open_forge(private(tmp_path / "forge"), SECRET, authority.context("forge.test")) as served:
        yield served


@pytest.fixture
def pem(tmp_path: Path, forge: Forge) -> bytes:
    return open_authority(tmp_path / "authority", ["forge.test"], SystemClock()).pem


def private(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def team(forge: Forge, **more: Any) -> Network:
    """What is below /team, and whatever else is said."""
    given: dict[str, Any] = {
        "path": "/team",
        "kind": "basic",
        "user": "git",
        "private": True,
        "name": "forge",
    }
    url = f"https://forge.test:{forge.port}"
    return network(credentials=[Credential(url, from_env("FORGE_TOKEN"), **{**given, **more})])


def head_of(repository: Path) -> str:
    asked = ["git", "-C", repository, "log", "--format=%s by %an", "main"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


AUTHOR = """
git config --global user.name agent; git config --global user.email agent@sandbox
"""
PUSH = (
    AUTHOR
    + """
git clone --quiet "$1" site && cd site
head -c 3000000 /dev/urandom > large; echo "<h1>Prices</h1>" > pricing.html
git add --all && git commit --quiet -m "Add a pricing page" && git push --quiet origin HEAD:main
git fetch --quiet && git status --short --branch | head -1
cat .git/config
"""
)


async def searched(inside: Inside) -> tuple[int, str, str]:
    """How much of a box was searched, which programs among that, and where the secret was found."""
    backwards = [form[::-1] for form in FORMS]
    report = await inside.run(f"/usr/bin/python3 -I - \"$@\" <<'END'\n{SEARCH}\nEND", *backwards)
    found = re.fullmatch(r"searched (\d+) programs (.*) found (.*)\n", report)
    assert found, report
    return int(found[1]), found[2], found[3]


async def assert_no_secret_inside(inside: Inside, program: str = "bash") -> None:
    """Nor in the memory of `program`, which runs there."""
    size, programs, found = await searched(inside)
    assert size > 1_000_000
    assert f"'{program}'" in programs
    assert found == "[]"
    for form in FORMS:
        assert form.encode() not in inside.said
        assert form not in repr(inside.told)


async def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, Network(), b"") as inside:
        await inside.begin(
            "printf %s $1 | base64 > /tmp/kept; read -t 60 waiting < <(sleep 60)", f"git:{SECRET}"
        )
        found = ""
        with anyio.fail_after(20):
            while not all(where in found for where in ("/mem ", "/cmdline", "/tmp/kept")):
                _, _, found = await searched(inside)


async def test_a_push_to_a_forge_works_and_no_secret_is_ever_inside(
    tmp_path: Path, forge: Forge, pem: bytes
) -> None:
    repository = forge.make("team/site.git") if private(forge.root / "team") else forge.root
    async with sandboxed(tmp_path, team(forge), pem) as inside:
        url = f"https://forge.test:{forge.port}/team/site.git"
        output = await inside.run(PUSH, url)
        assert "main...origin/main" in output
        assert head_of(repository) == "Add a pricing page by agent"
        # While a program that a credential was added for still runs, its memory is searched too.
        slow = await inside.begin(f"curl -sS https://forge.test:{forge.port}/team/slow")
        while not any(path == "/team/slow" for _, path, _ in forge.asked):
            await anyio.wait_all_tasks_blocked()
        await assert_no_secret_inside(inside, "curl")
        forge.slow.set()
        assert await slow.wait() == 0
    used = [event for event in inside.told if isinstance(event, CredentialUsed)]
    assert {event.credential for event in used} == {"forge"}
    assert ("POST", "/team/site.git/git-receive-pack", 200) in {
        (one.method, one.path, one.status) for one in used
    }
    assert all(good for _, _, good in forge.asked)


async def test_a_push_without_tls_says_no_secret_on_the_line(tmp_path: Path) -> None:
    with open_forge(private(tmp_path / "plain"), SECRET) as forge:
        repository = forge.make("site.git")
        rules = network(
            credentials=[
                Credential(
                    f"http://forge.test:{forge.port}",
                    from_env("FORGE_TOKEN"),
                    kind="basic",
                    user="git",
                    private=True,
                )
            ]
        )
        async with sandboxed(tmp_path, rules, b"") as inside:
            await inside.run(PUSH, f"http://forge.test:{forge.port}/site.git")
            assert b"git-receive-pack" in inside.said
            await assert_no_secret_inside(inside)
        assert head_of(repository) == "Add a pricing page by agent"


async def test_a_remote_of_ssh_takes_the_way_that_there_is(tmp_path: Path) -> None:
    # The usual port, since an address of SSH has no room for another.
    with open_forge(private(tmp_path / "plain"), SECRET) as forge:
        forge.make("site.git")
        url = f"http://forge.test:{forge.port}"
        rules = network(
            credentials=[Credential(url, from_env("FORGE_TOKEN"), kind="basic", user="git", private=True)]
        )
        async with sandboxed(tmp_path, rules, b"") as inside:
            await inside.run("git clone --quiet git@forge.test:site.git 2>&1")
            await inside.run("git clone --quiet ssh://git@forge.test/site.git again")


async def test_what_is_said_inside_to_get_at_the_secret_is_in_vain(
    tmp_path: Path, forge: Forge, pem: bytes
) -> None:
    async with sandboxed(tmp_path, team(forge, path="/"), pem) as inside:
        url = f"https://forge.test:{forge.port}"
        for asked in (
            f"curl -sS -i {url}/echo",
            f"curl -sS -i -H 'Authorization: Bearer mine' -H 'Cookie: a=b' {url}/echo",
            f"curl -sS -i {url}/moved/echo",
            f"curl -sS -i -X TRACE {url}/echo",
            f"curl -sS -i --raw --compressed {url}/echo",
            f"curl -sS -i -H 'Connection: authorization' {url}/echo",
            f"curl -sSv -i --http2 {url}/echo",
        ):
            output = await inside.run(asked)
            assert "HTTP/1.1 " in output
            assert not [form for form in FORMS if form in output], output
            assert "mine" not in output
        assert f"https://forge.test:{forge.port}/echo" in await inside.run(f"curl -sS -i {url}/moved/echo")
        await assert_no_secret_inside(inside)


async def test_registries_are_used_as_ever(tmp_path: Path, forge: Forge, pem: bytes) -> None:
    async with sandboxed(tmp_path, team(forge, path="/", kind="bearer"), pem) as inside:
        index = f"https://forge.test:{forge.port}/simple"
        output = await inside.run(
            f"/usr/bin/python3 -m pip download --quiet --no-deps --no-cache-dir --index-url {index} demo && ls"
        )
        assert "demo-1.0-py3-none-any.whl" in output
        registry = f"https://forge.test:{forge.port}/npm/"
        install = f"npm install --no-audit --no-fund --registry {registry} demo"
        output = await inside.run(f"{install}; cat node_modules/demo/*")
        assert '"name": "demo"' in output
        await assert_no_secret_inside(inside)


async def test_programs_say_why_something_is_not_reached(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, network(["open.test"]), b"") as inside:
        refused = "evil.test:443 is not allowed in this sandbox"
        assert refused in await inside.run(
            "/usr/bin/python3 -m pip download --retries 1 --no-cache-dir --index-url https://evil.test/ demo",
            works=False,
        )
        assert refused in await inside.run(
            "npm view --fetch-retries 0 --registry https://evil.test/ demo", works=False
        )
        assert refused in await inside.run("curl -sSv https://evil.test/", works=False)
        assert "evil.test:80 is not allowed" in await inside.run("curl -sS http://evil.test/")
        assert "403" in await inside.run("git clone https://evil.test/x", works=False)


async def test_nothing_else_leads_out(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, network(["*"]), b"") as inside:
        for url in (
            "http://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
            "http://0251.0376.0251.0376/",
            "http://[::ffff:169.254.169.254]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://metadata.google.internal/",
            "http://forge.test/",
        ):
            output = await inside.run(f"curl -sS -i '{url}' || true")
            assert "HTTP/1.1 4" in output, (url, output)
        for script in (
            "exec 3<>/dev/tcp/1.1.1.1/80",
            "exec 3<>/dev/tcp/169.254.169.254/80",
            "curl -sS --noproxy '*' -m 3 http://169.254.169.254/",
            "curl -sS --noproxy '*' -m 3 http://example.com/",
            "ping -c 1 -W 1 1.1.1.1",
            "getent ahosts example.com",
        ):
            await inside.run(script, works=False)


async def test_large_bodies_are_held_by_nobody(tmp_path: Path) -> None:
    pieces, piece = 1024, bytes(64 * 1024)
    size = pieces * len(piece)

    async def swallow(line: Line) -> None:
        await line.head()
        left = size - len(line.got)
        while left:
            left -= len(await line.stream.receive())
        await line.say(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")
        for _ in range(pieces):
            await line.say(piece)

    async with (
        host(swallow, name="forge.test", folder=private(tmp_path / "authority"), hears=False) as there,
        stage(network(credentials=[keyed(there.port)]), there) as on,
        on.inside(f"forge.test:{there.port}") as line,
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await line.say(f"PUT /x HTTP/1.1\r\nHost: forge.test:{there.port}\r\nContent-Length: {size}\r\n\r\n")
        for _ in range(pieces):
            await line.say(piece)
        assert b" 200 OK" in await line.head()
        left = size - len(line.got)
        while left:
            left -= len(await line.stream.receive())
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 * 1024
