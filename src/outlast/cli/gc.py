"""`outlast gc`: gives back the room of packs that no session's log leads to."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from typing import Final

import click

from outlast.cli.durations import DURATION
from outlast.cli.options import Setup, examples, perform, shared
from outlast.drive import PackStore
from outlast.errors import Refused
from outlast.opening import open_world
from outlast.sites import find_store, kept_files, same_store, stores_of
from outlast.workspaces.drive import collect
from outlast.workspaces.drive.collecting import GRACE_S
from outlast.world import World

SHOWN: Final = 5
STRANGERS: Final = (
    "Sessions that are in none of these Worlds have files in {store}: {names} ({count} in all). Nothing was removed. "
    "Name their World with --beside URL; if they were erased, say --forget-others, and their files go."
)


@click.command(
    epilog=examples(
        "outlast gc --dry-run",
        "outlast gc /srv/drives",
        "outlast gc s3://our-bucket/drives --beside postgres://db.internal/outlast",
    )
)
@click.argument("stores", nargs=-1, metavar="[STORE]...")
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@click.option(
    "--older-than",
    "older_s",
    type=DURATION,
    default=GRACE_S,
    show_default="1d",
    help="Packs that were put later stay. Longer than any time between a checkpoint and its commit.",
)
@click.option("--beside", multiple=True, metavar="URL", help="Another World whose sessions use the store.")
@click.option("--forget-others", is_flag=True, help="Also what sessions of no World that is named have put.")
@shared
def gc(
    stores: tuple[str, ...],
    dry_run: bool,
    older_s: float,
    beside: tuple[str, ...],
    forget_others: bool,
    world: str | None,
    json: bool,
) -> None:
    """Remove from each STORE of files the packs that no session's log leads to; by default from all that are used.

    It reads every log of the Worlds, and may run beside workers and be stopped at any moment. What the World itself
    holds of files goes with its sessions, and needs no collection.
    """

    async def body(setup: Setup) -> None:
        async with setup.world() as own, AsyncExitStack() as held:
            worlds = [own]
            for url in beside:
                other = await held.enter_async_context(open_world(url))
                worlds.append(other.for_tenant(own.tenant))
            urls = stores or [url for one in worlds for url in await stores_of(one)]
            for url in dict.fromkeys(urls):
                store = find_store({"store": url}, own.tenant)
                assert store is not None, "a URL names one"
                others = await store.claimants()
                roots = _Roots(worlds, url, others)
                found = await collect(
                    store,
                    roots.all(ignore_others=forget_others),
                    own.tenant,
                    grace_s=older_s,
                    dry_run=dry_run,
                )
                if not dry_run:
                    await _forget(store, roots.others)
                value = {"store": url, "needed": found.reached, "removed": found.removed, "dry_run": dry_run}
                word = "would go" if dry_run else "removed"
                setup.say(value, f"{url}: {found.removed:,} packs {word}, {found.reached:,} are needed")
            if not urls and not json:
                click.echo(f"No session of {own.name} keeps its files in a store.", err=True)

    perform(body, world=world, json=json)


class _Roots:
    """What some Worlds lead to in a store.

    Args:
        claimants: who had claimed the store before any log is read. A session that is opened later is in its World by
            the time that it claims, and its packs are young.
    """

    def __init__(self, worlds: Sequence[World], url: str, claimants: frozenset[str]) -> None:
        self._worlds = worlds
        self._url = url
        self.others = claimants
        """Those of them that are in none of the Worlds, once all was read."""

    async def all(self, *, ignore_others: bool) -> AsyncGenerator[str]:
        """Every root.

        Raises:
            Refused: sessions of no World have claimed the store.
        """
        known: set[str] = set()
        for world in self._worlds:
            async for kept in kept_files(world):
                if same_store(kept.store, self._url):
                    known.add(kept.folder)
                    for root in kept.roots:
                        yield root
        self.others -= known
        if self.others and not ignore_others:
            names = ", ".join(sorted(self.others)[:SHOWN])
            raise Refused(detail=STRANGERS.format(count=len(self.others), store=self._url, names=names))


async def _forget(store: PackStore, sessions: frozenset[str]) -> None:
    for session in sorted(sessions):
        await store.forget(session)
