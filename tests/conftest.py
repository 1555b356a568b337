"""What every test shares: asyncio under anyio, the hypothesis profiles, and one printed seed."""

import gc
import os
import random
import signal
from collections.abc import Generator
from pathlib import Path
from typing import cast

import anyio
import pytest
from hypothesis import HealthCheck, settings

from outlast import Session, open_world
from tests.harness_turns import TURNS, count_turns, is_apart, turns_of
from tests.servers.postgres import PostgresServer, postgres_server

pytest_plugins = ["outlast.testing.fixtures"]

SEED_VARIABLE = "OUTLAST_TEST_SEED"

settings.register_profile(
    "small",
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("few", settings.get_profile("small"), max_examples=10)
settings.register_profile("big", settings.get_profile("small"), max_examples=1_000, stateful_step_count=50)
settings.load_profile("small")


def pytest_configure() -> None:
    gc.disable()  # until all is loaded: of what is imported nothing goes
    # In the environment, so that the worker processes of xdist and the workers under test draw the same.
    os.environ.setdefault(SEED_VARIABLE, str(random.SystemRandom().randrange(2**32)))
    # Where `make programs` puts harnesses: most tests give a worker a data directory of its own.
    os.environ.setdefault("OUTLAST_HARNESS_DIR", str(Path(__file__).parents[1] / ".cache/harnesses"))
    # Every gateway reads the certificates of all authorities, which takes longer than most tests. None is needed:
    # tests speak to this machine alone, without TLS.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    # What a shell starts in the background ignores SIGINT, and so does all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is apart is not loaded where it is not to run; to skip it later costs as much as to run the half of it."""
    return True if "not apart" in str(config.option.markexpr) and is_apart(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[TURNS] = count_turns(items)  # first: before `-m` takes any away
    for item in items:
        if is_apart(item.path):
            item.add_marker(pytest.mark.apart)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Hold each test of a real harness to the number of turns that its mark says."""
    result = yield
    if told := turns_of(item):
        assert isinstance(item, pytest.Function)
        opened = anyio.run(_turns_below, cast("Path", item.funcargs["tmp_path"]))
        assert opened == told, f"{opened} turns were opened: mark it harness(turns={opened})"
    return result


async def _turns_below(directory: Path) -> int:
    """How many turns the Worlds below a directory have seen."""
    turns = 0
    for file in directory.rglob("world.db"):
        async with open_world(f"sqlite:{file}") as world:
            for head in (await world.list(limit=1000)).sessions:
                session = await Session.find(world, head.session)
                turns += (await session.state()).next_turn - 1
    return turns


def pytest_collection_finish() -> None:
    # What is loaded by now stays: the collector need not look through it again and again.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_report_header() -> str:
    return f"seed: {os.environ[SEED_VARIABLE]} (repeat with SEED=… make test)"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed that this run prints: sampled tests draw from it alone."""
    return int(os.environ[SEED_VARIABLE])


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """A Postgres of this process, started when the first test asks for it. Each case takes a schema of its own."""
    with postgres_server() as server:
        yield server
