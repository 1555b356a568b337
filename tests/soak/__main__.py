"""`python -m tests.soak --n 200`: turns of a real harness while their workers are killed; every promise is counted.

Several sessions at a time, on a few real workers that a seeded hand kills with SIGKILL: the worker (and with it the
gateway, which lives there), the harness, both, or the supervisor of either. Each attempt begins in a fresh home. After
each turn the provider's door, the effects outside, the log and the transcript are compared.

One turn holds a tool call with a time-out of an hour. The clock of a harness cannot be turned, so the call is let go
once it has been begun three times: that an open call is neither cut off nor forgotten does not depend on how long it
lasts.
"""

import argparse
import random
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import anyio

from outlast.testing.adapter_contract.stage import staged
from tests.harnesses.subjects import SUBJECTS
from tests.soak.crew import Crew
from tests.soak.run import Soak
from tests.soak.turns import planned

_SUBJECTS = {subject.name: subject for subject in SUBJECTS}


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="how many turns")
    parser.add_argument(
        "--seed", type=int, default=None, help="of turns and kills; drawn and printed by default"
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--at-a-time", type=int, default=4, help="sessions under way")
    parser.add_argument("--every-s", type=float, default=1.5, help="mean time between kills")
    parser.add_argument("--harness", choices=list(_SUBJECTS), default="claude-code")
    parser.add_argument("--world", choices=["sqlite"], default="sqlite")
    return parser.parse_args()


async def soak(said: argparse.Namespace, directory: Path, seed: int) -> Soak:
    """Carry the soak out."""
    subject = _SUBJECTS[said.harness]
    turns = planned(subject, said.n, seed)
    script = {name: steps for turn in turns for name, steps in turn.script.items()}
    async with staged(subject, directory, script) as stage:
        (stage.shop / "read-me.txt").write_text("There is nothing to read.\n")
        crew = Crew(stage, said.workers, random.Random(seed + 1))
        running = Soak(stage, crew, turns)
        await running.run(said.at_a_time, said.every_s)
    return running


def main() -> int:
    """Run. Returns the exit status: 0 only if every promise held."""
    said = options()
    seed = secrets.randbelow(2**32) if said.seed is None else said.seed
    directory = Path(tempfile.mkdtemp(prefix="outlast-soak-"))
    print(f"soak: {said.n} turns of {said.harness}, seed {seed}, in {directory}", flush=True)
    done = anyio.run(soak, said, directory, seed)
    print(done.summary(), flush=True)
    if done.faults:
        print(
            f"repeat: python -m tests.soak --harness {said.harness} --n {said.n} --seed {seed}   (kept: {directory})"
        )
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
