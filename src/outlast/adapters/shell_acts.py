"""The shell commands of which it can be found out afterwards whether they did what they are there for.

`read_acts` knows `git commit`, `git push`, `git checkout -b` and `gh pr create` with the options that are listed here,
and nothing else: whatever else a command may do cannot be found out. `is_idempotent` knows a few commands that may run
twice since the second time changes nothing.

Sources: the manuals of git 2.47 and gh 2.60.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from outlast.adapters.shell_words import Word

Given: TypeAlias = Mapping[str, Sequence[str]]
"""Options by name, each with its values; those that take none have as many empty ones as they were given."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Makes a branch where HEAD is, and goes there."""

    name: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Makes one commit."""

    message: str = ""
    """With which it begins; empty: not known from the command."""
    amends: bool = False
    """In place of the one that is there."""


@dataclass(frozen=True, slots=True)
class Refspec:
    """What is pushed, and where to."""

    source: str
    target: str
    """Empty: where git puts it."""
    force: bool


@dataclass(frozen=True, slots=True)
class Push:
    """Brings commits to another repository."""

    remote: str = ""
    """A name or a URL; empty: the branch's own."""
    refspec: Refspec | None = None
    """None: the branch that HEAD is on."""
    force: bool = False
    """Without regard to what is there."""
    upstream: bool = False


@dataclass(frozen=True, slots=True)
class PullRequest:
    """Opens a pull request."""

    head: str = ""
    """Empty: the branch that HEAD is on."""
    base: str = ""
    title: str = ""
    repository: str = ""


Deed: TypeAlias = Branch | Commit | Push | PullRequest


@dataclass(frozen=True, slots=True)
class Act:
    """One command of those that a line of shell holds, and that can be asked about."""

    deed: Deed
    text: str
    """As it stands in the line."""
    entered: Sequence[str] = ()
    """The directories that were gone into before it, each seen from the one before."""
    follows: bool = False
    """It has not begun unless the act before it succeeded."""
    gone: Sequence[str] = ()
    """Those of the directories that the line itself went into, with `cd`."""
    before: Sequence[str] = ()
    """The commands between the act before it and this one that may run twice."""


def read_acts(words: Sequence[Word], text: str, entered: Sequence[str] = ()) -> Sequence[Act]:
    """What a simple command does that can be asked about; nothing where it is none of those that are known."""
    if not all(word.exact for word in words):
        return ()
    program, *arguments = [word.text for word in words]
    deeds: Sequence[Deed] = ()
    into: Sequence[str] = ()
    if program in {"gh", "/usr/bin/gh"}:
        deeds = _gh(arguments)
    elif program in {"git", "/usr/bin/git"} and (globally := git_command(arguments)) is not None:
        into, sub, rest = globally
        deeds = _GIT[sub](rest) if sub in _GIT else ()
    return [Act(deed, text, (*entered, *into), gone=tuple(entered)) for deed in deeds]


_HARMLESS_SETTINGS: Final = (
    "user.name=",
    "user.email=",
    "commit.gpgsign=false",
    "core.pager=cat",
    "color.ui=",
    "advice.",
)


def git_command(arguments: Sequence[str]) -> tuple[Sequence[str], str, Sequence[str]] | None:
    """The directories that git goes into first, its command, and what that is given; None if more is said before."""
    into: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        match rest:
            case ["--no-pager" | "--no-optional-locks", *rest]:
                pass
            case ["-C", directory, *rest] if directory:
                into.append(directory)
            case ["-c", setting, *rest] if setting.startswith(_HARMLESS_SETTINGS):
                pass
            case _:
                return None
    return (into, rest[0], rest[1:]) if rest else None


# ---------------------------------------------------------------- options


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _given(
    arguments: Sequence[str], flags: frozenset[str], valued: frozenset[str]
) -> tuple[Given, Sequence[str]] | None:
    """Options and operands; None where there is an option that is not known, or that lacks its value."""
    given: dict[str, list[str]] = {}
    operands: list[str] = []
    rest = list(arguments)
    while rest:
        text = rest.pop(0)
        if text == "--":
            return given, [*operands, *rest]
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            known = name in valued if equals else name in flags
            if not known and not equals and name in valued and rest:
                known, value = True, rest.pop(0)
            if not known:
                return None
            given.setdefault(name, []).append(value)
        elif text.startswith("-") and text != "-":
            if not _short(text[1:], rest, given, flags, valued):
                return None
        else:
            operands.append(text)
    return given, operands


def _short(
    letters: str, rest: list[str], given: dict[str, list[str]], flags: frozenset[str], valued: frozenset[str]
) -> bool:
    """Read a group of short options, the last of which may take the rest of it, or the next word, as its value."""
    for at, letter in enumerate(letters, 1):
        name = f"-{letter}"
        if name in flags:
            given.setdefault(name, []).append("")
            continue
        if name not in valued or not (letters[at:] or rest):
            return False
        given.setdefault(name, []).append(letters[at:] or rest.pop(0))
        return True
    return True


def _last(given: Given, *names: str) -> str:
    return next((given[name][-1] for name in names if name in given), "")


# ---------------------------------------------------------------- git

_COMMIT_FLAGS: Final = _options(
    """
    -a --all -q --quiet -v --verbose -n --no-verify -s --signoff --no-signoff --allow-empty --allow-empty-message
    --no-edit --no-gpg-sign -o --only -i --include --amend --no-status --no-post-rewrite
    """
)
_COMMIT_VALUED: Final = _options("-m --message -F --file -C --reuse-message --author --date --trailer")
_SAYS: Final = _options("-m --message -F --file -C --reuse-message")


