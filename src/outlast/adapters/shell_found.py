"""What became of the commands of a line of shell, from what was looked up before it began and after it was cut off.

Pure. `found` says it of one act after the other; what another repository or a forge must be asked for is given as a
function that was asked before.

Invariants:

1. Where the machine is another one, or the sandbox was made anew, nothing is concluded from what its files do not hold:
   they may have been brought back to before the line began.
2. What was not looked up is not concluded: `not_done` says what stands there instead. It is
   `harmless` only if running the whole line again can do no more than it would have done the first time: a push is
   refused, brings what it was to bring, or has nothing to bring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from outlast.adapters.shell_acts import Act, Branch, Commit, PullRequest, Push
from outlast.adapters.shell_looks import Facts, Made, log_of, places_of

State: TypeAlias = Literal["done", "not_done", "unsure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one act."""

    state: State
    said: str
    """A sentence or more, without a full stop at its end."""
    left: Sequence[str] = ()
    """Commands that are left to be run, for all of what was wanted to be so."""
    harmless: bool = True
    """Of what is not done: the line may run again as it is."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a push was to bring what."""

    remote: str = ""
    ref: str = ""
    commit: str = ""
    """Empty: a commit that is not there any more."""
    seen: str = ""
    """Where the reference was when git last looked; empty: nowhere."""
    forced: bool = False
    unknown: str = ""
    """Why nobody can say."""


@dataclass(slots=True)
class Line:
    """A line of shell, and what was found of it so far."""

    acts: Sequence[Act]
    before: Facts
    after: Facts
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def same(self) -> bool:
        """It is looked at where it ran, and its files are as it left them."""
        return self.before.get("machine", "") == self.after.get("machine", "")

    def place(self, n: int) -> str:
        return f"p{places_of(self.acts).index(tuple(self.acts[n].entered))}"

    def earlier(self, n: int, kind: type) -> Sequence[int]:
        """The acts before the n-th that are of this kind, in the same directory."""
        return [
            m
            for m in range(n)
            if isinstance(self.acts[m].deed, kind)
            and tuple(self.acts[m].entered) == tuple(self.acts[n].entered)
        ]

    def branch(self, n: int) -> str:
        """The branch that the n-th act meant by HEAD; empty: none."""
        made = self.earlier(n, Branch)
        if made:
            deed = self.acts[made[-1]].deed
            assert isinstance(deed, Branch)
            return f"refs/heads/{deed.name}"
        return self.before.get(f"{self.place(n)}.branch", "")

    def unbegun(self, n: int) -> Finding | None:
        """That the n-th act did not begin, where the one before it did not succeed and this can be known."""
        if n and self.same and self.acts[n].follows and self.findings[n - 1].state == "not_done":
            harmless = self.findings[n - 1].harmless
            return Finding(
                "not_done", f"`{shown(self.acts[n])}` had not begun", (typed(self.acts[n]),), harmless
            )
        return None

    def unseen(self, n: int) -> Finding | None:
        """That nothing can be said of the n-th act, since it was not in the repository that is there."""
        top = f"{self.place(n)}.top"
        before, after = self.before.get(top, ""), self.after.get(top, "")
        if before and before == after:
            return None
        why = (
            "there was no repository that could be looked at before it began"
            if not before
            else "the repository is gone"
        )
        return Finding("unsure", f"`{shown(self.acts[n])}`: {why}")


def typed(act: Act) -> str:
    """An act with what the line has before it, as it can be typed where that was."""
    return " && ".join([*act.before, act.text])


def shown(act: Act) -> str:
    """An act in a few words."""
    first = act.text.partition("\n")[0]
    return first if len(first) <= 80 else f"{first[:77]}..."


def short(commit: str) -> str:
    """A commit as it is named to a reader."""
    return commit[:10] or "nothing"


# ---------------------------------------------------------------- here


