"""The port of everything durable: what a store must promise so that sessions outlive processes.

`World` is four small ports over one store (`Log`, `Inbox`, `Queue`, `Blobs`) and the hints between processes.
The promises stand in the docstrings of these ports and nowhere else; `outlast.testing.world_contract` holds a
World to each of them.
"""

from outlast.world.blobs import Blobs
from outlast.world.commit import Commit, Delta, Gap, Header, Item, Spent
from outlast.world.cursor import START, Cursor
from outlast.world.inbox import Inbox, Input
from outlast.world.log import Log, Page, SessionHead, Stored
from outlast.world.queue import Claim, Lease, Limits, Liveness, Queue, Takeover, WorkerOffer, WorkerRow
from outlast.world.world import Capability, Subscription, World

__all__ = [
    "START",
    "Blobs",
    "Capability",
    "Claim",
    "Commit",
    "Cursor",
    "Delta",
    "Gap",
    "Header",
    "Inbox",
    "Input",
    "Item",
    "Lease",
    "Limits",
    "Liveness",
    "Log",
    "Page",
    "Queue",
    "SessionHead",
    "Spent",
    "Stored",
    "Subscription",
    "Takeover",
    "WorkerOffer",
    "WorkerRow",
    "World",
]
