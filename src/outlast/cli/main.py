"""`outlast`: the group of commands."""

import os
from typing import Final

import click

from outlast.cli.lazy import LazyGroup

COMMANDS: Final = {
    "run": ("outlast.cli.run:run", "Have an agent carry out a prompt here, and watch it."),
    "adopt": ("outlast.cli.adopt:adopt", "Make a conversation durable that a harness had by itself."),
    "wrap": ("outlast.cli.wrap:wrap", "Start Claude Code in this terminal, with each of its calls in a log."),
    "acp": ("outlast.cli.acp.command:acp", "Let an editor open durable sessions, by ACP."),
    "work": ("outlast.cli.work:work", "Claim ready sessions and advance them."),
    "wake": (
        "outlast.cli.wake:wake",
        "Send a hint that a session is ready, or hear hints and start workers.",
    ),
    "serve": ("outlast.cli.serve:serve", "Serve the page and the API, for people and programs."),
    "token": (
        "outlast.cli.token:token",
        "List, make and remove the tokens by which the server knows who asks.",
    ),
    "ls": ("outlast.cli.look:ls", "List the sessions, newest change first."),
    "show": ("outlast.cli.look:show", "Show how a session stands, call by call."),
    "follow": ("outlast.cli.follow:follow", "Watch a session: what happened, then what comes."),
    "usage": ("outlast.cli.look:usage", "Show what the tenant has spent, day by day."),
    "cost": ("outlast.cli.cost:cost", "Show what sessions have cost, and what their logs have saved."),
    "log": ("outlast.cli.look:log", "Print every record of a session."),
    "send": ("outlast.cli.act:send", "Send a session its next prompt."),
    "steer": ("outlast.cli.act:steer", "Tell the running turn something."),
    "schedule": ("outlast.cli.schedule:schedule", "Send a session a prompt at a time, or again and again."),
    "signal": ("outlast.cli.rule:signal", "Tell a turn that what it waits for has happened."),
    "decide": ("outlast.cli.rule:decide", "Decide about a call in doubt, or answer a question."),
    "retry": ("outlast.cli.rule:retry", "Let a stuck or diverged turn go on."),
    "files": ("outlast.cli.files:files", "Look at a session's files, as its log has them."),
    "undo": ("outlast.cli.undo:undo", "Bring your directory back to before a turn."),
    "fork": ("outlast.cli.fork:fork", "Open a session that goes on from the past of another."),
    "sandbox": ("outlast.cli.sandbox:sandbox", "List the boxes of sandboxes, and end them."),
    "gc": ("outlast.cli.gc:gc", "Remove files from stores that no session needs any more."),
    "docs": ("outlast.cli.docs:docs", "Look at a session's documents, edit and follow them."),
    "cancel": ("outlast.cli.act:cancel", "End the open turn, also a stuck or diverged one."),
    "rm": ("outlast.cli.act:rm", "Erase sessions for good."),
    "install": ("outlast.cli.install:install", "Install harnesses, pinned, into outlast's own directory."),
    "doctor": ("outlast.cli.doctor:doctor", "Tell what is installed, tested and missing here."),
    "demo": ("outlast.cli.demo.command:demo", "Watch a turn outlive three kill -9, with its receipt."),
    "model-script": ("outlast.cli.model_script:model_script", "Serve a scripted model, to try things."),
}


EPILOG: Final = (
    "Examples:",
    '  outlast run claude-code "Add a pricing page and make its test pass"',
    "  outlast ls",
    "  outlast work",
    "",
    'Completion: eval "$(_OUTLAST_COMPLETE=bash_source outlast)" (or zsh_source, fish_source)',
)


@click.group(
    cls=LazyGroup,
    promises=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\n" + "\n".join(EPILOG),
)
@click.version_option(package_name="outlast", prog_name="outlast")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Coding agents that outlast the process they run in.

    Sessions live in a World (OUTLAST_WORLD, else a file in your data directory); workers advance them. Kill one, and
    another goes on from the last finished call.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
