"""A scripted harness that keeps a file of its own: a line for each step, before it asks the model for the next."""

from outlast.adapter import Attempt
from outlast.adapters.scripted import ModelStep, Scripted
from outlast.fold import FileState

FILE = "transcript.jsonl"


class Mirroring(Scripted):
    """Its file is mirrored as a real harness's is."""

    async def _ask(self, attempt: Attempt, at: int, step: ModelStep) -> str:
        known = attempt.state.files.get(FILE, FileState()).lines
        if known < at:
            await attempt.mirror(
                FILE, known, [f'{{"step": {line}}}' for line in range(known, at)], durable=True
            )
        return await super()._ask(attempt, at, step)
