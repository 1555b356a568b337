"""Lines of shell that look at a repository, at what it is pushed to and at its forge, and the reading of their output.

None of them changes a file, but for `fetched`, which brings commits of another repository into the store of objects and
names them nowhere. Each runs where the harness's own commands run: a repository's configuration may name programs.
Output is lines of `key<tab>value`; what may hold any text is in base64.

Sources: the manuals of git 2.47 (git-rev-parse, git-for-each-ref, git-ls-remote, git-fetch) and gh 2.60; proc(5) of
Linux 6.18 for what tells one machine from another.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final, TypeAlias

from outlast.adapters.shell_acts import Act, Branch, PullRequest, Push

Facts: TypeAlias = Mapping[str, str]
"""What was looked up, by key; a key that came several times has its values as lines."""

_BEGIN: Final = r"""
export GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GH_PROMPT_DISABLED=1 LC_ALL=C
exec </dev/null 2>/dev/null
c=
p() { printf '%s\t%s\n' "$1" "${2//$'\n'/ }"; }
b() { base64 | tr -d '\n'; }
left() { [ -n "$c" ] && [ -e "$c/$2.lock" ] && p "$1" "$c/$2.lock"; }
"""
_MACHINE: Final = r"""
read -r boot </proc/sys/kernel/random/boot_id; read -r one </proc/1/stat; set -- ${one##*) }
p machine "$boot ${20}"
p now "$(date -u +%s)"
"""
"""Another machine, or another sandbox, has another first process; where files last, this is not asked for."""
_REPOSITORY: Final = r"""
p {k}.top "$(git rev-parse --show-toplevel)"
h=$(git rev-parse -q --verify HEAD); p {k}.head "$h"
p {k}.parents "$([ -n "$h" ] && git rev-parse 'HEAD^@')"
branch=$(git symbolic-ref -q HEAD); p {k}.branch "$branch"
"""
_LEFT: Final = r"""
g=$(git rev-parse --absolute-git-dir); c=$(cd "$(git rev-parse --git-common-dir)" && pwd)
for f in "$g/index.lock" "$g/HEAD.lock"; do [ -e "$f" ] && p {k}.lock "$f"; done
for f in "$branch" config packed-refs; do left {k}.lock "$f"; done
p {k}.log "$(git log {format} -n {count} HEAD | b)"
"""
_RUNNING: Final = r"""
for f in /proc/[0-9]*/comm; do read -r n <"$f" && [ "$n" = git ] && p running git; done
"""
_LOG_FORMAT: Final = "--no-show-signature --no-color --no-decorate --first-parent --format=%x1e%H%x1f%P%x1f%B"


@dataclass(frozen=True, slots=True)
class Made:
    """A commit as it stands in a repository."""

    commit: str
    parent: str
    """The first of them; empty: it has none."""
    message: str

    @property
    def subject(self) -> str:
        return self.message.strip().partition("\n")[0]


def places_of(acts: Sequence[Act]) -> Sequence[Sequence[str]]:
    """The directories that acts were done in, each once; the number of one is its place."""
    return list(dict.fromkeys(tuple(act.entered) for act in acts))


def before(acts: Sequence[Act]) -> str:
    """What to look up before a command begins."""
    return _line(acts, after=False)


def afterwards(acts: Sequence[Act]) -> str:
    """The same once it is over, and what it may have left behind."""
    return _line(acts, after=True) + _RUNNING


def _line(acts: Sequence[Act], *, after: bool) -> str:
    lines = [_BEGIN, _MACHINE]
    for k, entered in enumerate(places_of(acts)):
        inner = [_REPOSITORY.replace("{k}", f"p{k}")]
        if after:
            left = _LEFT.replace("{k}", f"p{k}").replace("{count}", str(len(acts) + 1))
            inner.append(left.replace("{format}", _LOG_FORMAT))
        inner += [_of_act(k, n, act.deed) for n, act in enumerate(acts) if tuple(act.entered) == entered]
        lines.append(_there(entered, "\n".join(inner)))
    return "\n".join(lines)


def _there(entered: Sequence[str], text: str) -> str:
    into = " && ".join(["true", *(f"cd -- {quote(directory)}" for directory in entered)])
    return f"( {into} || exit 0\n{text}\n)"


def _of_act(k: int, n: int, deed: object) -> str:
    match deed:
        case Branch(name=name):
            ref = quote(f"refs/heads/{name}")
            return f'p a{n}.ref "$(git rev-parse -q --verify {ref})"\nleft p{k}.lock {ref}'
        case Push():
            return f'{_of_push(f"a{n}", deed)}\nleft p{k}.lock "refs/remotes/$remote/$at"'
        case _:
            return ""


def _of_push(key: str, push: Push) -> str:
    """The names that git itself gives to what is pushed and to where it goes, and what was last seen there."""
    lines = [
        'own=$(git for-each-ref --format="%(push:remotename) %(push:remoteref)" "$branch")',
        "to=${own#* }; own=${own%% *}",
        f'remote={quote(push.remote)}; [ -n "$remote" ] || remote=$own',
        f'p {key}.remote "$remote"; p {key}.own "$own"',
        f'p {key}.urls "$(git remote get-url --push --all "$remote" | wc -l)"',
        f'p {key}.default "$(git config push.default)"',
        f'p {key}.mirror "$(git config --bool "remote.$remote.mirror")"',
        f'p {key}.target "$to"',
        'at=${branch#refs/heads/}; [ "$remote" = "$own" ] && [ -n "$to" ] && at=${to#refs/heads/}',
        f'p {key}.upstream "$(git config "branch.${{branch#refs/heads/}}.merge")"',
    ]
    if push.refspec is not None:
        source, target = push.refspec.source, push.refspec.target
        lines += [
            f'p {key}.source "$(git rev-parse -q --verify --symbolic-full-name {quote(source)})"',
            f'p {key}.commit "$(git rev-parse -q --verify {quote(source)})"',
        ]
        if target or source not in {"HEAD", "@"}:
            lines.append(f"at={quote((target or source).removeprefix('refs/heads/'))}")
        else:
            lines.append("at=${branch#refs/heads/}")
    return "\n".join([*lines, f'p {key}.seen "$(git rev-parse -q --verify "refs/remotes/$remote/$at")"'])


def at_remote(entered: Sequence[str], remote: str, ref: str) -> str:
    """What a reference of another repository is now: `heard`, what git says, and `status`, how it ended."""
    return _BEGIN + _there(
        entered,
        f"{_url(remote)}\n"
        f'said=$(git ls-remote "$u" {quote(ref)} 2>&1); p status $?; p heard "$(printf %s "$said" | b)"',
    )


def fetched(entered: Sequence[str], remote: str, ref: str, there: str, ours: str, count: int) -> str:
    """The newest commits of a reference of another repository, found at `there`: `log`; and whether `ours` is below."""
    return _BEGIN + _there(
        entered,
        f"{_url(remote)}\n"
        f'git fetch -q --no-tags --no-write-fetch-head --refmap= "$u" {quote(ref)}\n'
        f'p log "$(git log {_LOG_FORMAT} -n {count} {quote(there)} | b)"\n'
        f"git merge-base --is-ancestor {quote(ours)} {quote(there)} && p below yes",
    )


def _url(remote: str) -> str:
    return f"u=$(git remote get-url --push {quote(remote)}) || u={quote(remote)}"


def pull_requests(entered: Sequence[str], asked: PullRequest, head: str) -> str:
    """The pull requests of a branch as its forge lists them: `heard`, JSON, and `status`."""
    fields = "number,url,state,title,baseRefName,createdAt"
    words = ["gh", "pr", "list", "--head", head, "--state", "all", "--limit", "30", "--json", fields]
    if asked.repository:
        words += ["--repo", asked.repository]
    said = " ".join(map(quote, words))
    return _BEGIN + _there(entered, f'said=$({said} 2>&1); p status $?; p heard "$(printf %s "$said" | b)"')


def read_facts(output: str) -> Facts:
    """What a line of shell found."""
    found: dict[str, str] = {}
    for line in output.splitlines():
        key, tab, value = line.partition("\t")
        if tab:
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def text_of(facts: Facts, key: str) -> str:
    """A text that was in base64; empty where it is not there."""
    try:
        return base64.b64decode(facts.get(key, ""), validate=True).decode(errors="replace")
    except binascii.Error:
        return ""


def log_of(facts: Facts, key: str) -> Sequence[Made]:
    """Commits, the newest first."""
    found: list[Made] = []
    for entry in text_of(facts, key).split("\x1e")[1:]:
        commit, _, rest = entry.partition("\x1f")
        parents, _, message = rest.partition("\x1f")
        found.append(Made(commit, parents.partition(" ")[0], message))
    return found


_CREDENTIALS: Final = re.compile(r"//[^/@\s]+@")


def complaint_of(facts: Facts) -> str:
    """What a program said that did not do what it was asked, in a line and without credentials."""
    said = _CREDENTIALS.sub("//", text_of(facts, "heard")).strip()
    return " ".join(said.split())[-300:] or "it did not answer in time"


def reference_of(facts: Facts, ref: str) -> str | None:
    """Where a reference of another repository is; empty: it is not there; None: nobody answered."""
    if facts.get("status") != "0":
        return None
    for line in text_of(facts, "heard").splitlines():
        commit, tab, name = line.partition("\t")
        if tab and name == ref and re.fullmatch(r"[0-9a-f]{40,64}", commit):
            return commit
    return ""