def found_here(line: Line, n: int) -> Finding:
    """Of a commit or a new branch."""
    unseen = line.unseen(n) or line.unbegun(n)
    if unseen is not None:
        return unseen
    deed = line.acts[n].deed
    if not line.same:
        return _undone(line, n)
    if isinstance(deed, Branch):
        return _branched(line, n, deed)
    assert isinstance(deed, Commit)
    return _amended(line, n, deed) if deed.amends else _committed(line, n, deed)


def _undone(line: Line, n: int) -> Finding:
    place, name = line.place(n), shown(line.acts[n])
    before, after = (facts.get(f"{place}.head", "") for facts in (line.before, line.after))
    said = f"`{name}`: nothing of it is left here, where HEAD is at {short(after)}"
    return Finding("not_done", said, (typed(line.acts[n]),), harmless=before == after)


def _branched(line: Line, n: int, deed: Branch) -> Finding:
    place, ref = line.place(n), f"refs/heads/{deed.name}"
    was, now = (facts.get(f"{place}.branch", "") for facts in (line.before, line.after))
    left = (typed(line.acts[n]),)
    if now == ref and was != ref:
        return Finding("done", f"`{shown(line.acts[n])}`: HEAD is on {deed.name}")
    existed, exists = (bool(facts.get(f"a{n}.ref", "")) for facts in (line.before, line.after))
    if exists and not existed:
        switch = f"git switch {deed.name}"
        return Finding(
            "not_done", f"the branch {deed.name} was made, and HEAD is not on it", (switch,), harmless=False
        )
    return Finding("not_done", f"`{shown(line.acts[n])}`: HEAD is not on {deed.name}", left)


def _committed(line: Line, n: int, deed: Commit) -> Finding:
    place, act = line.place(n), line.acts[n]
    base, log = line.before.get(f"{place}.head", ""), log_of(line.after, f"{place}.log")
    nth = len(line.earlier(n, Commit))
    wanted = len(
        [
            one
            for one in line.acts
            if isinstance(one.deed, Commit) and tuple(one.entered) == tuple(act.entered)
        ]
    )
    new = _since(log, base, wanted)
    if new is None:
        now = line.after.get(f"{place}.head", "")
        said = f"HEAD is at {short(now)}, which does not come from {short(base)} by this command alone"
        return Finding("unsure", f"`{shown(act)}`: {said}")
    if nth >= len(new):
        return Finding(
            "not_done", f"`{shown(act)}`: no commit was made, HEAD is at {short(base)}", (typed(act),)
        )
    return _with_message(act, new[nth], deed)


def _since(log: Sequence[Made], base: str, wanted: int) -> Sequence[Made] | None:
    """The commits since `base`, the oldest first; None where it does not lie below, or too far."""
    new: list[Made] = []
    for made in log:
        if made.commit == base:
            return new[::-1]
        new.append(made)
    whole = not new or (not new[-1].parent and not base)
    return new[::-1] if whole and len(new) <= wanted and not base else None


def _amended(line: Line, n: int, deed: Commit) -> Finding:
    place, act = line.place(n), line.acts[n]
    was, now = (line.before.get(f"{place}.head", ""), line.after.get(f"{place}.head", ""))
    log = log_of(line.after, f"{place}.log")
    if was == now:
        return Finding("not_done", f"`{shown(act)}`: HEAD is at {short(was)} as before", (typed(act),))
    if not log or not was or line.before.get(f"{place}.parents") != line.after.get(f"{place}.parents"):
        return Finding(
            "unsure", f"`{shown(act)}`: HEAD is at {short(now)}, which is no other form of {short(was)}"
        )
    return _with_message(act, log[0], deed)


def _with_message(act: Act, made: Made, deed: Commit) -> Finding:
    if not _plain(made.message).startswith(_plain(deed.message)):
        said = f"{short(made.commit)} is there instead, {made.subject!r}, which has another message"
        return Finding("unsure", f"`{shown(act)}`: {said}")
    return Finding("done", f"`{shown(act)}`: the commit is {short(made.commit)}, {made.subject!r}")


