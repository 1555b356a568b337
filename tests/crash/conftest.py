from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.trees import Grove, planted


@pytest.fixture
def grove(tmp_path: Path) -> Iterator[Grove]:
    with planted(tmp_path) as grove:
        yield grove
