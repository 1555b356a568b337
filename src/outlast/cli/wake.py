"""`outlast wake`: sends a hint, or hears hints and starts workers."""

import shlex
from collections.abc import Sequence
from functools import partial

import anyio
import click

from outlast.cli.argv import SELF
from outlast.cli.durations import DURATION
from outlast.cli.options import Setup, examples, perform, shared
from outlast.cli.starter import Starter
from outlast.errors import BadInput
from outlast.opening import waker_of
from outlast.wakers.postgres import listen

EVERY_S = 60.0
UNSET = "No waker is set. Set OUTLAST_WAKER_URL: https://…, sqs://… or postgres://…."
DEAF = (
    "Hints can be listened to in Postgres only: set OUTLAST_WAKER_URL=postgres://…. Behind https:// stands a route "
    "(outlast.asgi), behind sqs:// whatever reads the queue."
)


@click.command(
    context_settings={"ignore_unknown_options": False},
    epilog=examples(
        "outlast wake pricing-3f2a",
        "outlast wake --listen -- outlast work --once --until 14m shop.agents:support",
    ),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SESSION | COMMAND...]")
@click.option("--listen", "listens", is_flag=True, help="Hear hints in Postgres, and run COMMAND after each.")
@click.option(
    "--every",
    "every_s",
    type=DURATION,
    default=EVERY_S,
    metavar="TIME",
    help="With --listen: run it so often without a hint too; what a lost one costs at most. Default: 60s.",
)
@shared
def wake(words: tuple[str, ...], listens: bool, every_s: float, world: str | None, json: bool) -> None:
    """Send a hint that SESSION is ready, or anything, to whoever OUTLAST_WAKER_URL names.

    With --listen: hear such hints, and run COMMAND (`outlast work --once`) when one comes, and every so often without.
    One runs at a time; hints that come meanwhile make one run after it. SIGTERM is passed on to it, and waited for.
    """

    async def send(setup: Setup) -> None:
        if len(words) > 1:
            raise BadInput(
                detail=f"One session at a time; a command goes with --listen: {shlex.join(words)}."
            )
        session = "".join(words)
        if waker_of(setup.settings) is None:
            raise BadInput(detail=UNSET)
        await setup.wake(setup.settings.tenant, session)
        setup.say({"woken": session}, f"sent a hint for {session or 'whatever is ready'}")

    perform(partial(_start, words, every_s, world) if listens else send, world=world, json=json)


async def _start(words: Sequence[str], every_s: float, world: str | None, setup: Setup) -> None:
    url = setup.settings.waker_url
    if not url.startswith(("postgres://", "postgresql://")):
        raise BadInput(detail=DEAF if url else UNSET)
    waker_of(setup.settings)
    own = [*SELF, "work", "--once", *([] if world is None else ["--world", world])]
    starter = Starter(list(words) or own, every_s)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, url, starter.hear)
        await starter.run()
        tasks.cancel_scope.cancel()
