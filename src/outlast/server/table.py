"""Every operation of the server: each module of `outlast.server.routes` adds its own."""

from collections.abc import Sequence
from typing import Final

from outlast.server.operations import Operation
from outlast.server.routes import (
    ag_ui,
    approvals,
    chat,
    documents,
    files,
    health,
    inputs,
    lives,
    login,
    metrics,
    schedules,
    sessions,
    timeline,
    turns,
    watching,
    webhooks,
)

OPERATIONS: Final[Sequence[Operation]] = (
    *login.OPERATIONS,
    *sessions.OPERATIONS,
    *inputs.OPERATIONS,
    *approvals.OPERATIONS,
    *schedules.OPERATIONS,
    *turns.OPERATIONS,
    *documents.OPERATIONS,
    *files.OPERATIONS,
    *lives.OPERATIONS,
    *watching.OPERATIONS,
    *timeline.OPERATIONS,
    *webhooks.OPERATIONS,
    *metrics.OPERATIONS,
    *chat.OPERATIONS,
    *ag_ui.OPERATIONS,
    *health.OPERATIONS,
)
"""In the order in which the OpenAPI shows them. Of two paths that fit, the first is taken."""
