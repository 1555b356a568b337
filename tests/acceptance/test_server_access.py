"""Who may ask the server for what: every operation of its table, with no token, with too little, with another's."""

import stat
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from outlast.clock import ManualClock
from outlast.errors import BadInput, NotFound, WorldUnavailable
from outlast.ids import sha256
from outlast.server.access import COOKIE, Scope
from outlast.server.limits import Buckets, Limits, Rate
from outlast.server.openapi import openapi
from outlast.server.operations import Nothing, Operation
from outlast.server.table import OPERATIONS
from outlast.server.tokens import Tokens
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.acceptance.door import PAYS, THEIRS, Door, filled, opened_door
from tests.http_reference import PAGE, written

PAGE_SENDS = {"x-outlast": "page"}
GUARDED = [one for one in OPERATIONS if one.scope is not None]
OF_A_SESSION = [one for one in GUARDED if "{session}" in one.path or "{chat}" in one.path]
CHANGING = [one for one in GUARDED if one.method != "GET"]


def _name(one: Operation) -> str:
    return f"{one.method} {one.path}"


def _body(one: Operation) -> object:
    """Something that the operation takes."""
    bodies: dict[str, object] = {
        "Open": {"session": "s", "agent": "teller"},
        "Prompt": {"text": "hi"},
        "Steer": {"text": "hi"},
        "Cancel": {},
        "Decision": {"call": 2, "ruling": "allow"},
        "Signal": {"name": "ci"},
        "Retry": {},
        "Schedule": {"text": "hi", "every_s": 3600},
        "Edit": {"edits": [{"op": "set", "value": 1}]},
        "Fork": {},
        "LinkWanted": {"call": 2},
    }
    return None if one.body is Nothing else bodies.get(one.body.__name__, {})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    """By the test's own clock if it asks for that, else by the machine's."""
    own: ManualClock | None = request.getfixturevalue("clock") if "clock" in request.fixturenames else None
    async with open_memory(clock=own) as memory:
        yield memory


