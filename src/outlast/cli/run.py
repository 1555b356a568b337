"""`outlast run`: begin a turn, or come back to the one that is open, and watch it here."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from outlast.adapter import Agent
from outlast.attaching import Attachment
from outlast.cli.agents import agent_of
from outlast.cli.attended import Attended, attend
from outlast.cli.exits import Exit
from outlast.cli.machine import machine_id
from outlast.cli.options import ATTACH, PRIORITY, SESSION, Setup, examples, given, perform, shared
from outlast.cli.providers import refuse_unusable
from outlast.cli.watching import inputs_of
from outlast.cli.workspaces import differs as other_workspace
from outlast.cli.workspaces import place, workspace_of
from outlast.engine.places import fresh_home
from outlast.errors import BadInput, NotFound, Refused, SessionExists, SessionUnknown, TurnUnknown
from outlast.ids import check_session_id, new_id
from outlast.records import Prompt, Recall, SessionOpened, Steer
from outlast.session import Session, Turn
from outlast.workspaces.local import local
from outlast.world import Capability, World

DIRECTORY = "directory"
"""The label of a session that `run` opened: where it works."""


@click.command(
    epilog=examples(
        'outlast run claude-code "Add a pricing page and make its test pass"',
        "outlast run claude-code                      # after a crash, in the same directory",
        'outlast run claude-code "Try the new parser" --workspace sandbox --allow packages.example.com',
        'outlast run claude-code "And there" --workspace sandbox:kubernetes --image registry.example/agents:3',
        'outlast run claude-code "Now the changelog" --session pricing-3f2a',
    )
)
@click.argument("agent")
@click.argument("prompt", required=False)
@click.option(
    "--session", "name", type=SESSION, help="The session's id; by default a new one, made from the prompt."
)
@click.option("--model", help="The model that the harness of a new session asks for.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where a new session works; by default here.",
)
@click.option(
    "--workspace",
    metavar="KIND|DIR",
    help="Of a new session: `virtual`, `sandbox`, `sandbox:PROVIDER`, or a directory of yours; by default the agent's "
    "own, else here.",
)
@click.option("--allow", multiple=True, metavar="HOST", help="A host that the sandbox may reach.")
@click.option("--image", default="", help="What the sandbox is made from, where its provider has images.")
@click.option("--priority", type=PRIORITY, help="Of the session from now on, from -100 to 100.")
@ATTACH
@click.option("--detach", is_flag=True, help="Only begin; some `outlast work` carries it out.")
@shared
def run(
    agent: str,
    prompt: str | None,
    name: str | None,
    model: str | None,
    cwd: Path | None,
    workspace: str | None,
    allow: tuple[str, ...],
    image: str,
    priority: int | None,
    attach: tuple[Path, ...],
    detach: bool,
    world: str | None,
    json: bool,
) -> None:
    """Have AGENT carry out PROMPT here, and show it as it happens.

    AGENT is `claude-code` or MODULE:AGENT of your own; PROMPT may be `-`, for standard input. Without PROMPT, what is
    open is carried on: of --session, or of the newest session with an open turn in this directory.

    Kill it, and the turn stays open; closing the terminal lets it go on in the background. Ctrl-C asks whether to
    detach (it goes on with `outlast work`), to cancel the turn, or to go on watching. If another worker advances the
    session already, this only watches.

    The exit status is 0 if the turn was done, 1 failed, 6 cancelled, 7 it waits for a person, 8 detached.
    """

    async def body(setup: Setup) -> int:
        found = agent_of(agent)
        for warning in found.adapter.check():
            click.secho(f"outlast: {warning}", fg="yellow", err=True)
        said = None if prompt is None else given(prompt)
        if attach and said is None:
            raise BadInput(detail="--attach goes with a PROMPT.")
        files = [Attachment.read(path) for path in attach]
        wish = Wish(found, name, said, cwd, model, priority, not detach, workspace, allow, image, files)
        async with setup.world() as opened:
            if Capability.MULTI_PROCESS not in opened.capabilities:
                raise BadInput(detail=f"{opened.name} is known to one process only; a worker is another one.")
            session, turns = await _open(setup, opened, wish)
            attended = Attended(session, turns, agent, _title(found, await _opened(session)))
            if detach:
                await setup.wake(opened.tenant, session.id)
                answer = {"session": session.id, "input": turns[-1].input, "status": "detached"}
                setup.say(answer, f"session {session.id}\n{attended.come_back}")
                return Exit.OK
            return await attend(setup, attended)

    perform(body, world=world, json=json)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for."""

    agent: Agent
    name: str | None
    prompt: str | None
    cwd: Path | None
    model: str | None
    priority: int | None
    here: bool
    """The turn is to be carried out in this process."""
    workspace: str | None = None
    allow: tuple[str, ...] = ()
    image: str = ""
    files: Sequence[Attachment] = ()

    @property
    def directory(self) -> Path:
        return self.cwd or Path()