def _plain(message: str) -> str:
    """A message as git tidies it: without spaces at the ends of lines, and without more than one empty line."""
    lines: list[str] = []
    for text in message.splitlines():
        if text.strip() or (lines and lines[-1]):
            lines.append(text.rstrip())
    return "\n".join(lines).strip()


# ---------------------------------------------------------------- at another repository


def goal_of(line: Line, n: int) -> Goal:
    """Where the n-th act was to bring what."""
    act, before = line.acts[n], line.before
    deed = act.deed
    assert isinstance(deed, Push)
    branch, current = line.branch(n), before.get(f"{line.place(n)}.branch", "")
    remote, own = before.get(f"a{n}.remote", ""), before.get(f"a{n}.own", "")
    spec = deed.refspec
    source = spec.source if spec is not None else "HEAD"
    of_head = source in {"HEAD", "@", branch.removeprefix("refs/heads/")} and bool(branch)
    full = branch if of_head else before.get(f"a{n}.source", "")
    ref = _target(spec.target, full) if spec is not None else full
    if spec is None and branch == current and remote == own and (to := before.get(f"a{n}.target", "")):
        ref = to
    unknown = _unknown(line, n, deed, ref, remote)
    commit = _commit_of(line, n) if of_head else before.get(f"a{n}.commit", "")
    forced = deed.force or (spec is not None and spec.force)
    return Goal(remote, ref, commit, before.get(f"a{n}.seen", ""), forced, unknown)


def _target(target: str, source: str) -> str:
    """The reference that a refspec names."""
    if not target or target.startswith("refs/"):
        return target or source
    kind = next((kind for kind in ("refs/heads/", "refs/tags/") if source.startswith(kind)), "")
    return f"{kind}{target}" if kind else ""


def _unknown(line: Line, n: int, deed: Push, ref: str, remote: str) -> str:
    before = line.before
    if not remote:
        return "no remote was named for the branch"
    if int(before.get(f"a{n}.urls", "0").strip() or 0) > 1:
        return f"{remote} stands for several repositories"
    if before.get(f"a{n}.mirror") == "true" or (
        deed.refspec is None and before.get(f"a{n}.default") == "matching"
    ):
        return "it is set up to push every branch"
    if deed.refspec is None and not deed.remote and line.earlier(n, Branch):
        return "git was not told where the new branch goes"
    return "" if ref else "it cannot be told to which reference it goes"


def _commit_of(line: Line, n: int) -> str:
    """The commit that HEAD stood for when the n-th act began."""
    place = line.place(n)
    made = line.earlier(n, Commit)
    if line.same and made:
        return line.after.get(f"{place}.head", "")
    return "" if made else line.before.get(f"{place}.head", "")


def found_there(line: Line, n: int, goal: Goal, there: str) -> Finding:
    """Of a push, from what the reference is at now; empty: it is not there."""
    act = line.acts[n]
    at = f"{goal.ref.removeprefix('refs/heads/')} of {goal.remote}"
    if there and there == goal.commit:
        return _pushed(line, n, goal, at)
    said = f"`{shown(act)}`: {at} is at {short(there)}" if there else f"`{shown(act)}`: {at} is not there"
    if not goal.commit and there not in {"", goal.seen, line.before.get(f"{line.place(n)}.head", "")}:
        return Finding("unsure", f"{said}, and the commit that was to be there is not here any more")
    if goal.forced and there != goal.seen:
        return Finding("unsure", f"{said}, which is neither what was pushed nor what was seen there before")
    if not (line.same or not goal.commit or _stands(line, n)):
        here = short(line.after.get(f"{line.place(n)}.head", ""))
        gone = (
            f"; {short(goal.commit)}, which was to be there, may be gone from here, where HEAD is at {here}"
        )
        return Finding("not_done", said + gone, harmless=False)
    wanted = f", not at {short(goal.commit)}" if goal.commit else ""
    return Finding("not_done", said + wanted, (typed(act),))


