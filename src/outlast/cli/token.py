"""`outlast token`: who may ask the server."""

from datetime import UTC, datetime
from pathlib import Path

import click

from outlast.cli.options import Setup, examples, perform, shared
from outlast.cli.shares import names_of
from outlast.errors import BadInput
from outlast.server.access import Identity, Scope
from outlast.server.audit import Audit
from outlast.server.tokens import Tokens

FILE = click.option(
    "--tokens",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file, in place of the setting's.",
)


@click.group()
def token() -> None:
    """List, make and remove the tokens by which the server knows who asks.

    A change holds from the next request on, in every server that reads the file.
    """


@token.command(
    "add",
    short_help="Make a token, and print it once.",
    epilog=examples("outlast token add ann", "outlast token add dashboard --scopes read --tenant shop"),
)
@click.argument("name")
@click.option("--scopes", multiple=True, metavar="NAMES", help="As read,write,decide,admin; by default all.")
@click.option("--tenant", help="Whose sessions; by default the tenant of the settings.")
@FILE
@shared
def add(
    name: str, scopes: tuple[str, ...], tenant: str | None, tokens: Path | None, world: str | None, json: bool
) -> None:
    """Make a token for NAME and print it: it stands nowhere, and cannot be shown again.

    `read` sees sessions, `write` opens and steers them, `decide` decides about calls, `admin` erases, exports and sees
    metrics. NAME stands in the log with what its holder decides.
    """

    async def body(setup: Setup) -> None:
        chosen = _scopes(names_of(scopes)) or tuple(Scope)
        whose = tenant or setup.settings.tenant
        made = _file(setup, tokens).add(name, setup.clock, tenant=whose, scopes=chosen)
        _audit(setup, "token.add", name)
        setup.say({"name": name, "token": made, "tenant": whose, "scopes": chosen}, made)

    perform(body, world=world, json=json)


@token.command("ls", short_help="List the tokens.")
@FILE
@shared
def ls(tokens: Path | None, world: str | None, json: bool) -> None:
    """List the tokens: their names, tenants and scopes."""

    async def body(setup: Setup) -> None:
        for row in _file(setup, tokens).rows():
            made = datetime.fromtimestamp(row.made_at_s, UTC).strftime("%Y-%m-%d %H:%M")
            value = {"name": row.name, "tenant": row.tenant, "scopes": row.scopes, "made_at_s": row.made_at_s}
            setup.say(value, f"{row.name}   {row.tenant}   {','.join(row.scopes)}   {made}")

    perform(body, world=world, json=json)


@token.command("rm", short_help="Remove a token.")
@click.argument("name")
@FILE
@shared
def rm(name: str, tokens: Path | None, world: str | None, json: bool) -> None:
    """Remove the token of NAME: from the next request on it lets nobody in."""

    async def body(setup: Setup) -> None:
        _file(setup, tokens).remove(name)
        _audit(setup, "token.rm", name)
        setup.say({"removed": name}, f"removed {name}")

    perform(body, world=world, json=json)


def _file(setup: Setup, tokens: Path | None) -> Tokens:
    return Tokens(setup.settings.tokens if tokens is None else tokens)


def _audit(setup: Setup, what: str, name: str) -> None:
    Audit(setup.clock)(Identity("outlast token", setup.settings.tenant, frozenset()), what, {"token": name})


def _scopes(names: tuple[str, ...] | list[str]) -> tuple[Scope, ...]:
    try:
        return tuple(Scope(name) for name in names)
    except ValueError as error:
        raise BadInput(detail=f"{error}. The scopes are {', '.join(Scope)}.") from None
