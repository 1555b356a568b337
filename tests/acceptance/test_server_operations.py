"""What the server does with what it is asked."""

import json
import tarfile
from collections.abc import AsyncGenerator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from outlast.clock import ManualClock
from outlast.errors import BadInput, Refused
from outlast.fold import records_of
from outlast.links import Links, Pass, key_in
from outlast.records import Decided, TurnOpened
from outlast.signing import sign
from outlast.squeezing import unsqueeze
from outlast.world import World
from outlast.worlds.memory import open_memory
from tests.acceptance.door import PAYS, SECRET, Door, opened_door
from tests.unit.engine_desk import say

KEY = b"a key of sixteen bytes, or more"


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


async def _decided(door: Door) -> list[Decided]:
    commits = await door.world.commits("s")
    records = [record for commit in commits for record in records_of("s", commit)]
    return [record for record in records if isinstance(record, Decided)]


async def test_a_prompt_becomes_a_turn_with_a_result(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller", "labels": {"team": "shop"}})
    sent = await door.post("/v1/sessions/s/turns", {"text": json.dumps([say("Hello.")]), "id": "p1"})
    assert sent == {"session": "s", "input": "p1", "turn": None}
    assert (await door.get("/v1/sessions/s/inputs/p1"))["consumed_by"] is None
    await door.work()
    assert (await door.get("/v1/sessions/s/inputs/p1"))["turn"] == 1
    turn = await door.get("/v1/sessions/s/turns/1?wait_s=5")
    assert (turn["status"], turn["result"]["json"]) == ("done", ["Hello."])
    assert [one["turn"] for one in (await door.get("/v1/sessions/s/turns"))["turns"]] == [1]
    again = await door.ask("POST", "/v1/sessions/s/turns", {"text": "another", "id": "p1"})
    assert again.status_code == 409
    missing = await door.ask("GET", "/v1/sessions/s/turns/2")
    assert missing.status_code == 404


async def test_what_would_happen_stands_there_with_all_that_is_known(door: Door) -> None:
    awaited = await door.asked()
    assert (awaited["what"], awaited["call"], awaited["rulings"]) == ("decision", 2, ["allow", "deny"])
    assert awaited["known"]["name"] == "pay"
    assert awaited["known"]["arguments"]["json"] == {"cents": 5}
    assert awaited["known"]["why"] == "it is money"


async def test_a_decision_counts_once_and_stands_with_who_made_it(door: Door) -> None:
    awaited = await door.asked()
    word = {"call": 2, "ruling": "allow", "ask": awaited["ask"]}
    taken = await door.post("/v1/sessions/s/decisions", word)
    other = await door.ask("POST", "/v1/sessions/s/decisions", {**word, "ruling": "deny"})
    assert (other.status_code, "given first" in other.json()["error"]) == (409, True)
    await door.work()
    late = await door.ask("POST", "/v1/sessions/s/decisions", word)
    assert late.status_code == 409
    (decided,) = await _decided(door)
    assert (decided.ruling, decided.by, decided.input) == (
        "allow",
        "default-read-write-decide-admin",
        taken["input"],
    )
    assert (await door.get("/v1/sessions/s/turns/1"))["status"] == "done"
    assert [(what, ids.get("ruling")) for _, what, ids in door.audited] == [("decide", "allow")]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ({"call": 2, "ruling": "run_again"}, 400),
        ({"call": 2, "ruling": "deny", "value": 7}, 400),
        ({"call": 2, "ruling": "deny", "for_turn": True}, 400),
        ({"call": 2, "ruling": "allow", "ask": "2-9"}, 409),
        ({"call": 1, "ruling": "allow"}, 409),
        ({"call": 99, "ruling": "allow"}, 404),
        ({"call": 2, "ruling": "perhaps"}, 400),
        ({"call": 2, "ruling": "allow", "by": "somebody else"}, 400),
    ],
)
async def test_a_word_that_the_call_does_not_wait_for_changes_nothing(
    door: Door, word: dict[str, Any], status: int
) -> None:
    await door.asked()
    answer = await door.ask("POST", "/v1/sessions/s/decisions", word)
    assert answer.status_code == status, answer.text
    assert (await door.get("/v1/sessions/s"))["head"]["waiting_inputs"] == 0