@pytest.fixture
async def door(world: World, tmp_path: Path) -> AsyncGenerator[Door]:
    async with opened_door(world, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("one", GUARDED, ids=_name)
async def test_nobody_is_answered_without_a_token(door: Door, one: Operation) -> None:
    for headers in ({}, {"authorization": "Bearer ol_wrong"}, {"authorization": "Basic b2w6b2w="}):
        answer = await door.http.request(one.method, filled(one), headers=headers)
        assert answer.status_code == 401, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "authorization: Bearer" in answer.json()["error"]


@pytest.mark.parametrize("one", GUARDED, ids=_name)
async def test_a_token_without_the_scope_is_refused(door: Door, one: Operation) -> None:
    others = [scope for scope in Scope if scope is not one.scope]
    answer = await door.ask(one.method, filled(one), _body(one), scopes=others)
    assert answer.status_code == 403
    assert f"'{one.scope}'" in answer.json()["error"]


@pytest.mark.parametrize("one", CHANGING, ids=_name)
async def test_what_changes_something_by_cookie_must_come_from_the_page(door: Door, one: Operation) -> None:
    headers = {"cookie": f"{COOKIE}={door.token()}"}
    foreign = await door.http.request(one.method, filled(one), headers=headers)
    assert foreign.status_code == 403
    assert "x-outlast: page" in foreign.json()["error"]
    own = await door.http.request(one.method, filled(one), headers={**headers, "x-outlast": "page"})
    assert own.status_code not in {401, 403}, own.text


async def test_the_page_reads_by_its_cookie(door: Door) -> None:
    login = await door.http.post("/v1/login", json={"token": door.token()}, headers=PAGE_SENDS)
    assert login.status_code == 200
    cookie = login.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "; Secure" in cookie  # its public address is https
    assert (await door.http.get("/v1/whoami", headers={"cookie": cookie.split(";")[0]})).status_code == 200
    assert (
        await door.http.post("/v1/login", json={"token": "ol_wrong"}, headers=PAGE_SENDS)
    ).status_code == 401
    assert 'outlast=""' in (await door.http.post("/v1/logout", headers=PAGE_SENDS)).headers["set-cookie"]


@pytest.mark.parametrize("path", ["/v1/login", "/v1/logout"])
async def test_no_form_of_another_site_changes_who_somebody_is_here(door: Door, path: str) -> None:
    body = f'{{"token": "{door.token()}", "": "="}}'  # as `enctype="text/plain"` sends it
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"):
        answer = await door.http.post(path, content=body, headers={"content-type": kind})
        assert answer.status_code == 403
        assert "x-outlast: page" in answer.json()["error"]
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("one", OF_A_SESSION, ids=_name)
async def test_another_tenant_s_session_is_answered_as_one_that_never_was(door: Door, one: Operation) -> None:
    await door.asked("s")
    before = await door.get("/v1/sessions/s")
    theirs = await door.ask(one.method, filled(one), _body(one), tenant=THEIRS)
    never = await door.ask(one.method, filled(one, session="never", chat="never"), _body(one), tenant=THEIRS)
    assert theirs.status_code == never.status_code, theirs.text
    assert theirs.status_code == 404 or (
        theirs.status_code == 204 and not theirs.content
    )  # of a chat: no stream
    assert theirs.text.replace("'s'", "X") == never.text.replace("'never'", "X")
    assert await door.get("/v1/sessions/s") == before


async def test_a_tenant_s_lists_and_metrics_show_nothing_of_another(door: Door) -> None:
    await door.asked("s")
    assert await door.get("/v1/sessions", tenant=THEIRS) == {"sessions": [], "next": None}
    assert (await door.get("/v1/sessions?q=s&label=a=b", tenant=THEIRS))["sessions"] == []
    metrics = (await door.ask("GET", "/metrics", tenant=THEIRS)).text
    assert "teller" not in metrics
    assert "send_prompt" not in metrics
    mine = (await door.ask("GET", "/metrics")).text
    assert 'outlast_sessions{agent="teller",state="decision"} 1' in mine
    assert 'outlast_requests_total{operation="send_prompt",status="202"} 1' in mine


async def test_a_session_of_the_same_name_is_another_tenant_s_own(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"}, tenant=THEIRS)
    await door.post("/v1/sessions/s/turns", {"text": PAYS}, tenant=THEIRS)
    assert (await door.get("/v1/sessions/s"))["head"]["waiting_inputs"] == 0
    assert (await door.get("/v1/sessions/s", tenant=THEIRS))["head"]["waiting_inputs"] == 1


SAYS = {"id": "m1", "role": "user", "content": "hi", "parts": [{"type": "text", "text": "hi"}]}
DECIDES = {"interruptId": "call-2-0", "status": "resolved", "payload": True}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {"id": "s", "messages": [SAYS]}),
        ("/v1/ag-ui", {"threadId": "s", "runId": "r", "messages": [SAYS]}),
        ("/v1/ag-ui", {"threadId": "s", "runId": "r", "messages": [SAYS], "resume": [DECIDES]}),
    ],
)
async def test_a_front_end_of_another_tenant_reaches_none_of_my_sessions(
    door: Door, path: str, body: dict[str, object]
) -> None:
    await door.asked("s")
    before = await door.get("/v1/sessions/s")
    theirs = await door.ask("POST", path, body, tenant=THEIRS)
    never = await door.ask(
        "POST", path, {**body, ("id" if "id" in body else "threadId"): "never"}, tenant=THEIRS
    )
    assert theirs.status_code == never.status_code in {400, 404}
    assert theirs.text.replace("'s'", "X") == never.text.replace("'never'", "X")
    assert await door.get("/v1/sessions/s") == before


async def test_every_answer_says_what_a_browser_may_do_with_it(door: Door) -> None:
    for path in ("/healthz", "/v1/sessions", "/nowhere"):
        headers = (await door.http.get(path)).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert not [name for name in headers if name.startswith("access-control")]


