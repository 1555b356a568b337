"""`outlast docs`: look at the documents of a session, edit and follow them."""

from contextlib import aclosing
from typing import Any

import anyio
import click
import msgspec

from outlast.adapter import Agent
from outlast.cli.agents import agent_of
from outlast.cli.options import SESSION, Setup, examples, given, perform, shared
from outlast.documents import Document
from outlast.errors import BadInput, NotFound
from outlast.records import AnyEdit, Delete, Merge, Set
from outlast.session import Session

NOTICE_S = 2.0
"""How long an edit may wait for a worker before the person is told that it does."""


@click.group()
def docs() -> None:
    """Look at the documents of a session, edit and follow them."""


@docs.command(
    "get",
    short_help="Print a document, or list what there is.",
    epilog=examples("outlast docs get build-81", "outlast docs get build-81 plan --json"),
)
@click.argument("session", type=SESSION)
@click.argument("name", required=False)
@shared
def get_(session: str, name: str | None, world: str | None, json: bool) -> None:
    """Print the document NAME of SESSION as JSON; without NAME, list what there is."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            if name is None:
                for each, there in sorted((await found.state()).documents.items()):
                    row = {"session": session, "name": each, "version": there.version}
                    setup.say(row, f"{each}   version {there.version}")
                return
            document = await found.document(name)
            if not document.version:
                raise NotFound(detail=f"Session {session} has no document {name!r}.")
            _show(setup, session, document)

    perform(body, world=world, json=json)


@docs.command(
    "set",
    short_help="Edit a document, and print what it then is.",
    epilog=examples(
        "outlast docs set build-81 plan '{\"steps\": []}' --if-version 0",
        "outlast docs set build-81 plan '\"look\"' --at /steps/-",
        'outlast docs set build-81 plan --merge \'{"owner": "ann"}\'',
        "outlast docs set build-81 plan --delete /steps/0",
    ),
)
@click.argument("session", type=SESSION)
@click.argument("name")
@click.argument("value", required=False, metavar="[JSON]")
@click.option("--at", default="", metavar="POINTER", help="Where JSON goes (RFC 6901), by default all of it.")
@click.option("--merge", metavar="JSON", help="Merge this patch (RFC 7396).")
@click.option("--delete", metavar="POINTER", help="Remove what is there.")
@click.option(
    "--if-version", type=click.IntRange(0), help="Only if this is its version; 0: it must not exist."
)
@click.option("--by", default="", help="Who edits, for the log.")
@click.option("--id", "input_id", help="Your own id: the same id and content again is the same edit.")
@click.option("--agent", metavar="MODULE:AGENT", help="The agent, which knows what the document must be.")
@shared
def set_(
    session: str,
    name: str,
    value: str | None,
    at: str,
    merge: str | None,
    delete: str | None,
    if_version: int | None,
    by: str,
    input_id: str | None,
    agent: str | None,
    world: str | None,
    json: bool,
) -> None:
    """Edit the document NAME of SESSION and print what it then is; `-` reads JSON from standard input.

    While a turn is open the worker that advances the session does it; where none runs, this waits for one, and the edit
    is made even if you stop waiting.
    """

    async def body(setup: Setup) -> None:
        edit = _edit(value, at, merge, delete)
        known: Agent | None = None if agent is None else agent_of(agent)
        async with setup.world() as opened:
            found = await Session.find(opened, session, agent=known)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_notice, session)
                document = await found.edit(name, edit, if_version=if_version, by=by, id=input_id)
                tasks.cancel_scope.cancel()
                _show(setup, session, document)

    perform(body, world=world, json=json)


@docs.command("follow", epilog=examples("outlast docs follow build-81 plan --json"))
@click.argument("session", type=SESSION)
@click.argument("name")
@shared
def follow_(session: str, name: str, world: str | None, json: bool) -> None:
    """Print the document NAME of SESSION, then each version as it comes. Ctrl-C stops the watching."""

    async def body(setup: Setup) -> None:
        async with setup.world() as opened:
            found = await Session.find(opened, session)
            async with aclosing(found.follow_document(name)) as shown:
                async for document in shown:
                    _show(setup, session, document)

    perform(body, world=world, json=json)


def _show(setup: Setup, session: str, document: Document) -> None:
    value = {
        "session": session,
        "name": document.name,
        "version": document.version,
        "value": document.value,
    }
    setup.say(value, msgspec.json.format(msgspec.json.encode(document.value), indent=2).decode())


async def _notice(session: str) -> None:
    await anyio.sleep(NOTICE_S)
    click.echo(f"outlast: the edit waits for whoever advances {session}: outlast work", err=True)


def _edit(value: str | None, at: str, merge: str | None, delete: str | None) -> AnyEdit:
    if sum(one is not None for one in (value, merge, delete)) != 1:
        raise BadInput(detail="Say one of JSON, --merge JSON, --delete POINTER.")
    if delete is not None:
        return Delete(delete)
    if merge is not None:
        return Merge(_json(merge), at)
    return Set(_json(value or ""), at)


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(given(text))
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "Text is written as JSON too: '\"text\"'."
        raise BadInput(detail=f"{text!r} is no JSON: {error}. {hint}") from None
