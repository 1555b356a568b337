import copy
import pickle
import re
from collections.abc import Iterator
from string import Formatter

import pytest

from outlast import errors
from outlast.errors import AttemptLost, BadInput, OutlastError, SessionUnknown, TurnStopped


def _tree(root: type[OutlastError] = OutlastError) -> Iterator[type[OutlastError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


TREE = list(_tree())


def _facts(kind: type[OutlastError]) -> dict[str, object]:
    return {name: f"<{name}>" for _, name, _, _ in Formatter().parse(kind.text) if name}


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
