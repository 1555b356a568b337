"""The supervisor in a command line, and streams to it over what cannot be half closed."""

import sys
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.stapled import StapledByteStream

from outlast.errors import BadInput, ExtraMissing
from outlast.sandbox import Limits, Spec
from outlast.workspaces.carried import Framed, boot_argv, dial_argv
from outlast.workspaces.hosted import Hosted
from outlast.workspaces.hosted.clients import HOSTINGS, hosting_of

LONGEST_ARGUMENT = 128 * 1024
"""Of one argument on Linux (MAX_ARG_STRLEN)."""


class Pipe(ByteStream):
    """What comes back is what was sent."""

    def __init__(self, cut: int) -> None:
        self.sent = bytearray()
        self._cut = cut

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self.sent:
            raise anyio.EndOfStream
        piece = bytes(self.sent[: min(self._cut, max_bytes)])
        del self.sent[: len(piece)]
        return piece

    async def send(self, item: bytes) -> None:
        self.sent += item

    async def send_eof(self) -> None:
        raise AssertionError("what carries frames is never half closed")

    async def aclose(self) -> None:
        return


async def _read(stream: ByteStream) -> bytes:
    read = bytearray()
    async for piece in stream:
        read += piece
    return bytes(read)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 1000, 65536])
async def test_an_end_is_told_over_a_stream_that_goes_on(cut: int) -> None:
    framed = Framed(Pipe(cut))
    data = b"x" * 150_001 if cut > 5 else b"hello world"
    await framed.send(data)
    await framed.send_eof()
    assert await _read(framed) == data
    with pytest.raises(anyio.EndOfStream):
        await framed.receive()


async def test_a_stream_that_ends_without_saying_so_is_broken() -> None:
    pipe = Pipe(100)
    framed = Framed(pipe)
    await framed.send(b"hello")
    del pipe.sent[-1:]
    assert await framed.receive() == b"hell"
    with pytest.raises(anyio.BrokenResourceError):
        await framed.receive()


def test_what_is_carried_fits_in_an_argument() -> None:
    assert max(map(len, (*boot_argv("/outlast"), *dial_argv("/outlast")))) < LONGEST_ARGUMENT // 2


@pytest.mark.crash
async def test_the_carried_supervisor_answers_over_what_dials_it(tmp_path: Path) -> None:
    state = str(tmp_path)
    boot = [sys.executable, *boot_argv(state, first_s=5)[1:]]
    dial = [sys.executable, *dial_argv(state)[1:]]
    async with await anyio.open_process(boot) as supervisor, await anyio.open_process(dial) as dialed:
        assert dialed.stdout is not None
        assert dialed.stdin is not None
        async with Framed(StapledByteStream(dialed.stdin, dialed.stdout)) as stream:
            await stream.send(b"no frame of the protocol: \xff\xff")
            with anyio.fail_after(20):
                assert await _read(stream) == b""  # it hangs up on nonsense
        supervisor.kill()


def test_options_say_what_each_hosting_can_do() -> None:
    spec = Spec(
        "a", image="img", idle_s=600, limits=Limits(memory_bytes=3 << 30, cpus=1.5), labels={"a": "b"}
    )
    asked = {name: dict(hosting.asked(spec)) for name, hosting in HOSTINGS.items()}
    assert asked["e2b"]["allow_internet_access"] is False
    assert asked["vercel"]["network_policy"] == "deny-all"
    assert (asked["modal"]["cpu"], asked["modal"]["memory"]) == (1.5, 3072)
    assert asked["daytona"]["resources"] == {"cpu": 2, "memory": 3}
    able = {name for name, hosting in HOSTINGS.items() if "network" in hosting.abilities}
    assert able == {"e2b", "vercel"}
    assert {name for name, hosting in HOSTINGS.items() if "limits" in hosting.abilities} == {
        "modal",
        "daytona",
    }
    assert not any({"mounts", "ports"} & hosting.abilities for hosting in HOSTINGS.values())
    assert "isolates" not in HOSTINGS["unix_local"].abilities


async def test_a_hosting_that_is_not_known_or_not_installed_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no hosted sandbox 'acme'"):
        hosting_of("acme")
    with pytest.raises(ExtraMissing, match=r"openai-agents\[e2b\]"):
        await Hosted("e2b", tmp_path).check()
