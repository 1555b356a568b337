"""`outlast adopt`: a conversation that a harness had by itself becomes a session."""

import re
from pathlib import Path

import click

from outlast.adopting import Adopted, Adopts
from outlast.cli.agents import agent_of, built_in_names
from outlast.cli.machine import machine_id
from outlast.cli.options import SESSION, Setup, examples, perform, shared
from outlast.cli.run import DIRECTORY, words_of
from outlast.cli.text import plain
from outlast.engine.places import fresh_home
from outlast.errors import BadInput, HarnessError, NotFound, SessionExists
from outlast.ids import check_session_id
from outlast.session import Session
from outlast.workspaces.local import local
from outlast.world import World


@click.command(
    epilog=examples(
        "outlast adopt claude-code ~/.claude/projects/-home-me-shop/7f3c….jsonl",
        "outlast adopt claude-code 7f3c….jsonl --session pricing",
        "outlast adopt pi ~/.pi/agent/sessions/--home-me-shop--/….jsonl",
        "outlast adopt opencode ses_dd47a4442ffeoJ6bV1GEmnfDar",
    )
)
@click.argument("harness")
@click.argument("transcript", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--session", "name", type=SESSION, help="The session's id; by default made from what was said first."
)
@click.option("--model", help="The model that the harness asks for from now on; by default its own choice.")
@shared
def adopt(
    harness: str, transcript: Path, name: str | None, model: str | None, world: str | None, json: bool
) -> None:
    """Make a conversation durable that HARNESS had without outlast: TRANSCRIPT is its own file of it, or its name.

    It becomes a session that works in the same directory of this machine and goes on, with its next prompt, where the
    conversation stands. Of a call that has no result there, since its process was killed, the model is told that it
    may already have run. Nothing is started and TRANSCRIPT stays as it is: what goes on is a copy.

    HARNESS is named, never guessed. End its program first: one that still has the conversation open is refused.
    """

    async def body(setup: Setup) -> None:
        agent = agent_of(harness)
        if not isinstance(agent.adapter, Adopts):
            raise BadInput(detail=f"Sessions of {harness} cannot be adopted, only those of {_able()}.")
        home = fresh_home(setup.settings.data, name or harness.replace(":", "-").lower())
        adopted = agent.adapter.adopt(transcript, home)
        session = check_session_id(name) if name else _name(adopted)
        workspace = local(adopted.cwd, host=machine_id(setup.settings.data))
        async with setup.world() as opened:
            await _refuse_second(opened, session, adopted)
            await Session.open(
                opened,
                session,
                agent=agent,
                workspace=workspace,
                home=home,
                settings={**adopted.settings, **({"model": model} if model else {})},
                labels={DIRECTORY: workspace.cwd},
                files=adopted.files,
            )
        _say(setup, session, adopted)

    perform(body, world=world, json=json)


def _able() -> str:
    """The built-in harnesses whose sessions can be adopted, of those that are installed."""
    able: list[str] = []
    for name in built_in_names():
        try:
            if isinstance(agent_of(name).adapter, Adopts):
                able.append(name)
        except HarnessError:
            continue  # it is not installed
    return ", ".join(able) or "harnesses that are not installed here"


async def _refuse_second(world: World, session: str, adopted: Adopted) -> None:
    """Return if nothing has this id yet.

    Raises:
        SessionExists
    """
    try:
        state = await (await Session.find(world, session)).state()
    except NotFound:
        return
    own = None if state.opened is None else state.opened.settings.get("session")
    known = "it holds this conversation already" if own == adopted.name else "it is another conversation"
    raise SessionExists(session=session, difference=known)


def _name(adopted: Adopted) -> str:
    """A readable id, the same whenever the same conversation is adopted."""
    mark = re.sub(r"[^a-z0-9]", "", adopted.name.lower())[:8] or "session"
    return f"{words_of(adopted.prompt)}-{mark}"


def _say(setup: Setup, session: str, adopted: Adopted) -> None:
    for note in adopted.notes:
        click.secho(f"outlast: {plain(note)}", fg="yellow", err=True)
    value = {
        "session": session,
        "adopted": adopted.name,
        "cwd": adopted.cwd,
        "unanswered": list(adopted.unanswered),
        "notes": list(adopted.notes),
    }
    said = [f"session {session} · adopted from {adopted.name} · {plain(adopted.cwd)} (local: not isolated)"]
    if adopted.unanswered:
        names = plain(", ".join(adopted.unanswered))
        said.append(f"Without a result: {names}. The next prompt tells the model that it may have run.")
    said.append(f'It goes on with `outlast send {session} "…"` and `outlast work`.')
    setup.say(value, "\n".join(said))