async def _open(setup: Setup, world: World, wish: Wish) -> tuple[Session, list[Turn]]:
    """The session, and the turns to watch, in their order: the one that was begun is the last."""
    machine = machine_id(setup.settings.data)
    if wish.prompt is None:
        name = wish.name or await _newest_open(world, wish, machine)
        session = await _come_back(setup, world, name, wish)
        turns = await left(session)
        if not turns:
            raise TurnUnknown(session=session.id, turn="open")
        return session, turns
    if wish.name is not None and await _exists(world, wish.name):
        session = await _come_back(setup, world, wish.name, wish)
    else:
        session = await _begin(setup, world, wish, machine)
    ahead = await left(session)
    return session, [*ahead, await session.send(wish.prompt, priority=wish.priority, attachments=wish.files)]


async def _begin(setup: Setup, world: World, wish: Wish, machine: str) -> Session:
    name = check_session_id(wish.name) if wish.name else await _fresh_name(world, wish.prompt or "")
    asked = wish.workspace, wish.cwd, wish.allow
    workspace = workspace_of(wish.agent, *asked, machine, image=wish.image)
    settings: Mapping[str, str] = {"model": wish.model} if wish.model else {}
    if wish.here:
        adapter = wish.agent.adapter
        refuse_unusable(setup.settings, os.environ, adapter, {**adapter.settings(), **settings})
    return await Session.open(
        world,
        name,
        agent=wish.agent,
        workspace=workspace,
        home=fresh_home(setup.settings.data, name),
        settings=settings,
        labels={DIRECTORY: workspace.cwd if workspace.kind == "local" else local(wish.directory).cwd},
    )


async def _exists(world: World, name: str) -> bool:
    try:
        await Session.find(world, name)
    except SessionUnknown:
        return False
    return True


async def _fresh_name(world: World, prompt: str) -> str:
    while True:
        name = session_name(prompt)
        try:
            if not await _exists(world, name):
                return name
        except Refused:
            continue  # it was erased meanwhile


def session_name(prompt: str) -> str:
    """A readable id: the first telling words of the prompt and four random characters."""
    return f"{words_of(prompt)}-{new_id('')[1:5]}"


def words_of(prompt: str) -> str:
    """The first telling words of a prompt, as the beginning of an id."""
    words = re.findall(r"[a-z0-9]+", prompt[:2000].lower())
    telling = [word for word in words if len(word) > 3][:2] or words[:2] or ["session"]
    return "-".join(word[:20] for word in telling)


async def _newest_open(world: World, wish: Wish, machine: str) -> str:
    """The newest session of this agent with an open turn that works in this directory of this machine."""
    directory = local(wish.directory, host=machine)
    after = None
    while True:
        page = await world.list(after=after, labels={DIRECTORY: directory.cwd})
        for head in page.sessions:
            fits = head.agent == wish.agent.name and head.placement in {directory.placement, "any"}
            if fits and (head.turn_open or head.waiting_inputs):
                return head.session
        after = page.next
        if after is None:
            hint = "Give a PROMPT to begin one, or --session to come back to another."
            raise NotFound(detail=f"No turn of {wish.agent.name} is open in {directory.cwd}. {hint}")


async def _come_back(setup: Setup, world: World, name: str, wish: Wish) -> Session:
    """A session that is there already: what it was opened with stands."""
    session = await Session.find(world, name)
    opened = (await session.state()).opened
    if opened is None:
        return session
    differs = ""
    if opened.agent != wish.agent.name:
        differs = f"its agent is {opened.agent!r}, not {wish.agent.name!r}"
    elif wish.cwd is not None and opened.cwd != str(wish.cwd.resolve()):
        differs = f"it works in {opened.cwd}, not {wish.cwd.resolve()}"
    elif wish.workspace is not None:
        differs = other_workspace(opened, wish.workspace)
    elif wish.model is not None and opened.settings.get("model") != wish.model:
        differs = f"its model is {opened.settings.get('model', 'the default')}, not {wish.model}"
    if differs:
        raise SessionExists(session=name, difference=differs)
    if wish.here:
        refuse_unusable(setup.settings, os.environ, wish.agent.adapter, opened.settings)
    return session


async def left(session: Session) -> list[Turn]:
    """What is open in the session: the open turn, then the prompts that wait."""
    waiting = await inputs_of(session)  # read first: what is taken out after it stands in the log
    state = await session.state()
    names = [] if state.turn is None else [state.turn.input]
    names += [queued.input for queued in state.queue]
    for name, value in waiting:
        # A steer is a prompt where no turn is there to take it.
        if isinstance(value, Prompt) or (isinstance(value, Steer) and not names):
            names.append(name)
    unwanted = {value.prompt for _, value in waiting if isinstance(value, Recall)}
    names = [name for name in names if name not in unwanted or (state.turn and name == state.turn.input)]
    return [Turn(session, name) for name in dict.fromkeys(names)]


async def _opened(session: Session) -> SessionOpened | None:
    return (await session.state()).opened


def _title(agent: Agent, opened: SessionOpened | None) -> str:
    versions = agent.adapter.versions()
    version = versions.get(agent.name) or versions.get(agent.adapter.name) or ""
    return f"{f'{agent.name} {version}'.strip()} · {place(opened)}"
