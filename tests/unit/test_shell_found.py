"""What became of a line of shell, from what was looked up: only what the facts bear is concluded."""

import base64
from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from outlast.adapters.shell import judge
from outlast.adapters.shell_found import (
    Finding,
    Line,
    Listed,
    found_at_forge,
    found_here,
    found_there,
    goal_of,
)
from outlast.adapters.shell_inquiry import verdict_of
from outlast.adapters.shell_looks import Facts, complaint_of, read_facts, reference_of
from outlast.inquiry import Partly
from outlast.tool import Done, NotDone, Unsure

OLD, NEW, OTHER = "a" * 40, "b" * 40, "c" * 40
BEFORE: Facts = {
    "machine": "one",
    "now": "1000",
    "p0.top": "/shop",
    "p0.head": OLD,
    "p0.parents": "",
    "p0.branch": "refs/heads/main",
    "a0.remote": "origin",
    "a0.own": "origin",
    "a0.urls": "1",
    "a0.target": "refs/heads/main",
    "a0.commit": OLD,
    "a0.seen": OTHER,
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def log(*made: tuple[str, str, str]) -> str:
    return encoded("".join(f"\x1e{commit}\x1f{parent}\x1f{message}" for commit, parent, message in made))


def line(command: str, after: Mapping[str, str], **before: str) -> Line:
    noted = {**BEFORE, **{key.replace("_", "."): value for key, value in before.items()}}
    return Line(judge(command).acts, noted, {**noted, "p0.log": log((OLD, "", "one\n")), **after})


LANDED = {"p0.head": NEW, "p0.log": log((NEW, OLD, "two\n\nmore\n"), (OLD, "", "one\n"))}


@pytest.mark.parametrize(
    ("command", "after", "state"),
    [
        ("git commit -m two", {}, "not_done"),
        ("git commit -m two", LANDED, "done"),
        ("git commit -m 'two  '", LANDED, "done"),
        ("git commit -F x", LANDED, "done"),
        ("git commit -m three", LANDED, "unsure"),
        ("git commit -m two", {"p0.head": NEW, "p0.log": log((NEW, OTHER, "two"))}, "unsure"),
        ("git commit -m two", {"p0.head": NEW, "p0.log": ""}, "unsure"),
        ("git commit -m two", {"p0.head": NEW, "p0.log": "no base64"}, "unsure"),
        ("git commit -m two", {"p0.top": "/other"}, "unsure"),
        ("git commit -m two", {"p0.top": ""}, "unsure"),
        ("git commit -m two", {"machine": "two"}, "not_done"),
        ("git commit --amend -m two", {}, "not_done"),
        ("git commit --amend -m two", {**LANDED, "p0.parents": ""}, "done"),
        ("git commit --amend -m two", {**LANDED, "p0.parents": OLD}, "unsure"),
        ("git checkout -b x", {}, "not_done"),
        ("git checkout -b x", {"p0.branch": "refs/heads/x"}, "done"),
        ("git checkout -b main", {}, "not_done"),
    ],
)
def test_what_is_here(command: str, after: Mapping[str, str], state: str) -> None:
    assert found_here(line(command, after), 0).state == state


def test_a_branch_that_was_made_and_not_gone_to_is_not_made_again() -> None:
    found = found_here(line("git switch -c x", {"a0.ref": OLD}), 0)
    assert (found.state, found.harmless, found.left) == ("not_done", False, ("git switch x",))


@pytest.mark.parametrize(
    ("command", "remote", "ref", "commit"),
    [
        ("git push", "origin", "refs/heads/main", OLD),
        ("git push origin", "origin", "refs/heads/main", OLD),
        ("git push origin main", "origin", "refs/heads/main", OLD),
        ("git push origin HEAD", "origin", "refs/heads/main", OLD),
        ("git push origin @:x", "origin", "refs/heads/x", OLD),
        ("git push origin main:refs/heads/y", "origin", "refs/heads/y", OLD),
    ],
)
def test_where_a_push_goes(command: str, remote: str, ref: str, commit: str) -> None:
    goal = goal_of(line(command, {}), 0)
    assert (goal.remote, goal.ref, goal.commit, goal.unknown) == (remote, ref, commit, "")


def test_another_branch_or_a_tag_is_pushed_as_it_is_named() -> None:
    tag = goal_of(line("git push origin v1", {}, a0_source="refs/tags/v1", a0_commit=NEW), 0)
    assert (tag.ref, tag.commit) == ("refs/tags/v1", NEW)
    other = goal_of(line("git push origin x:y", {}, a0_source="refs/heads/x", a0_commit=NEW), 0)
    assert (other.ref, other.commit) == ("refs/heads/y", NEW)


@pytest.mark.parametrize(
    ("command", "before"),
    [
        ("git push", {"a0_remote": ""}),
        ("git push", {"a0_urls": "2"}),
        ("git push", {"a0_default": "matching"}),
        ("git push", {"p0_branch": "", "a0_target": ""}),
        ("git push origin abcdef:x", {"a0_source": ""}),
    ],
)
def test_where_a_push_goes_that_nobody_can_tell(command: str, before: Mapping[str, str]) -> None:
    assert goal_of(line(command, {}, **before), 0).unknown


SEEN = {"what was pushed": OLD, "what was seen there": OTHER, "nothing": "", "something else": NEW}


@pytest.mark.parametrize(("force", "there"), list(product([False, True], SEEN)))
def test_a_push_is_only_made_again_where_that_can_do_no_harm(*, force: bool, there: str) -> None:
    on = line("git push --force" if force else "git push", {})
    found = found_there(on, 0, goal_of(on, 0), SEEN[there])
    wanted = {
        "what was pushed": "done",
        "what was seen there": "not_done",
        "nothing": "unsure" if force else "not_done",
        "something else": "unsure" if force else "not_done",
    }[there]
    assert (found.state, found.harmless) == (wanted, True)


def test_a_push_of_what_is_gone_here_is_not_simply_made_again() -> None:
    """The files were brought back to before a commit of this very turn."""
    on = line("git push", {"machine": "two", "p0.head": OTHER})
    found = found_there(on, 0, goal_of(on, 0), OTHER)
    assert (found.state, found.harmless) == ("not_done", False)


BOTH = "git commit -m two && git push"


@pytest.mark.parametrize("there", [OTHER, OLD, ""])
def test_a_push_whose_commit_is_gone_here_did_not_land_where_what_was_seen_stands(there: str) -> None:
    on = line(
        BOTH,
        {"machine": "two"},
        a1_remote="origin",
        a1_own="origin",
        a1_target="refs/heads/main",
        a1_seen=OTHER,
    )
    assert found_there(on, 1, goal_of(on, 1), there).state == "not_done"
    assert found_there(on, 1, goal_of(on, 1), NEW).state == "unsure"


def test_what_follows_on_what_was_not_done_has_not_begun() -> None:
    on = line(BOTH, {})
    on.findings.append(found_here(on, 0))
    unbegun = on.unbegun(1)
    assert unbegun is not None
    assert unbegun.state == "not_done"
    apart = line("git commit -m two; git push", {})
    apart.findings.append(found_here(apart, 0))
    assert apart.unbegun(1) is None
    # Where the files were brought back they tell nothing of what came after.
    back = line(BOTH, {"machine": "two"})
    back.findings.append(found_here(back, 0))
    assert back.unbegun(1) is None


@pytest.mark.parametrize(
    ("command", "listed", "state"),
    [
        ("gh pr create -t x -B main", Listed(7, "u", "OPEN", "x", "main", 1000), "done"),
        ("gh pr create --fill", Listed(7, "u", "MERGED", "y", "main", 2000), "done"),
        ("gh pr create -t x", Listed(7, "u", "OPEN", "y", "main", 1000), "not_done"),
        ("gh pr create -t x -B dev", Listed(7, "u", "OPEN", "x", "main", 1000), "not_done"),
        ("gh pr create -t x", Listed(7, "u", "CLOSED", "x", "main", 10), "not_done"),
        ("gh pr create -t x", None, "not_done"),
    ],
)
def test_what_a_forge_has(command: str, listed: Listed | None, state: str) -> None:
    found = found_at_forge(line(command, {}), 0, "feat", [] if listed is None else [listed])
    assert found.state == state


DID, DID_NOT, UNKNOWN = Finding("done", "a"), Finding("not_done", "b", ("git push",)), Finding("unsure", "c")


@pytest.mark.parametrize(
    ("findings", "after", "kind"),
    [
        ([DID, DID], {}, Done),
        ([DID_NOT, DID_NOT], {}, NotDone),
        ([DID, DID_NOT], {}, Partly),
        ([DID_NOT, DID], {}, Partly),
        ([DID, UNKNOWN], {}, Unsure),
        ([DID_NOT, UNKNOWN], {}, Unsure),
        ([DID_NOT, DID_NOT], {"p0.lock": "/shop/.git/index.lock"}, Partly),
        ([DID, DID], {"p0.lock": "/shop/.git/index.lock"}, Done),
        ([DID_NOT, Finding("not_done", "b", harmless=False)], {}, Partly),
    ],
)
def test_what_is_done_about_a_line(findings: Sequence[Finding], after: Facts, kind: type) -> None:
    on = line(BOTH, after)
    on.findings.extend(findings)
    assert type(verdict_of(on)) is kind


def test_a_reference_is_told_from_others_that_end_like_it() -> None:
    said = f"warning: slow\n{NEW}\trefs/heads/x/refs/heads/main\n{OLD}\trefs/heads/main\n"
    assert reference_of({"status": "0", "heard": encoded(said)}, "refs/heads/main") == OLD
    assert reference_of({"status": "0", "heard": ""}, "refs/heads/main") == ""
    assert reference_of({"status": "128", "heard": encoded(said)}, "refs/heads/main") is None
    assert reference_of({}, "refs/heads/main") is None


def test_a_complaint_has_no_credentials() -> None:
    said = "fatal: unable to access\n'https://me:s3cret@forge.test/x/'"
    assert complaint_of({"heard": encoded(said)}) == "fatal: unable to access 'https://forge.test/x/'"


def test_facts_are_read_whatever_else_is_said() -> None:
    assert read_facts("a\tb\nnoise\na\tc\n\td\n") == {"a": "b\nc", "": "d"}
