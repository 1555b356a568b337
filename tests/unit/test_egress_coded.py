"""Bodies in a coding, to requests that a credential was added to: handed on as they are, but for what was added."""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workspaces.egress import network
from outlast.workspaces.egress.coded import Coded, Unseen
from outlast.workspaces.egress.scrub import Scrub
from tests.egress.stage import SECRET, answering, host, keyed, stage

FORM = SECRET.encode()


def raw(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


def stored(data: bytes) -> bytes:
    return gzip.compress(data, 0)


def twice(data: bytes) -> bytes:
    return gzip.compress(data[:5]) + bytes(3) + gzip.compress(data[5:]) + bytes(20)


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip in two parts": twice,
    "deflate": zlib.compress,
    "raw deflate": raw,
    "stored": stored,
}


@pytest.mark.parametrize("how", CODINGS)
@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(1, 60))
def test_a_body_ends_before_a_secret_however_it_is_cut(
    how: str, before: bytes, after: bytes, size: int
) -> None:
    data = CODINGS[how](before + FORM + after)
    coding = how.rsplit(maxsplit=1)[-1] if "deflate" in how else "gzip"
    coded, came = Coded(coding.encode(), [FORM]), b""
    for at in range(0, len(data), size):
        try:
            came += coded.body(data[at : at + size])
        except Unseen:
            break
    else:
        pytest.fail("it was let through")
    seen = zlib.decompressobj(-15 if how == "raw deflate" else 47).decompress(came)
    assert not any(FORM[:cut] in seen[len(before) :] for cut in range(len(FORM) - 1, 8, -1))


@pytest.mark.parametrize("how", CODINGS)
@given(st.binary(max_size=500), st.integers(1, 60))
def test_any_other_body_is_handed_on_byte_for_byte(how: str, body: bytes, size: int) -> None:
    data = CODINGS[how](body + FORM[:-1])
    coding = how.rsplit(maxsplit=1)[-1] if "deflate" in how else "gzip"
    coded, came = Coded(coding.encode(), [FORM]), b""
    for at in range(0, len(data), size):
        came += coded.body(data[at : at + size])
    assert came + coded.rest() == data


def test_what_becomes_too_much_or_is_none_is_not_looked_at_further() -> None:
    bomb = gzip.compress(bytes(200 << 20))
    with pytest.raises(Unseen, match="too much"):
        Coded(b"gzip", [FORM]).body(bomb)
    with pytest.raises(Unseen, match="cannot be read"):
        Coded(b"gzip", [FORM]).body(b"no gzip")
    with pytest.raises(Unseen, match="holds"):
        Coded(b"gzip", [FORM]).body(gzip.compress(b"x") + b"behind it: " + FORM)
    coded, made = Coded(b"gzip", [FORM]), zlib.compressobj(wbits=31)
    assert coded.body(made.compress(FORM[:-1]) + made.flush(zlib.Z_SYNC_FLUSH)) == b""
    with pytest.raises(Unseen, match="too long"):
        coded.body(b"\0\0\0\xff\xff" * 300_000)  # empty blocks


def test_only_answers_to_what_a_credential_was_added_to_are_looked_through() -> None:
    assert isinstance(Scrub(()).of_body([b"br"]), Scrub)
    assert isinstance(Scrub([FORM]).of_body([b"identity"]), Scrub)
    assert isinstance(Scrub([FORM]).of_body([b"gzip"]), Coded)
    for codings in ([b"br"], [b"zstd"], [b"gzip", b"gzip"], [b"compress"]):
        with pytest.raises(Unseen, match="not known"):
            Scrub([FORM]).of_body(codings)


def coded_answer(coding: str, body: bytes) -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_host_that_says_the_secret_in_a_coding_is_cut_off(tmp_path: Path, method: str) -> None:
    echo = coded_answer("gzip", gzip.compress(f"Authorization: Bearer {SECRET}".encode()))
    strange = coded_answer("br", b"whatever")
    fine = coded_answer("gzip", gzip.compress(b"fine"))
    for answer, said in ((echo, b""), (strange, b"502"), (fine, b"200")):
        sent = answer if method == "GET" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        async with host(answering(sent), name="forge.test", folder=_made(tmp_path)) as there:
            target = f"forge.test:{there.port}"
            async with stage(network([], [keyed(there.port)]), there) as out, out.inside(target) as line:
                await line.say(f"{method} / HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n")
                heard = await line.all()
        wanted = b"200" if method == "HEAD" else said
        assert heard[9:12] == wanted
        assert gzip.compress(b"fine")[10:] in heard or answer is not fine or method == "HEAD"


def _made(above: Path) -> Path:
    found = above / str(len(list(above.iterdir())))
    found.mkdir()
    return found
