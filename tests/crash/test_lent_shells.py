"""The shell that a sandbox lends to its programs, beside the real one: real boxes, real shells."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream

from outlast.errors import BoxError, OutlastError
from outlast.ids import sha256
from outlast.sandbox import Box, Job, JobAsk
from outlast.testing.sandbox_contract import Ground
from outlast.workspace import Lent
from outlast.workspaces.boxed.shells import BASH, PORT, BoxShells, lent_shells
from tests.sandboxes.grounds import on_bubblewrap

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]
SOON_S = 30.0


@dataclass
class Desk:
    """Lends to every shell that says `CALL`, under the name behind it."""

    timeout_s: float = 0.0
    goes_on: bool = False
    claimed: list[str] = field(default_factory=list[str])

    def claim(self, words: Sequence[str]) -> Lent | None:
        job = words[1].rpartition("CALL ")[2].strip() if "CALL " in words[1] else ""
        if not job or job in self.claimed:
            return None
        self.claimed.append(job)
        return Lent(job, self.timeout_s)

    def outlasts(self) -> bool:
        return self.goes_on


@dataclass
class Place:
    box: Box
    shells: BoxShells
    desk: Desk

    async def begin(
        self, line: str, *, name: str, shell: str = "", stdin: bool = False, more: Sequence[str] = ()
    ) -> Job:
        """A program of the box that runs a line by a shell, as a harness does."""
        argv = [shell or self.shells.path, "-c", line, *more]
        env = {"SHELL": argv[0], "WORD": "ä\udcff"}
        ask = JobAsk(name, argv, "/tmp", env, tied=True, stdin=stdin)
        return await self.box.begin(ask)


@asynccontextmanager
async def held(ground: Ground, directory: Path, fence: int = 1) -> AsyncGenerator[Place]:
    directory.mkdir(exist_ok=True)
    async with lent_shells(directory) as (way, begin):
        spec = replace(ground.spec, ways=[way], idle_s=60)
        async with ground.provider().attach(spec, fence) as box:
            shells, desk = await begin(box), Desk()
            assert shells.path
            shells.lend(desk)
            yield Place(box, shells, desk)


@pytest.fixture
async def ground() -> AsyncGenerator[Ground]:
    async with on_bubblewrap() as made:
        yield made


async def all_of(job: Job, name: str = "stdout") -> bytes:
    with anyio.fail_after(SOON_S):
        assert name in {"stdout", "stderr"}
        return b"".join([piece async for _, piece in job.output("stdout" if name == "stdout" else "stderr")])


async def result(job: Job) -> tuple[int, bytes, bytes]:
    with anyio.fail_after(SOON_S):
        status = (await job.left()).status
        return status, await all_of(job), await all_of(job, "stderr")


async def there(box: Box, path: str) -> bytes:
    with anyio.fail_after(SOON_S):
        while await box.stat(path) is None:  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.02)
        return await box.read(path)


LINES = (
    r"printf '\0\377\n\r'; echo err >&2; exit 7",
    "printf %s no-newline",
    "pwd; echo $SHELL $0 $#; printf '%s|' \"$@\"",
    "env | grep -v ^_= | sort",
    "kill -9 $$; echo not",
    "sleep 600 & kill -TERM $!; wait; exit 9",
    "exec 2>&1; for i in 1 2 3; do echo out $i; echo err $i >&2; done",
    "ulimit -c; trap; yes | head -1",
    "cat; echo end",
    "exec >&-; echo lost; exit 3",
    "nosuchcommand",
    "if true; then",
)


async def test_nothing_tells_it_from_the_real_shell(ground: Ground, tmp_path: Path) -> None:
    more = ["", "two words", "ü", "q\"uo'te", "-x"]
    async with held(ground, tmp_path) as place:
        for number, line in enumerate(LINES):
            said: dict[str, tuple[int, bytes, bytes]] = {}
            for kind, mark in (("real", "none"), ("plain", "none"), ("lent", "CALL")):
                shell, name = BASH if kind == "real" else "", f"{kind}-{number}"
                job = await place.begin(
                    f"{line}\n# {mark} {number}", name=name, shell=shell, stdin=True, more=more
                )
                with suppress(BoxError):  # it reads nothing
                    await job.write(b"in\0put\n")
                    await job.close_stdin()
                said[kind] = await result(job)
            assert said["plain"] == said["real"], line
            assert said["lent"] == said["real"], line
        assert place.desk.claimed == [str(number) for number in range(len(LINES))]


async def test_what_is_left_behind_does_not_keep_it(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        job = await place.begin("sleep 600 & echo begun # CALL one", name="program")
        assert await result(job) == (0, b"begun\n", b"")
        await place.shells.give_back("one")
        assert await place.box.loose() == []


async def test_100_mb_pass_whole_and_a_slow_reader_holds_them_up(ground: Ground, tmp_path: Path) -> None:
    size = 100_000_000
    async with held(ground, tmp_path) as place:
        line = f"head -c {size} /dev/zero | tr '\\0' x # CALL big"
        count = f'({place.shells.path} -c "$0") | (sleep 2; sha256sum)'
        job = await place.begin(count, name="program", shell=BASH, more=[line])
        status, out, _ = await result(job)
        assert status == 0
        assert out.split()[0].decode() == sha256(b"x" * size)


async def test_a_shell_that_is_killed_takes_its_command_along(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        job = await place.begin("echo $$ > pid; sleep 600 # CALL one", name="program")
        pid = (await there(place.box, "/tmp/pid")).decode().strip()
        await job.signal(9)
        command = await place.box.find("one")
        assert command is not None
        with anyio.fail_after(SOON_S):
            assert await command.wait() == 137
        gone = await place.begin(f"kill -0 {pid}", name="look", shell=BASH)
        assert (await result(gone))[0] == 1


async def test_a_signal_reaches_the_command_and_ends_the_shell(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        line = "trap 'echo caught; exit 5' TERM; touch up; while :; do sleep 0.05; done # CALL one"
        job = await place.begin(line, name="program")
        await there(place.box, "/tmp/up")
        await job.signal(15)
        assert (await result(job))[:2] == (5, b"caught\n")
        job = await place.begin("touch up2; exec sleep 600 # CALL two", name="second")
        await there(place.box, "/tmp/up2")
        await job.signal(2)
        assert (await result(job))[0] == 130


async def test_a_command_past_its_time_is_ended(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        place.desk.timeout_s = 0.5
        job = await place.begin("echo begun; sleep 600 # CALL one", name="program")
        assert (await result(job))[:2] == (124, b"begun\n")
        ran = await place.shells.take_up("one", lambda _: None, lambda: False, 0)
        assert ran is not None
        assert (ran.status, ran.stdout, ran.timed_out) == (124, "begun\n", True)


async def test_the_next_holder_takes_it_up(ground: Ground, tmp_path: Path) -> None:
    """Begun once; shown from its beginning; one that belongs to no call is ended."""
    async with held(ground, tmp_path / "1") as old:
        old.desk.goes_on = True
        line = "echo x >> count; echo one; sleep 1; echo two >&2; cat; echo three; exit 4 # CALL mine"
        await old.begin(line, name="program", stdin=True)
        await old.begin("touch other; sleep 600 # CALL other", name="second")
        await there(old.box, "/tmp/count")
        await there(old.box, "/tmp/other")
        async with held(ground, tmp_path / "2", 2) as new:
            assert sorted(await new.box.loose()) == ["mine", "other"]
            await new.shells.end_others(["mine"])
            assert await new.box.loose() == ["mine"]
            shown: list[str] = []
            with anyio.fail_after(SOON_S):
                ran = await new.shells.take_up("mine", shown.append, lambda: False, 0)
            assert ran is not None
            assert (ran.status, ran.stdout, ran.stderr, ran.cut) == (4, "one\nthree\n", "two\n", 0)
            assert sorted("".join(shown).split()) == ["one", "three", "two"]
            assert await new.box.read("/tmp/count") == b"x\n"
            assert await new.shells.take_up("none", shown.append, lambda: False, 0) is None
            # The one before is a zombie now: nothing begins by it.
            with pytest.raises(OutlastError):
                await old.box.begin(JobAsk("late", ["true"]))


async def test_who_waits_no_longer_than_it_may_ends_it(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        await place.box.begin(JobAsk("one", ["sh", "-c", "echo begun; sleep 600"]))
        ran = await place.shells.take_up("one", lambda _: None, lambda: False, 0.5)
        assert ran is not None
        assert (ran.status, ran.stdout, ran.timed_out) == (137, "begun\n", True)


async def hung_up(stream: ByteStream) -> None:
    with anyio.fail_after(SOON_S), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


BAD = (
    b"",
    b"?",
    b"?\xff\xff\xff\xffmuch",
    b"?\0\0\0\x04none",
    b"?\0\0\0\x08" + b"1\0/\x009999",
    b"?\0\0\0\x07" + b"1\0/\0-1\0",
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"i\0\0\0\0",
)


async def test_what_is_no_question_is_let_go(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        (socket,) = [path for path in tmp_path.iterdir() if path.is_socket()]
        for said in BAD:
            async with await anyio.connect_unix(socket) as stream:
                await stream.send(said) if said else None
                if len(said) < 5:
                    continue  # hung up
                await hung_up(stream)
        talks = b"".join([b"1\0/tmp\x00", b"2\0-c\0cat # CALL talks\0", b"A=1"])
        async with await anyio.connect_unix(socket) as stream:
            await stream.send(b"?" + len(talks).to_bytes(4, "big") + talks)
            assert await stream.receive() == b"i\0\0\0\0"
            await stream.send(b"i\0\0\0\x01a" + b"i\0\0\0\x01b" * 4)  # more than it was let
            await hung_up(stream)
        job = await place.box.find("talks")
        assert job is not None
        with anyio.fail_after(SOON_S):
            assert await job.wait() == 137
        job = await place.begin("echo sound # CALL sound", name="program")
        assert await result(job) == (0, b"sound\n", b"")


async def test_where_nobody_answers_it_is_the_real_shell(ground: Ground, tmp_path: Path) -> None:
    async with held(ground, tmp_path) as place:
        place.shells.lend(None)
        job = await place.begin("echo plain; exit 3 # CALL one", name="program")
        assert await result(job) == (3, b"plain\n", b"")
        assert await place.box.find("one") is None
        look = f"exec 3<>/dev/tcp/127.0.0.1/{PORT} && echo there"
        assert (await result(await place.begin(look, name="look", shell=BASH)))[1] == b"there\n"
