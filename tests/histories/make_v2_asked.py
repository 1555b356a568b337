"""Made `v2/extra-asked.json`: `python -m tests.histories.make_v2_asked DIRECTORY`.

A session whose call was in doubt twice: a word that names the first asking came when the second stood, and one that
names the second. Written by hand. Kept to show where the file comes from.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from outlast.codec import encode_input, encode_records
from outlast.records import (
    AnyRecord,
    AttemptOpened,
    CallIntent,
    CallOutcome,
    CallStarted,
    Decided,
    Decision,
    InputDropped,
    Payload,
    PromptQueued,
    SessionOpened,
    TurnOpened,
    TurnParked,
    TurnReleased,
    TurnSettled,
)
from outlast.world.commit import Commit, Header, make_commit
from tests.histories.stored import History, summary

SESSION = "extra-asked"
PROMPT = Payload(json=msgspec.Raw(b'"go"'))
PAID = Payload(json=msgspec.Raw(b'"paid"'))


def _commit(seq: int, fence: int, *records: AnyRecord) -> Commit:
    return make_commit(Header(seq, fence, 1, len(records)), encode_records(list(records)), {})


def asked() -> History:
    """The whole story."""
    pay = CallIntent(1, 1, "main", 0, "tool", "pay", PROMPT, granted=True)
    doubt = {"in_doubt": [1]}
    return History.of(
        SESSION,
        [
            _commit(1, 0, SessionOpened(SESSION, "tester", "python")),
            _commit(2, 1, AttemptOpened("worker-1", at_s=1.0)),
            _commit(3, 1, PromptQueued("in-1", PROMPT), TurnOpened(1, "in-1", PROMPT, 2.0), pay),
            _commit(4, 1, CallStarted(1, 1, "main", at_s=3.0)),
            _commit(5, 2, AttemptOpened("worker-2", at_s=4.0)),
            _commit(6, 2, TurnParked(1, "decision", doubt, 5.0)),
            _commit(7, 3, AttemptOpened("worker-3", at_s=6.0)),
            _commit(
                8,
                3,
                Decided(1, 1, "run_again", "dec-1", "ann", 7.0),
                TurnReleased(1, "ann", 7.0, renews=False),
            ),
            _commit(9, 3, CallStarted(1, 1, "main", at_s=8.0)),
            _commit(10, 4, AttemptOpened("worker-4", at_s=9.0)),
            _commit(11, 4, TurnParked(1, "decision", doubt, 10.0)),
            _commit(12, 5, AttemptOpened("worker-5", at_s=11.0)),
            _commit(13, 5, InputDropped("dec-2", "call 1 is asked about anew since")),
            _commit(
                14,
                5,
                Decided(1, 1, "done", "dec-3", "ann", 12.0),
                CallOutcome(1, 1, "ok", PAID, "main", at_s=12.0),
                TurnReleased(1, "ann", 12.0, renews=False),
            ),
            _commit(15, 5, TurnSettled(1, "done", PAID)),
        ],
        {
            "dec-1": encode_input(Decision(1, "run_again", None, "ann", 7.0, ask="1-1")),
            "dec-2": encode_input(Decision(1, "failed", None, "bob", 7.5, ask="1-1")),
            "dec-3": encode_input(Decision(1, "done", "paid", "ann", 12.0, ask="1-3")),
        },
    )


async def main(directory: Path) -> None:
    """Write the history and what must be read in it."""
    history = asked()
    (directory / f"{SESSION}.json").write_bytes(msgspec.json.encode(history) + b"\n")
    expected = msgspec.json.encode(await summary(history))
    (directory / f"{SESSION}.expected.json").write_bytes(msgspec.json.format(expected, indent=1) + b"\n")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
