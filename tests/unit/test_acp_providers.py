"""An ACP agent whose model could not be asked is refused before its first prompt."""

from pathlib import Path

import pytest

from outlast.adapters.acp import Acp, ModelDoor
from outlast.cli.providers import refuse_unusable
from outlast.errors import BadInput
from outlast.settings import Settings

OPENAI_DOOR = ModelDoor("openai-chat")


@pytest.mark.parametrize(
    ("door", "says"), [(OPENAI_DOOR, "OPENAI_API_KEY"), (ModelDoor("klingon"), "'klingon'")]
)
def test_what_could_only_fail_is_refused(door: ModelDoor, says: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}
    with pytest.raises(BadInput, match=says):
        refuse_unusable(Settings(), environ, Acp(["mine"], model=door), {})


@pytest.mark.parametrize(
    ("door", "environ"), [(OPENAI_DOOR, {"OPENAI_API_KEY": "k"}), (None, dict[str, str]())]
)
def test_what_may_work_is_let_begin(door: ModelDoor | None, environ: dict[str, str], tmp_path: Path) -> None:
    refuse_unusable(Settings(), {"HOME": str(tmp_path), **environ}, Acp(["mine"], model=door), {})
