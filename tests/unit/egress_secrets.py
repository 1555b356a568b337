"""Functions that say secrets."""

from outlast.workspaces.egress import Who


def of_agent() -> str:
    return "of-a-function"


async def of_session(who: Who) -> str:
    return f"of-{who.session}"
