"""What needs no server: addresses, texts, hints, and what errors mean."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import BadInput, WorldFull, WorldReadOnly, WorldUnavailable
from outlast.world.hints import ANYONE, Board, Hints, key
from outlast.worlds.postgres.address import parse_address
from outlast.worlds.postgres.failures import unavailable
from outlast.worlds.postgres.hints import KEYS, read_hint, write_hint
from outlast.worlds.postgres.statements import in_schema
from outlast.worlds.postgres.texts import stored, told


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgres://me:secret@db.example:5433/agents", "postgres://db.example:5433/agents"),
        ("postgresql://me:se%40cret@db/agents?sslmode=require", "postgres://db/agents"),
        ("postgres://a:1,b:2/agents?schema=blue", "postgres://a:1,b:2/agents?schema=blue"),
        ("postgres:///agents?host=/run/postgresql&password=secret", "postgres:///run/postgresql/agents"),
        ("postgres://", "postgres://localhost/(default)"),
    ],
)
def test_its_name_tells_the_place_and_no_secret(url: str, name: str) -> None:
    assert parse_address(url).name == name


def test_the_driver_is_given_everything_but_what_is_ours() -> None:
    address = parse_address(
        "postgres://me:pw@db/agents?schema=blue&sslmode=require&connections=3&pooler=transaction&direct=other:1"
    )
    assert address.dsn == "postgres://me:pw@db/agents?sslmode=require"
    assert address.direct == "postgres://me:pw@other:1/agents?sslmode=require"
    assert (address.schema, address.pooled, address.connections) == ("blue", True, 3)
    plain = parse_address("postgres://db/agents")
    assert (plain.schema, plain.pooled, plain.direct, plain.connections) == ("outlast", False, None, 8)


@pytest.mark.parametrize(
    "query",
    [
        "schema=Blue",
        "schema=a%22b",
        "schema=",
        "pooler=session",
        "connections=0",
        "connections=many",
        "direct=db:1",
    ],
)
def test_an_option_that_does_not_fit_is_refused_without_telling_the_address(query: str) -> None:
    with pytest.raises(
        BadInput, match=r"The address of the World in Postgres cannot be used: its|it names"
    ) as caught:
        parse_address(f"postgres://me:secret@db/agents?{query}")
    assert "secret" not in str(caught.value)


def test_an_address_that_is_none_is_refused_without_telling_it() -> None:
    with pytest.raises(BadInput, match="it is no URL") as caught:
        parse_address("postgres://me:sec[ret@db/agents")
    assert "ret" not in str(caught.value).replace("written", "")


@given(st.text())
def test_every_text_comes_back_and_holds_no_nul_where_it_is_stored(text: str) -> None:
    assert told(stored(text)) == text
    assert "\0" not in stored(text)


@given(st.text(alphabet="\\0\0a"), st.text(alphabet="\\0\0a"))
def test_two_texts_are_never_stored_as_one(one: str, other: str) -> None:
    assert (stored(one) == stored(other)) == (one == other)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=2 * KEYS, unique=True))
def test_a_hint_tells_its_keys_or_that_there_are_many(keys: list[int]) -> None:
    board = Board()
    payload = write_hint("p-somebody", keys)
    assert len(payload.encode()) < 8000
    heard = read_hint(payload, "p-me", board)
    assert heard == (frozenset(keys) if len(keys) <= KEYS else {ANYONE})
    assert read_hint(payload, "p-somebody", board) == frozenset()


def test_many_means_everybody_who_waits() -> None:
    board = Board()
    wanted = frozenset({key("default", "s")})
    hints = Hints(wanted)
    board.add(hints)
    assert read_hint(write_hint("p", range(KEYS + 1)), "p-me", board) == wanted | {ANYONE}
    board.remove(hints)
    assert board.keys == frozenset()


@pytest.mark.parametrize("payload", ["", "p", "p not hexadecimal", "a b c d", "p many more"])
def test_what_others_say_on_the_channel_tells_nothing(payload: str) -> None:
    assert read_hint(payload, "p-me", Board()) <= {0xA, 0xB, 0xC, 0xD}


def test_statements_name_the_schema_of_the_address_everywhere() -> None:
    localized = in_schema("blue")
    assert localized("select nextval('outlast.change') from outlast.log") == (
        'select nextval(\'"blue".change\') from "blue".log'
    )


class _Said(Exception):
    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate
        super().__init__("what the server said")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (_Said("53100"), WorldFull),
        (_Said("25006"), WorldReadOnly),
        (_Said("42501"), WorldReadOnly),
        (_Said("57P01"), WorldUnavailable),
        (_Said("40P01"), WorldUnavailable),
        (ConnectionResetError("gone"), WorldUnavailable),
        (TimeoutError(), WorldUnavailable),
    ],
)
def test_whatever_goes_wrong_is_said_in_our_words(error: Exception, kind: type[Exception]) -> None:
    assert type(unavailable("postgres://db/agents", error)) is kind


@pytest.mark.crash
def test_without_its_driver_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from outlast.errors import BadInput\n"
        "from outlast.opening import open_world\n"
        "for scheme in ('postgres', 'postgresql'):\n"
        "    try:\n"
        "        open_world(f'{scheme}://me:secret@db/agents')\n"
        "    except BadInput as error:\n"
        "        print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert said.count("pip install 'outlast[postgres]'") == 2
    assert "secret" not in said
