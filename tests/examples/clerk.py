"""A model that speaks for the refund example's agent, without a provider."""

from collections.abc import Mapping

from outlast.model import Answer, Request, Show, ToolMessage, quiet
from outlast.recovery import IN_DOUBT
from tests.unit.listed_model import says, texts, wants

ORDER, CENTS = "81", 1250


class Clerk:
    """A model that does what its instructions say."""

    name = provider = "clerk"
    context_tokens = 0

    def versions(self) -> Mapping[str, str]:
        return {}

    async def ask(self, request: Request, show: Show = quiet) -> Answer:
        said = texts(request)[-1]
        count = len(request.messages)
        if not isinstance(request.messages[-1], ToolMessage) or "no refund" in said:
            return says("I refund.", wants("refund", id=f"refund-{count}", order=ORDER, cents=CENTS))
        if said == IN_DOUBT:
            return says("I look.", wants("find_refund", order=ORDER))
        return says(f"Done: {said}.")