def is_unexplained(goal: Goal, there: str) -> bool:
    """Whether somebody else has moved the reference, before the push or behind it."""
    return bool(goal.commit) and there not in {"", goal.commit, goal.seen}


def found_below(line: Line, n: int, goal: Goal, there: str) -> Finding:
    """Of a push whose commit is below what somebody else has pushed since."""
    at = f"{goal.ref.removeprefix('refs/heads/')} of {goal.remote}"
    said = f"`{shown(line.acts[n])}`: {short(goal.commit)} is in {at}, which is at {short(there)} by now"
    return Finding("done", said)


def _stands(line: Line, n: int) -> bool:
    """HEAD is what it was before the line began."""
    head = f"{line.place(n)}.head"
    return line.before.get(head) == line.after.get(head)


def _pushed(line: Line, n: int, goal: Goal, at: str) -> Finding:
    deed = line.acts[n].deed
    assert isinstance(deed, Push)
    said = f"`{shown(line.acts[n])}`: {at} is at {short(goal.commit)}"
    if not deed.upstream or line.after.get(f"a{n}.upstream"):
        return Finding("done", said)
    name = goal.ref.removeprefix("refs/heads/")
    follow = f"git fetch {goal.remote} && git branch --set-upstream-to={goal.remote}/{name}"
    return Finding("done", f"{said}; only the upstream of the branch is not set", (follow,))


def brought_from(line: Line, n: int, goal: Goal, there: Sequence[Made]) -> Finding | None:
    """Of a push whose commits are gone here: whether those there are of this line. Newest first; None: they are not."""
    made, place = line.earlier(n, Commit), line.place(n)
    base = line.before.get(f"{place}.head", "")
    new = _since(there, base, len(made))
    if new is None or len(new) != len(made):
        return None
    for m, one in zip(made, new, strict=True):
        deed = line.acts[m].deed
        assert isinstance(deed, Commit)
        done = _with_message(line.acts[m], one, deed)
        if deed.amends or done.state != "done":
            return None
        line.findings[m] = replace(done, said=f"{done.said}; it is at {goal.remote} and not here any more")
    for m in line.earlier(n, Branch):
        line.findings[m] = replace(line.findings[m], state="done", left=())
    name = goal.ref.removeprefix("refs/heads/")
    branches = [line.acts[m].text for m in line.earlier(n, Branch)]
    fetch = " && ".join([*branches, f"git fetch {goal.remote} {name}", "git reset FETCH_HEAD"])
    said = f"`{shown(line.acts[n])}`: {name} of {goal.remote} is at {short(there[0].commit)}"
    return Finding("done", f"{said}, while here HEAD is at {short(base)} as before the command", (fetch,))


# ---------------------------------------------------------------- at a forge


@dataclass(frozen=True, slots=True)
class Listed:
    """A pull request as a forge lists it."""

    number: int
    url: str
    state: str
    title: str
    base: str
    made_s: float


SKEW_S = 300.0
"""How far the clocks of a forge and of a workspace may be apart."""


def found_at_forge(line: Line, n: int, head: str, listed: Sequence[Listed]) -> Finding:
    """Of a pull request, from those of its branch."""
    act = line.acts[n]
    deed = act.deed
    assert isinstance(deed, PullRequest)
    began_s = float(line.before.get("now", "0") or 0)
    for one in listed:
        fits = deed.title in {"", one.title} and deed.base in {"", one.base}
        fresh = one.made_s >= began_s - SKEW_S
        if fits and fresh:
            return Finding("done", f"`{shown(act)}`: it is #{one.number}, {one.title!r}, {one.url}")
    return Finding(
        "not_done", f"`{shown(act)}`: the forge has none of {head} that it could have made", (typed(act),)
    )
