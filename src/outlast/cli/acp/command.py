"""`outlast acp`."""

import click

from outlast.cli.agents import agent_of
from outlast.cli.lazy import loaded
from outlast.cli.options import Setup, examples, perform
from outlast.errors import HarnessMissing


@click.command(epilog=examples("outlast acp claude-code", "outlast acp shop.agents:support --detached"))
@click.argument("agent")
@click.option("--model", help="The model that the harness of a new session asks for.")
@click.option(
    "--workspace",
    metavar="KIND|DIR",
    help="Of a new session: `virtual`, `sandbox`, `sandbox:PROVIDER`, or a directory of yours; by default the agent's "
    "own, else the editor's directory.",
)
@click.option("--allow", multiple=True, metavar="HOST", help="A host that the sandbox may reach.")
@click.option(
    "--detached", is_flag=True, help="Bring no worker along: some `outlast work` carries out the turns."
)
@click.option(
    "--live",
    is_flag=True,
    help="Show text while it is said, and say so where it was cut off and given again.",
)
@click.option("--world", metavar="URL", help="The World to use, in place of OUTLAST_WORLD.")
def acp(
    agent: str,
    model: str | None,
    workspace: str | None,
    allow: tuple[str, ...],
    detached: bool,
    live: bool,
    world: str | None,
) -> None:
    """Let an editor open durable sessions of AGENT: it speaks the Agent Client Protocol on standard input and output.

    AGENT is `claude-code` or MODULE:AGENT of your own. The editor starts this command; name it in its settings. What is
    under way goes on when the editor is gone, or is killed: it loads the session again and is shown all of it.
    """

    async def body(setup: Setup) -> None:
        found = agent_of(agent)
        for warning in found.adapter.check():
            click.echo(f"outlast: {warning}", err=True)
        try:
            wish = loaded("outlast.cli.acp.answering:Wish")(
                found, agent, model, workspace, allow, detached, live
            )
            serve = loaded("outlast.cli.acp.answering:serve")
        except ModuleNotFoundError as error:
            raise HarnessMissing(
                harness="acp", install=f"pip install 'outlast[acp]' ({error.name} is missing)"
            ) from error
        await serve(setup, wish)

    perform(body, world=world, json=False)