async def test_a_signed_link_decides_once_for_whoever_has_it(door: Door) -> None:
    await door.asked()
    link = await door.post("/v1/sessions/s/approval-links", {"call": 2, "rulings": ["allow"]})
    assert link["url"] == f"https://agents.example/decide/{link['link']}"
    path = f"/v1/decide/{link['link']}"
    for _ in range(3):  # programs look at links before people do
        shown = (await door.http.get(path)).json()
        assert (shown["session"], shown["agent"], shown["awaited"]["rulings"]) == ("s", "teller", ["allow"])
    assert (await door.get("/v1/sessions/s"))["head"]["waiting_inputs"] == 0
    for word in ({"ruling": "deny"}, {"ruling": "allow", "call": 1}, {"ruling": "allow", "for_turn": True}):
        assert (await door.http.post(path, json={"call": 2, **word})).status_code == 403
    used = await door.http.post(path, json={"call": 2, "ruling": "allow"})
    assert used.status_code == 202, used.text
    await door.work()
    assert (await door.http.post(path, json={"call": 2, "ruling": "allow"})).status_code == 409
    assert (await door.http.get(path)).status_code == 409
    (decided,) = await _decided(door)
    assert decided.by == "link of default-read-write-decide-admin"
    assert [what for _, what, _ in door.audited] == ["link", "decide"]
    assert link["link"] not in repr(door.audited)


async def test_a_link_holds_no_longer_than_it_says(world: World, tmp_path: Path, clock: ManualClock) -> None:
    async with opened_door(world, tmp_path, clock=clock) as door:
        await door.asked()
        link = await door.post("/v1/sessions/s/approval-links", {"call": 2, "holds_s": 60})
        clock.turn(61.0)
        answer = await door.http.post(f"/v1/decide/{link['link']}", json={"call": 2, "ruling": "allow"})
        assert (answer.status_code, "time is over" in answer.text) == (409, True)


def test_nothing_of_a_link_can_be_exchanged() -> None:
    allowed = Pass("default", "s", 1, 2, "2-0", ("allow",), 1_000.0, "ann")
    links = Links(KEY)
    text = links.write(allowed)
    assert links.read(text, 999.0) == allowed
    with pytest.raises(Refused):
        links.read(text, 1_001.0)
    other = links.write(Pass("other", "s", 1, 2, "2-0", ("allow",), 1_000.0, "ann"))
    body, _, code = text.partition(".")
    forged = (
        f"{other.partition('.')[0]}.{code}",
        f"{body}.",
        body,
        "",
        ".",
        f"{body}.{code[:-2]}",
        "é.é",
        "a" * 9000,
    )
    for wrong in forged:
        with pytest.raises(BadInput, match="none of this server's"):
            links.read(wrong, 999.0)
    with pytest.raises(BadInput, match="none of this server's"):
        Links(KEY + b"!").read(text, 999.0)
    with pytest.raises(BadInput, match="shorter"):
        Links(b"short")


def test_the_key_of_links_is_made_once_and_closed(tmp_path: Path) -> None:
    file = tmp_path / "server" / "links.key"
    assert key_in(file) == key_in(file) == file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["links.key"]


async def test_the_list_is_searched_filtered_and_paged(door: Door) -> None:
    for number in range(5):
        body = {"session": f"s{number}", "agent": "teller", "labels": {"team": "a" if number % 2 else "b"}}
        await door.post("/v1/sessions", body)
    await door.asked("asked")
    first = await door.get("/v1/sessions?limit=4")
    rest = await door.get(f"/v1/sessions?limit=4&after={first['next']}")
    names = [one["session"] for one in (*first["sessions"], *rest["sessions"])]
    assert names == ["asked", "s4", "s3", "s2", "s1", "s0"]
    assert rest["next"] is None

    async def found(query: str) -> list[str]:
        return [one["session"] for one in (await door.get(f"/v1/sessions?{query}"))["sessions"]]

    assert await found("state=parked") == await found("state=open") == ["asked"]
    assert len(await found("state=idle")) == 5
    assert await found("q=S3") == ["s3"]
    assert await found("label=team=a") == ["s3", "s1"]
    assert await found("label=team=a&q=3&agent=teller") == ["s3"]
    assert await found("agent=other") == []
    for wrong in ("limit=0", "limit=x", "state=odd", "label=odd", "q=a&q=b"):
        assert (await door.ask("GET", f"/v1/sessions?{wrong}")).status_code == 400


async def test_a_forged_place_in_the_list_is_an_error_and_no_more(door: Door) -> None:
    await door.asked()
    for after in ("x", "-1", "9" * 150, "1.5", "' or 1=1", "%00", "\u2028"):
        answer = await door.ask("GET", "/v1/sessions", params={"after": after})
        assert answer.status_code in {200, 400}, answer.text


