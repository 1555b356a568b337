"""Prompts that an application lets come at a time, or again and again."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from outlast.codec import Packer, encode_input
from outlast.editing import DocumentDesk
from outlast.ids import digest, new_id
from outlast.planning import Planned, content_of, once_id, plans, wanted_of
from outlast.records import AnyInput, Unschedule
from outlast.records.agenda import Missed, Overlap
from outlast.world import Input


class ScheduleDesk(DocumentDesk):
    """The schedules of a session, for an application."""

    async def schedule(  # noqa: PLR0913 - the words of a schedule
        self,
        prompt: str,
        *,
        at: datetime | float | None = None,
        every: timedelta | float | None = None,
        cron: str | None = None,
        zone: str = "",
        overlap: Overlap = "queue",
        missed: Missed = "once",
        id: str | None = None,  # noqa: A002
    ) -> str:
        """Send a prompt at a time, or again and again. Durable when this returns. Returns the id of the schedule.

        The same id with the same content is the same schedule: one that comes again and again goes on as it does, one
        that comes once has come once, whatever was sent since. With other content it replaces the one of that id.

        Args:
            at: the one time: a datetime with its time zone, or Unix seconds. One that has passed is now.
            every: seconds from one time to the next, counted from now.
            cron: five fields, minute hour day month weekday, as Debian's cron reads them.
            zone: where `cron` is meant, as `Europe/Berlin`; UTC by default.
            overlap: what happens at a time when a turn is open: its prompt waits behind it, `queue`, one at most; or is
                left out, `skip`.
            missed: what happens with times that passed while no worker was there: the newest comes, late, `once`; or
                none does, `skip`. It then goes on with the next.

        Raises:
            BadInput: there is no such time, or not exactly one of `at`, `every` and `cron` was said.
        """
        name = id or new_id("schedule")
        wanted = wanted_of(
            name,
            prompt,
            self._clock.now(),
            at=at,
            every=every,
            cron=cron,
            zone=zone,
            overlap=overlap,
            missed=missed,
        )
        input_id = once_id(wanted) if wanted.at_s else new_id("schedule")
        await self._put(input_id, wanted, content_of(wanted))
        return name

    async def unschedule(self, schedule: str) -> None:
        """Let a schedule come no more; one that is not there changes nothing. Its prompts that wait already stay."""
        await self._put(new_id("unschedule"), Unschedule(schedule, self._clock.now()), schedule)

    async def schedules(self) -> Sequence[Planned]:
        """The schedules that stand, the next to come first."""
        return await plans(self.world, self.id, await self.state())

    async def _put(
        self,
        input_id: str,
        value: AnyInput,
        content: str,
        priority: int | None = None,
        packer: Packer | None = None,
    ) -> Input:
        """Put it there; `packer` has the blobs that it names."""
        body, blobs = encode_input(value), {} if packer is None else packer.blobs
        marks = digest(type(value).__name__.encode(), content.encode())
        return await self.world.put_input(
            self.id, Input(input_id, marks, body, tuple(blobs), blobs, priority)
        )