def _commit(arguments: Sequence[str]) -> Sequence[Deed]:
    read = _given(arguments, _COMMIT_FLAGS, _COMMIT_VALUED)
    if read is None:
        return ()
    given, _ = read
    amends = "--amend" in given
    said = not _SAYS.isdisjoint(given) or (amends and "--no-edit" in given)
    if not said or "-" in {*given.get("-F", ()), *given.get("--file", ())}:
        return ()  # an editor, or whatever comes in
    # Of both forms only one is read, since nothing here has kept their order.
    texts = (
        given.get("-m", ()) if "--message" not in given else given["--message"] if "-m" not in given else ()
    )
    return [Commit("\n\n".join(texts), amends)]


_NAME: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/+-]*")
"""Of a branch; what else git allows is rare."""


def _checkout(arguments: Sequence[str]) -> Sequence[Deed]:
    return _branch(arguments, _options("-b"))


def _switch(arguments: Sequence[str]) -> Sequence[Deed]:
    return _branch(arguments, _options("-c --create"))


def _branch(arguments: Sequence[str], making: frozenset[str]) -> Sequence[Deed]:
    read = _given(arguments, _options("-q --quiet"), making)
    if read is None:
        return ()
    given, operands = read
    names = [name for option in making for name in given.get(option, ())]
    if operands or len(names) != 1 or not _NAME.fullmatch(names[0]):
        return ()  # from somewhere else than HEAD
    return [Branch(names[0])]


_PUSH_FLAGS: Final = _options(
    """
    -u --set-upstream -f --force --force-with-lease --force-if-includes -q --quiet -v --verbose --progress
    --no-progress --porcelain --no-verify --verify --atomic
    """
)
_SOURCE: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9_@][A-Za-z0-9._/@+-]*")


def _push(arguments: Sequence[str]) -> Sequence[Deed]:
    read = _given(arguments, _PUSH_FLAGS, _options("--force-with-lease"))
    if read is None:
        return ()
    given, operands = read
    force = "-f" in given or "--force" in given
    upstream = "-u" in given or "--set-upstream" in given
    remote, specs = (operands[0], operands[1:]) if operands else ("", ())
    if not specs:
        return [Push(remote, None, force, upstream)]
    refs = [_refspec(spec, force=force) for spec in specs]
    if "tag" in specs or None in refs:
        return ()
    return [Push(remote, ref, force, upstream) for ref in refs]


def _refspec(text: str, *, force: bool) -> Refspec | None:
    source, colon, target = text.removeprefix("+").partition(":")
    if not _SOURCE.fullmatch(source) or (colon and not _NAME.fullmatch(target)):
        return None  # a deletion, a pattern, an expression
    return Refspec(source, target, force or text.startswith("+"))


_GIT: Final[Mapping[str, Callable[[Sequence[str]], Sequence[Deed]]]] = {
    "checkout": _checkout,
    "commit": _commit,
    "push": _push,
    "switch": _switch,
}

# ---------------------------------------------------------------- gh

_CREATE_FLAGS: Final = _options("-f --fill --fill-first --fill-verbose -d --draft --no-maintainer-edit")
_CREATE_VALUED: Final = _options(
    """
    -t --title -b --body -F --body-file -B --base -H --head -R --repo -l --label -a --assignee -r --reviewer
    -m --milestone -p --project -T --template
    """
)


def _gh(arguments: Sequence[str]) -> Sequence[Deed]:
    if [*arguments[:2]] not in (["pr", "create"], ["pr", "new"]):
        return ()
    read = _given(arguments[2:], _CREATE_FLAGS, _CREATE_VALUED)
    if read is None or read[1]:
        return ()
    given, _ = read
    if "-" in {*given.get("-F", ()), *given.get("--body-file", ())}:
        return ()
    return [
        PullRequest(
            _last(given, "--head", "-H"),
            _last(given, "--base", "-B"),
            _last(given, "--title", "-t"),
            _last(given, "--repo", "-R"),
        )
    ]


# ---------------------------------------------------------------- what may run twice

_ADD: Final = _options(
    """
    -A --all -u --update -v --verbose -f --force -N --intent-to-add --no-all --ignore-errors --renormalize
    """
)
_FETCH: Final = _options("-q --quiet -v --verbose -p --prune -t --tags --no-tags --all")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
_SETTINGS: Final = _options(
    "user.name user.email commit.gpgsign push.default push.autosetupremote init.defaultbranch"
)


def is_idempotent(words: Sequence[Word]) -> bool:
    """Whether a simple command that has run may run again, and then changes nothing more."""
    program, rest = words[0], words[1:]
    if not program.exact or any(word.wild_start for word in rest):
        return False
    arguments = [word.text for word in rest]
    if program.text in {"mkdir", "/usr/bin/mkdir", "/bin/mkdir"}:
        read = _given(arguments, _options("-p --parents -v --verbose"), frozenset())
        return read is not None and not read[0].keys().isdisjoint({"-p", "--parents"})
    if program.text not in {"git", "/usr/bin/git"}:
        return False
    command = git_command(arguments)
    return command is not None and _is_idempotent_git(command[1], command[2])


def _is_idempotent_git(command: str, arguments: Sequence[str]) -> bool:
    match command:
        case "add":
            return _given(arguments, _ADD, frozenset()) is not None
        case "fetch":
            read = _given(arguments, _FETCH, frozenset())
            return read is not None and all(map(_PLAIN.fullmatch, read[1]))
        case "config":
            read = _given(arguments, _options("--global --local"), frozenset())
            return read is not None and len(read[1]) == 2 and read[1][0].lower() in _SETTINGS
        case _:
            return False