async def test_an_edit_of_a_document_fits_a_version_or_changes_nothing(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    path = "/v1/sessions/s/documents/plan"
    assert (await door.ask("GET", path)).status_code == 404
    edit = {"edits": [{"op": "set", "value": {"a": 1}}], "if_version": 0}
    made = await door.ask("PATCH", path, edit)
    assert made.json()["document"] == {"name": "plan", "version": 1, "value": {"a": 1}}
    assert (await door.ask("PATCH", path, edit)).status_code == 409
    await door.ask(
        "PATCH", path, {"edits": [{"op": "merge", "value": {"b": 2}}, {"op": "delete", "path": "/a"}]}
    )
    assert (await door.get(path))["value"] == {"b": 2}
    assert await door.get("/v1/sessions/s/documents") == {"documents": {"plan": 2}}
    assert (await door.ask("PATCH", path, {"edits": []})).status_code == 400
    assert (await door.ask("PATCH", "/v1/sessions/s/documents/..", edit)).status_code in {404, 405, 409}


async def test_an_export_holds_every_commit_and_every_blob(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    long = json.dumps([say("word " * 40_000)])
    await door.post("/v1/sessions/s/turns", {"text": long})
    await door.work()
    await door.post("/v1/sessions/s/turns", {"text": PAYS, "id": "waits"})
    answer = await door.ask("GET", "/v1/sessions/s/export")
    assert answer.status_code == 200
    with tarfile.open(fileobj=BytesIO(answer.content)) as archive:
        files = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        data = {name: b"" if file is None else file.read() for name, file in files.items()}
    commits = await door.world.commits("s")
    lines = [
        json.loads(line) for name in data if name.startswith("commits/") for line in data[name].splitlines()
    ]
    assert [line["header"]["seq"] for line in lines] == [one.header.seq for one in commits]
    assert [line["records"] for line in lines] == [json.loads(unsqueeze(one.body)) for one in commits]
    refs = {ref for one in commits for ref in one.header.refs}
    assert refs == {name.removeprefix("blobs/") for name in data if name.startswith("blobs/")} != set()
    for ref in refs:
        blob = await door.ask("GET", f"/v1/sessions/s/blobs/{ref}")
        assert blob.content == data[f"blobs/{ref}"]
    assert json.loads(data["inputs/00000001.json"])["id"] == "waits"
    assert (data["missing.ndjson"], json.loads(data["outlast.json"])["seq"]) == (b"", len(commits))
    assert [what for _, what, _ in door.audited] == ["export"]


async def test_a_fork_goes_on_from_a_call_and_an_erased_session_is_gone(door: Door) -> None:
    await door.asked()
    seq = (await door.get("/v1/sessions/s"))["head"]["seq"]
    made = await door.ask("POST", "/v1/sessions/s/forks", {"at": seq, "session": "f"})
    assert (made.status_code, made.json()["forked_from"], made.json()["forked_at"]) == (201, "s", seq)
    assert (await door.ask("POST", "/v1/sessions/s/forks", {"at": seq + 99})).status_code == 404
    assert (await door.ask("DELETE", "/v1/sessions/s")).status_code == 409  # its turn is open
    gone = await door.ask("DELETE", "/v1/sessions/s?force=true")
    assert gone.json() == {"session": "s", "left": []}
    assert (await door.ask("GET", "/v1/sessions/s")).status_code == 404
    assert (await door.ask("POST", "/v1/sessions", {"session": "s", "agent": "teller"})).status_code == 404
    assert (await door.get("/v1/sessions/f"))["turns"] == 1
    assert [what for _, what, _ in door.audited] == ["fork", "erase"]


async def test_a_turn_is_steered_cancelled_and_let_go_by_its_number_alone(door: Door) -> None:
    await door.asked()
    assert (
        await door.ask("POST", "/v1/sessions/s/retries", {})
    ).status_code == 409  # it waits for a decision
    assert (await door.ask("POST", "/v1/sessions/s/cancels", {"turn": 7})).status_code == 404
    await door.post("/v1/sessions/s/steers", {"text": "Slowly."})
    await door.post("/v1/sessions/s/signals", {"name": "ci", "value": {"green": True}})
    assert (await door.post("/v1/sessions/s/cancels", {"reason": "enough"}))["turn"] == 1
    await door.work()
    assert (await door.get("/v1/sessions/s/turns/1"))["status"] == "cancelled"
    assert (await door.ask("POST", "/v1/sessions/s/cancels", {})).status_code == 404


async def test_everything_about_a_call_stands_together(door: Door) -> None:
    await door.asked()
    await door.post("/v1/sessions/s/decisions", {"call": 2, "ruling": "allow"})
    await door.work()
    call = await door.get("/v1/sessions/s/calls/2")
    assert (call["name"], call["status"], call["ruling"], call["begun"]) == ("pay", "ok", "allow", 1)
    assert call["result"]["json"] == "paid 5"
    assert (await door.ask("GET", "/v1/sessions/s/calls/99")).status_code == 404
    for wrong in ("0x1", "-1", "9" * 30, "١"):
        assert (await door.ask("GET", f"/v1/sessions/s/calls/{wrong}")).status_code == 400


async def test_schedules_are_set_listed_and_removed(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    path = "/v1/sessions/s/schedules"
    assert (
        await door.ask("PUT", f"{path}/nightly", {"text": "Tidy up.", "cron": "0 3 * * *"})
    ).status_code == 200
    (one,) = (await door.get(path))["schedules"]
    assert (one["name"], one["cron"], one["prompt"]["json"]) == ("nightly", "0 3 * * *", "Tidy up.")
    for wrong in ({}, {"text": "x"}, {"text": "x", "cron": "never"}, {"text": "x", "at_s": 1, "every_s": 60}):
        assert (await door.ask("PUT", f"{path}/other", wrong)).status_code == 400
    assert (await door.ask("DELETE", f"{path}/nightly")).status_code == 204
    assert (await door.get(path))["schedules"] == []


async def test_a_webhook_is_believed_by_its_signature_alone(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    body = json.dumps({"session": "s", "signal": "ci", "value": 1}).encode()
    headers = sign(SECRET, "run-1", body, door.clock.now())
    first = await door.http.post("/v1/webhook", content=body, headers=headers)
    again = await door.http.post("/v1/webhook", content=body, headers=headers)
    assert (first.status_code, first.json()) == (202, again.json())
    assert (await door.get("/v1/sessions/s"))["head"]["waiting_inputs"] == 1
    for wrong in (
        {},
        {**headers, "webhook-id": "run-2"},
        sign("other secret", "run-3", body, door.clock.now()),
    ):
        assert (await door.http.post("/v1/webhook", content=body, headers=wrong)).status_code == 401
    odd = b"no JSON"
    signed = sign(SECRET, "run-4", odd, door.clock.now())
    assert (await door.http.post("/v1/webhook", content=odd, headers=signed)).status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b'{"text": 1}', b'{"text": ""}', b'{"text": "a", "txt": 1}', b"\xff\xfe{",
     b'{"text": "\\ud800"}', b'{"text": "\xed\xa0\x80"}', b'{"text": ' + b"[" * 200_000, b'{"text": "a", "id": ""}'],
)  # fmt: skip
async def test_a_body_that_is_none_is_an_error_that_says_so(door: Door, body: bytes) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    headers = {"authorization": f"Bearer {door.token()}"}
    answer = await door.http.post("/v1/sessions/s/turns", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]
    assert (await door.get("/v1/sessions/s"))["head"]["waiting_inputs"] == 0


async def test_a_body_is_as_long_as_its_operation_takes_and_no_longer(door: Door) -> None:
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    steer = await door.ask("POST", "/v1/sessions/s/steers", {"text": "x" * (1024 * 1024)})
    assert steer.status_code == 413
    prompt = await door.ask("POST", "/v1/sessions/s/turns", {"text": "x" * (2 * 1024 * 1024)})
    assert prompt.status_code == 202


async def test_the_audit_says_who_did_what_and_nothing_of_what_was_said(door: Door) -> None:
    awaited = await door.asked()
    word = {"call": 2, "ruling": "deny", "value": "too much money", "ask": awaited["ask"]}
    await door.post("/v1/sessions/s/decisions", word)
    ((who, what, ids),) = door.audited
    assert (who, what) == ("default-read-write-decide-admin", "decide")
    assert set(ids) == {"session", "call", "ruling", "input"}
    assert "money" not in repr(door.audited)


async def test_a_method_that_an_address_does_not_take_is_told_which_it_takes(door: Door) -> None:
    answer = await door.ask("PUT", "/v1/sessions/s")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET")
    assert (await door.http.get("/v1/nowhere")).status_code == 404


async def test_a_turn_stands_beneath_the_span_that_asked_for_it(door: Door) -> None:
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await door.post("/v1/sessions", {"session": "s", "agent": "teller"})
    body = {"text": json.dumps([say("Hello.")])}
    await door.ask("POST", "/v1/sessions/s/turns", body, headers={"traceparent": caller})
    await door.ask("POST", "/v1/sessions/s/turns", body, headers={"traceparent": "nonsense"})
    await door.work()
    commits = await door.world.commits("s")
    found = [record for commit in commits for record in records_of("s", commit)]
    assert [one.traceparent for one in found if isinstance(one, TurnOpened)] == [caller, ""]
