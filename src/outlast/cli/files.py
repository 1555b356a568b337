"""`outlast files`: the files of a session, as its log has them."""

import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.text import plain
from outlast.drive import Entry
from outlast.errors import BadInput
from outlast.session import Session
from outlast.trees import Trees, shown
from outlast.workspaces.drive import to_tar

MOST_BYTES: Final = 1 << 30
"""Of a file that `cat` prints."""


class _Ask(msgspec.Struct, frozen=True):
    """What is asked of `outlast files`."""

    path: str
    at: int | None
    since: int | None
    turn: int | None
    everything: bool
    output: Path | None


@click.command(
    epilog=examples(
        "outlast files pricing-3f2a",
        "outlast files pricing-3f2a ls src --all",
        "outlast files pricing-3f2a cat src/app.py --at 211",
        "outlast files pricing-3f2a diff --turn 4",
        "outlast files pricing-3f2a tar --output pricing.tar",
    )
)
@click.argument("session", type=SESSION)
@click.argument(
    "verb", type=click.Choice(["ls", "cat", "diff", "tar"]), default="ls", metavar="[ls|cat|diff|tar]"
)
@click.argument("path", default="")
@click.option("--at", type=click.IntRange(1), help="As they were at this commit; by default the newest.")
@click.option("--since", type=click.IntRange(1), help="Of diff: what has changed since this commit.")
@click.option(
    "--turn", type=click.IntRange(1), help="As they were before this turn; of diff: what it has changed."
)
@click.option("--all", "everything", is_flag=True, help="Of ls: also what is in directories below.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Of tar: the file to write; by default standard output.",
)
@shared
def files(
    session: str,
    verb: str,
    path: str,
    at: int | None,
    since: int | None,
    turn: int | None,
    everything: bool,
    output: Path | None,
    world: str | None,
    json: bool,
) -> None:
    """Look at the files of SESSION as its log has them: no worker is needed, and nothing is brought back anywhere.

    `ls` lists a directory, `cat` prints a file, `diff` shows what the newest turn has changed, `tar` writes all files
    as an archive. PATH is below the session's workspace. Numbers of commits are those of `outlast log`.
    """
    ask = _Ask(path, at, since, turn, everything, output)
    if sum(one is not None for one in (at, turn)) > 1 and verb != "diff":
        raise click.UsageError("--at and --turn exclude each other.")
    if since is not None and (verb != "diff" or turn is not None):
        raise click.UsageError("--since is for diff, and in place of --turn.")

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            trees = await Trees.of(await Session.find(opened, session))
            await VERBS[verb](setup, trees, ask)

    perform(body, world=world, json=json)


async def _root(trees: Trees, ask: _Ask) -> str:
    if ask.turn is not None:
        return await trees.before(ask.turn)
    return (await trees.at(ask.at)).tree.root


async def _ls(setup: Setup, trees: Trees, ask: _Ask) -> None:
    root = await _root(trees, ask)
    found = [entry async for entry in trees.drive.entries(root, ask.path)] if ask.everything else None
    for entry in await _directly(trees, root, ask.path) if found is None else found:
        setup.say(_as_json(entry), _as_line(entry))
    if found is not None and not found and not setup.json:
        click.echo("There is no file.", err=True)


async def _directly(trees: Trees, root: str, path: str) -> list[Entry]:
    there = await trees.drive.find(root, path) if path.strip("/") else None
    if there is not None and there.kind != "dir":
        return [there]
    return list(await trees.drive.list(root, path))


def _as_json(entry: Entry) -> dict[str, Any]:
    return {
        "path": shown(entry.path),
        "kind": entry.kind,
        "mode": f"{entry.mode:o}",
        "size": entry.size,
        "mtime_s": entry.mtime_ns / 1e9,
        "digest": entry.digest,
        "target": shown(entry.target),
    }


def _as_line(entry: Entry) -> str:
    when = datetime.fromtimestamp(entry.mtime_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M")
    size = f"{entry.size:>12,}" if entry.kind == "file" else f"{entry.kind:>12}"
    end = "/" if entry.kind == "dir" else f" -> {plain(shown(entry.target))}" if entry.kind == "link" else ""
    return f"{entry.mode:>4o} {size} {when} {plain(shown(entry.path))}{end}"


async def _cat(setup: Setup, trees: Trees, ask: _Ask) -> None:
    if not ask.path:
        raise BadInput(detail="Which file? Give its path: outlast files SESSION cat PATH.")
    root = await _root(trees, ask)
    if setup.json:
        data = await trees.drive.read(root, ask.path, most_bytes=MOST_BYTES)
        click.echo(msgspec.json.encode({"path": ask.path, "size": len(data), **_content(data)}).decode())
        return
    async for piece in trees.drive.read_pieces(root, ask.path):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _content(data: bytes) -> Mapping[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


async def _diff(setup: Setup, trees: Trees, ask: _Ask) -> None:
    before, after = await _both(trees, ask)
    async for change in trees.changes(before, after, ask.path):
        if setup.json:
            pair = [None if one is None else _as_json(one) for one in (change.before, change.after)]
            value = {"path": shown(change.path), "what": change.what, "before": pair[0], "after": pair[1]}
            click.echo(msgspec.json.encode(value).decode())
            continue
        for line in await trees.shown(change, before, after):
            click.echo(plain(line))


async def _both(trees: Trees, ask: _Ask) -> tuple[str, str]:
    """The two roots to compare."""
    if ask.since is not None:
        return (await trees.at(ask.since)).tree.root, (await trees.at(ask.at)).tree.root
    turn = await trees.newest_turn() if ask.turn is None else ask.turn
    before = await trees.before(turn)
    return before, await trees.after(turn) if ask.at is None else (await trees.at(ask.at)).tree.root


async def _tar(setup: Setup, trees: Trees, ask: _Ask) -> None:
    root = await _root(trees, ask)
    if ask.output is None:
        if sys.stdout.isatty():
            raise BadInput(detail="A tar archive is nothing for a terminal. Give --output FILE, or a pipe.")
        await _archive(sys.stdout.buffer, trees, root, ask.path)
        return
    with ask.output.open("wb") as file:
        await _archive(file, trees, root, ask.path)
    count = len([entry async for entry in trees.drive.entries(root, ask.path)])
    setup.say({"file": str(ask.output), "entries": count}, f"wrote {count} entries to {ask.output}")


async def _archive(file: IO[bytes], trees: Trees, root: str, path: str) -> None:
    async with aclosing(to_tar(trees.drive, root, path)) as pieces:
        async for piece in pieces:
            file.write(piece)
    file.flush()


VERBS: Final[Mapping[str, Callable[[Setup, Trees, _Ask], Awaitable[None]]]] = {
    "ls": _ls,
    "cat": _cat,
    "diff": _diff,
    "tar": _tar,
}
