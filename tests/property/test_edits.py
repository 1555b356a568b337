"""What edits come to: by the rules of the harnesses, or nothing is said."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outlast.adapters.claude_code.edits import inquiry_of as of_claude_code
from outlast.adapters.edited import GONE, Contents, Edit, EditInquiry
from outlast.adapters.opencode.edits import inquiry_of as of_opencode
from outlast.adapters.patches import BEGIN, END, patched, sections_of, updated
from outlast.adapters.pi.edits import inquiry_of as of_pi
from outlast.errors import WorkspaceError
from outlast.tool import Done, NotDone, Unsure
from outlast.workspace import Ran

TEXTS = st.text(alphabet="ab \n\r\ufeff“$", max_size=24)
WORDS = st.text(alphabet="ab\n$ ", max_size=4)
LINES = st.lists(st.sampled_from(["", "a", "b", "  a", "ab"]), max_size=8)


class Paper:
    """A scene of files in memory."""

    cwd = "/w"
    lasts = True

    def __init__(self, files: Contents) -> None:
        self.files = dict(files)

    async def read(self, path: str) -> bytes | None:
        if path not in self.files:
            raise WorkspaceError(detail="It is not here.")
        return self.files[path]

    async def run(self, text: str, *, cwd: str = "", timeout_s: float = 0.0) -> Ran:
        raise NotImplementedError


def comes_to(inquiry: EditInquiry | None, text: str) -> str | None:
    """What is said that the file `f` becomes, which holds a text now."""
    assert inquiry is not None
    after = inquiry.edit.apply({"f": text.encode()})
    found = after.get("f")
    return None if found is None else found.decode()


@given(TEXTS, WORDS, WORDS, st.booleans())
def test_an_edit_of_claude_code_comes_to_what_its_rule_says_or_nothing_is_said(
    text: str,
    old: str,
    new: str,
    every: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    said = {"file_path": "f", "old_string": old, "new_string": new, "replace_all": every}
    found = comes_to(of_claude_code("Edit", said), text)
    if not old:
        assert found in {new, None}
        return
    plain = "\r" not in text and not text.startswith("\ufeff")
    count = sum(text.startswith(old, at) for at in range(len(text)))
    if not plain or not count or (count > 1 and not every):
        assert found is None or (not new and not old.endswith("\n") and text.count(f"{old}\n") == 1)
    elif found is not None:
        whole = not new and not old.endswith("\n") and f"{old}\n" in text
        assert found == text.replace(f"{old}\n" if whole else old, new)


@given(TEXTS, WORDS, WORDS, st.booleans())
def test_an_edit_of_opencode_comes_to_one_exact_replacement_or_nothing_is_said(
    text: str,
    old: str,
    new: str,
    every: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    said = {"filePath": "f", "oldString": old, "newString": new, "replaceAll": every}
    found = comes_to(of_opencode("edit", said), text)
    if found is not None and old:
        assert found == text.replace(old, new)
        assert every or text.find(old) == text.rfind(old)


@given(TEXTS, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3))
def test_edits_of_pi_are_all_made_in_the_text_as_it_was_or_nothing_is_said(
    text: str, steps: list[tuple[str, str]]
) -> None:
    edits = [{"oldText": old, "newText": new} for old, new in steps]
    found = comes_to(of_pi("edit", {"path": "f", "edits": edits}), text)
    if found is None:
        return
    pieces, rest = list[str](), text
    for old, new in sorted(steps, key=lambda step: text.find(step[0])):
        before, had, rest = rest.partition(old)
        assert had == old
        pieces += [before, new]
    assert found == "".join([*pieces, rest])


@given(LINES, LINES, st.integers(0, 8), st.integers(0, 3))
def test_a_patch_made_of_two_texts_turns_one_into_the_other(
    before: list[str], put_in: list[str], at: int, taken: int
) -> None:
    at = min(at, len(before))
    out = before[at : at + taken]
    after = [*before[:at], *put_in, *before[at + taken :]]
    body = [
        *(f" {line}" for line in before[:at]),
        *(f"-{line}" for line in out),
        *(f"+{line}" for line in put_in),
    ]
    patch = "\n".join([BEGIN, "*** Update File: f", "@@", *body, END])
    sections = sections_of(patch)
    if not body:
        assert sections is None
        return
    assert sections is not None
    found = updated("".join(f"{line}\n" for line in before), sections[0].chunks)
    if before[:at] or out:
        assert found == "".join(f"{line}\n" for line in after)
    else:
        assert found is None


@given(st.text(alphabet="*+-@ af\n", max_size=80))
def test_of_any_text_as_a_patch_nothing_is_said_that_leads_elsewhere(text: str) -> None:
    edit = patched(f"{BEGIN}\n{text}\n{END}", lambda _: "")
    if edit is not None:
        assert set(edit.apply(dict.fromkeys(edit.paths, b"a\n"))) <= set(edit.paths)


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.tuples(*[st.sampled_from([None, b"1", b"2", b"3"])] * 3), min_size=1
    ),
    st.sets(st.sampled_from("abc")),
)
async def test_a_verdict_is_what_the_files_show(
    files: Mapping[str, tuple[bytes | None, bytes | None, bytes | None]], untold: set[str]
) -> None:
    """Each file: what it held before, what it is to hold, what it holds now."""
    inquiry = EditInquiry(_edit(files, untold))
    before = Paper({path: was for path, (was, _, _) in files.items()})
    witness = await inquiry.note(before)
    assert witness is not None
    now = Paper({path: holds for path, (_, _, holds) in files.items()})
    verdict = await inquiry.ask(now, witness)
    whole = all(path not in untold and holds == to for path, (_, to, holds) in files.items())
    untouched = all(holds == was for was, _, holds in files.values())
    if whole:
        assert isinstance(verdict, Done)
    elif untouched:
        assert verdict == NotDone()
    else:
        assert isinstance(verdict, Unsure)
        told = {
            path for path, (was, to, holds) in files.items() if not (was == to == holds) or path in untold
        }
        assert all(f"{path} is" in verdict.note for path in told)
    assert all(file["before"] == GONE for file in witness["files"] if files[file["path"]][0] is None)


def _edit(files: Mapping[str, tuple[Any, Any, Any]], untold: set[str]) -> Edit:
    after = {path: to for path, (_, to, _) in files.items() if path not in untold}
    return Edit(list(files), lambda _: after)
