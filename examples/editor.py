"""An agent that asks others: each topic is looked into in a session of its own, side by side, and one text comes of it.

    export ANTHROPIC_API_KEY=…
    outlast work examples.editor:editor examples.editor:researcher
    outlast run --detach examples.editor:editor "What does it cost? / Who else offers it?"

Kill any worker: what a researcher has found is not looked for again, and the editor waits for the same ones.
"""

from collections.abc import Sequence
from functools import partial

from outlast import Agent
from outlast.adapters.python import IO, Loop, LoopFunction
from outlast.errors import ChildFailed, NothingCame
from outlast.model import Message, Model, user
from outlast.models.anthropic import Anthropic

PATIENCE_S = 3600.0


def researching(model: Model) -> LoopFunction:
    """The loop of a researcher: one question, one answer."""

    async def research(io: IO, question: str) -> str:
        ask: Sequence[Message] = [user(f"Answer in a paragraph: {question}")]
        return (await io.model(model, ask)).message.text

    return research


def editing(model: Model) -> LoopFunction:
    """The loop of the editor: a researcher for each question, and a text of what they found."""

    async def ask(io: IO, question: str) -> str:
        try:
            return await io.spawn("researcher", question, timeout_s=PATIENCE_S)
        except ChildFailed as error:
            return f"Nobody knows: {error}"
        except NothingCame:
            return "Nobody knew within an hour."

    async def edit(io: IO, questions: str) -> str:
        asked = [question.strip() for question in questions.split("/")]
        found = await io.gather(*(partial(ask, question=question) for question in asked))
        notes = "\n\n".join(f"{question}\n{answer}" for question, answer in zip(asked, found, strict=True))
        return (await io.model(model, [user(f"Make one text of these notes:\n\n{notes}")])).message.text

    return edit


def agents_of(model: Model) -> tuple[Agent, Agent]:
    """The editor and the researcher that a model speaks for."""
    return Agent("editor", Loop(editing(model))), Agent("researcher", Loop(researching(model)))


editor, researcher = agents_of(Anthropic("claude-sonnet-5-5"))
