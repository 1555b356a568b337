"""What every test shares: one event loop, asyncio under anyio."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
