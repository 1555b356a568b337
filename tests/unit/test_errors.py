import ast
import copy
import pickle
import re
from collections.abc import Iterator, Sequence
from functools import cache
from inspect import get_annotations
from pathlib import Path
from string import Formatter

import pytest

from outlast import errors
from outlast.errors import AttemptLost, BadInput, OutlastError, SessionUnknown, TurnStopped
from tests.parsing import parsed


def _tree(root: type[OutlastError] = OutlastError) -> Iterator[type[OutlastError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


TREE = list(_tree())
KINDS = {kind.__name__: kind for kind in TREE}
NAMED = re.compile(rf"\b({'|'.join(KINDS)})\(")


def _facts(kind: type[OutlastError]) -> dict[str, object]:
    return {name: f"<{name}>" for _, name, _, _ in Formatter().parse(kind.text) if name}


def _beside(kind: type[OutlastError]) -> set[str]:
    """Facts that an error has beside those in its message: declared, and without a default."""
    return {name for name in get_annotations(kind) if not hasattr(kind, name)}


@cache
def _made() -> Sequence[tuple[str, type[OutlastError], ast.Call]]:
    """Every place in the package where an error is made: whether raised there or handed to whoever raises it."""
    package = Path(errors.__file__).parent
    made: list[tuple[str, type[OutlastError], ast.Call]] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text()
        if NAMED.search(text) is None:
            continue
        for node in ast.walk(parsed(text)):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in KINDS:
                    made.append((f"{path.relative_to(package)}:{node.lineno}", KINDS[name], node))
                case _:
                    pass
    return made


def _misfit(kind: type[OutlastError], made: ast.Call) -> str:
    """What is wrong with the facts that `made` gives to its error; empty if nothing is."""
    named = {keyword.arg for keyword in made.keywords}
    wanted = set(_facts(kind)) | _beside(kind)
    if made.args or None in named:
        return f"{kind.__name__} is made with facts that have no name here"
    if named != wanted:
        return f"{kind.__name__} is made of {sorted(wanted)}, not of {sorted(map(str, named))}"
    return ""


@pytest.mark.parametrize("kind", TREE)
def test_an_error_says_its_facts_and_has_them_as_attributes(kind: type[OutlastError]) -> None:
    facts = _facts(kind)
    error = kind(**facts)
    for name, value in facts.items():
        assert str(value) in str(error)
        assert getattr(error, name) == value
    with pytest.raises(AttributeError):
        error.no_such_fact  # noqa: B018 - reading it is the test


@pytest.mark.parametrize("kind", TREE)
def test_an_error_survives_another_process(kind: type[OutlastError]) -> None:
    error = kind(**_facts(kind))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), again.facts) == (kind, str(error), error.facts)


@pytest.mark.parametrize("kind", [kind for kind in TREE if kind.text != OutlastError.text])
def test_a_message_is_made_of_sentences(kind: type[OutlastError]) -> None:
    assert re.match(r"[A-Z{]|outlast ", kind.text)
    assert kind.text.endswith((".", "}"))
    assert _facts(kind)


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = re.findall(r"\b[A-Z]\w+", (errors.__doc__ or "").partition("The sentence lives")[0])
    assert {name for name in drawn if hasattr(errors, name)} == {kind.__name__ for kind in TREE}


def test_a_parent_catches_its_children() -> None:
    with pytest.raises(errors.NotFound):
        raise SessionUnknown(session="s", world="w")
    with pytest.raises(BadInput, match=r"^why$"):
        raise BadInput(detail="why")


@pytest.mark.parametrize("kind", [AttemptLost, TurnStopped])
def test_control_flow_is_swallowed_by_no_except_exception(kind: type[AttemptLost | TurnStopped]) -> None:
    assert not issubclass(kind, Exception)
    stop = kind("fenced")
    assert str(pickle.loads(pickle.dumps(stop))) == "fenced"


def test_every_error_is_made_with_the_facts_that_its_message_names() -> None:
    misfits = {place: misfit for place, kind, made in _made() if (misfit := _misfit(kind, made))}
    assert not misfits


def test_every_error_that_has_a_message_of_its_own_is_raised_somewhere() -> None:
    speaking = {kind for kind in TREE if "text" in vars(kind)} - {OutlastError}
    assert speaking <= {kind for _, kind, _ in _made()}


@pytest.mark.parametrize(
    "code",
    [
        "TurnUnknown(session=session)",
        "TurnUnknown(session=session, turn=1, world=world)",
        "TurnUnknown(session, turn=1)",
        "TurnUnknown(**facts)",
    ],
)
def test_a_fact_that_is_missing_unknown_or_unnamed_is_found(code: str) -> None:
    made = ast.parse(code, mode="eval").body
    assert isinstance(made, ast.Call)
    assert _misfit(errors.TurnUnknown, made)