async def test_who_asks_too_often_is_told_when_to_come_back(
    world: World, tmp_path: Path, clock: ManualClock
) -> None:
    limits = Limits(known=Rate(1.0, 3.0), unknown=Rate(1.0, 2.0))
    async with opened_door(world, tmp_path, clock=clock, limits=limits) as door:
        assert [(await door.ask("GET", "/v1/whoami")).status_code for _ in range(4)] == [200, 200, 200, 429]
        late = await door.ask("GET", "/v1/whoami")
        assert late.headers["retry-after"] == "1"
        assert (await door.ask("GET", "/v1/whoami", tenant=THEIRS)).status_code == 200
        clock.turn(1.0)
        assert (await door.ask("GET", "/v1/whoami")).status_code == 200
        wrong = {"authorization": "Bearer ol_wrong"}
        found = [(await door.http.get("/v1/whoami", headers=wrong)).status_code for _ in range(3)]
        assert found == [401, 401, 429]
        assert (
            await door.ask("GET", "/v1/whoami", tenant=THEIRS)
        ).status_code == 200  # from the same address
        assert (
            await door.http.post("/v1/login", json={"token": "ol_wrong"}, headers=PAGE_SENDS)
        ).status_code == 429
        assert (await door.http.get("/healthz")).status_code == 200


def test_a_bucket_holds_a_burst_and_fills_at_its_rate(clock: ManualClock) -> None:
    buckets = Buckets(Rate(2.0, 3.0), clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b") == 0.0
    clock.turn(0.5)
    assert buckets.take("a") == 0.0
    clock.turn(3600.0)
    assert [buckets.take("a") > 0 for _ in range(4)] == [False, False, False, True]


async def test_a_token_stands_nowhere_but_with_who_holds_it(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "deep" / "tokens.json"
    tokens = Tokens(file)
    token = tokens.add("ann", clock, tenant="shop", scopes=[Scope.READ])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert token not in file.read_text()
    assert [entry.name for entry in file.parent.iterdir()] == ["tokens.json"]
    other = Tokens(file)  # as another process reads it
    identity = await other.identify(token)
    assert identity is not None
    assert (identity.name, identity.tenant, identity.scopes) == ("ann", "shop", frozenset({Scope.READ}))
    for wrong in ("", token[:-1], f"{token}x", token.upper(), "ol_" + "é" * 43, "x" * 100_000):
        assert await other.identify(wrong) is None
    tokens.remove("ann")
    assert await other.identify(token) is None


def test_two_tokens_never_share_a_name(tmp_path: Path, clock: ManualClock) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("ann", clock)
    with pytest.raises(BadInput, match="called 'ann' already"):
        tokens.add("ann", clock)
    for name in ("", "a\nb", "x" * 101):
        with pytest.raises(BadInput):
            tokens.add(name, clock)
    with pytest.raises(NotFound):
        tokens.remove("bob")


def test_tokens_that_are_made_at_once_are_all_there_and_one_is_the_first(
    tmp_path: Path, clock: ManualClock
) -> None:
    file, start = tmp_path / "deep" / "tokens.json", Barrier(16)

    def make(number: int) -> tuple[str, str]:
        tokens = Tokens(file)  # as another process has it
        start.wait()
        return tokens.add_first("first", clock), tokens.add(f"t{number}", clock)

    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(make, range(16)))
    assert len([first for first, _ in made if first]) <= 1
    rows = {row.name: row.hash for row in Tokens(file).rows()}
    assert {sha256(token.encode()) for pair in made for token in pair if token} == set(rows.values())
    assert {f"t{number}" for number in range(16)} <= set(rows)


async def test_a_token_file_that_cannot_be_read_lets_nobody_in_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text("no JSON")
    with pytest.raises(WorldUnavailable, match="token file"):
        await Tokens(file).identify("ol_x")


def test_every_operation_has_its_own_name_and_says_what_it_does() -> None:
    document = openapi(OPERATIONS)
    found = [one for methods in document["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in found]
    assert len(found) == len(OPERATIONS) == len(set(names))
    assert all(one["summary"] for one in found)


def test_the_reference_page_lists_every_operation() -> None:
    page = PAGE.read_text()
    assert page == written(page), "python -m tests.http_reference"
