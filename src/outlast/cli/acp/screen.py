"""The editor at the other end."""

from contextlib import suppress
from typing import Any

import acp
import click
from acp import schema

from outlast.cli.acp.questions import Question
from outlast.cli.acp.shown import Update
from outlast.cli.text import short


class Screen:
    """See `outlast.cli.acp.conversation.Editor`."""

    def __init__(self, connection: acp.Client) -> None:
        self._connection = connection
        self.name = "an editor"

    async def show(self, session: str, update: Update, facts: dict[str, Any]) -> None:
        """Draw an update; `facts` stand in its `_meta`."""
        with suppress(ConnectionError):  # it is gone; the end of what we read ends the command
            await self._connection.session_update(session, update, outlast=facts)

    async def ask(self, session: str, question: Question) -> str | None:
        """What the user chose; None if they did not."""
        try:
            answer = await self._connection.request_permission(
                session, question.tool_call(), question.choices()
            )
        except ConnectionError:
            return None
        return answer.outcome.option_id if isinstance(answer.outcome, schema.AllowedOutcome) else None

    def note(self, text: str) -> None:
        """A line for the editor's log."""
        click.echo(f"outlast: {short(text, 500)}", err=True)
