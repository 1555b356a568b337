"""Patches of several files, and replacements of several texts, as models write them."""

from typing import Any, cast

import pytest

from outlast.adapters.patches import Chunk
from outlast.errors import FileMissing
from outlast.tool import ToolFailed
from outlast.workspace_tools.patches import patched, updated
from outlast.workspace_tools.texts import replaced


class Desk:
    """A call's workspace (`outlast.tool.ToolIO.workspace`), as far as files are asked of it."""

    def __init__(self, **files: str) -> None:
        self.texts = {name.replace("_", "."): text.encode() for name, text in files.items()}

    @property
    def workspace(self) -> "Desk":
        return self

    @property
    def files(self) -> "Desk":
        return self

    async def find(self, path: str) -> None:
        return None

    async def read(self, path: str) -> bytes:
        if path not in self.texts:
            raise FileMissing(path=path)
        return self.texts[path]

    async def write(self, path: str, data: bytes) -> None:
        self.texts[path] = data

    async def remove(self, path: str) -> None:
        del self.texts[path]


PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+two
*** Update File: a.py
@@ def say():
-    return 7
+    return 8
*** Update File: b.py
*** Move to: c.py
@@
 keep
-old
+new
*** End of File
*** Delete File: d.py
*** End Patch"""


async def test_a_patch_adds_changes_moves_and_removes() -> None:
    desk = Desk(
        a_py="def other():\n    return 7\n\ndef say():\n    return 7\n",
        b_py="old\nkeep\nold\n",
        d_py="x",
    )
    said = await patched(cast("Any", desk), PATCH)
    assert desk.texts == {
        "new.txt": b"one\ntwo\n",
        "a.py": b"def other():\n    return 7\n\ndef say():\n    return 8\n",
        "c.py": b"old\nkeep\nnew\n",
    }
    assert said == "Done:\nA new.txt\nM a.py\nM c.py\nD d.py"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\nwhat\n*** End Patch",
        "*** Begin Patch\n*** Add File: x\nno plus\n*** End Patch",
        "*** Begin Patch\n*** Delete File: x\n+y\n*** End Patch",
        "*** Begin Patch\n*** Update File: x\n@@\n?\n*** End Patch",
    ],
)
async def test_what_is_no_patch_is_told_so(text: str) -> None:
    with pytest.raises(ToolFailed, match="This is no patch that can be read"):
        await patched(cast("Any", Desk(x="y")), text)


async def test_a_patch_that_does_not_fit_changes_nothing() -> None:
    desk = Desk(a_py="text\n")
    text = "*** Begin Patch\n*** Add File: n\n+n\n*** Update File: a.py\n@@\n-other\n+new\n*** End Patch"
    with pytest.raises(ToolFailed, match=r"Nothing was changed: in a\.py"):
        await patched(cast("Any", desk), text)
    assert desk.texts == {"a.py": b"text\n"}


def test_blanks_around_lines_do_not_matter_and_what_stands_beside_nothing_goes_to_the_end() -> None:
    chunks = [Chunk([" a"], ["b"]), Chunk([], ["last"])]
    assert updated("x", "  a  \nz\n", chunks) == "b\nz\nlast\n"
    assert updated("x", "a\nb\na", [Chunk(["a"], ["c"], last=True)]) == "a\nb\nc\n"
    assert updated("x", "a\nb\n", [Chunk([], ["i"], after="a")]) == "a\ni\nb\n"


async def test_several_texts_are_replaced_at_once_or_none() -> None:
    desk = Desk(a_py="one two three")
    await replaced(cast("Any", desk), "a.py", [("three", "3"), ("one", "1 three")])
    assert desk.texts["a.py"] == b"1 three two 3"
    for edits in (
        [("two", "2"), ("no", "x")],
        [("three", "x")],
        [("two", "two")],
        [("", "x")],
        [("three two", "x"), ("two 3", "y")],
    ):
        desk.texts["a.py"] = b"1 three two 3 three"
        with pytest.raises(ToolFailed, match="Nothing was changed"):
            await replaced(cast("Any", desk), "a.py", edits)
        assert desk.texts["a.py"] == b"1 three two 3 three"
