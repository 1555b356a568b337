import re

import pytest

from outlast.errors import BadSessionId
from outlast.ids import blob_hash, check_session_id, digest, new_id, new_token, short_digest, stable_uuid


@pytest.mark.parametrize("session", ["a", "0", "a.b_c-d", "x" * 128, "0--", "a..b"])
def test_a_session_id_is_given_back(session: str) -> None:
    assert check_session_id(session) == session


@pytest.mark.parametrize(
    "session", ["", "A", "-a", ".a", "_a", "a/b", "a b", "a\n", "é", "x" * 129, "a\x00", "../a"]
)
def test_what_is_no_session_id_is_refused(session: str) -> None:
    with pytest.raises(BadSessionId):
        check_session_id(session)


def test_new_ids_differ_and_are_session_ids() -> None:
    made = {new_id("worker") for _ in range(1000)}
    assert len(made) == 1000
    assert all(check_session_id(name).startswith("worker-") for name in made)


def test_tokens_are_long_random_and_safe_in_a_url() -> None:
    made = {new_token() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", token) for token in made)


def test_parts_of_a_digest_do_not_run_into_one_another() -> None:
    whole = ((b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"abc", b""))
    assert len({digest(*parts) for parts in whole}) == len({short_digest(*parts) for parts in whole}) == 4


def test_a_short_digest_fits_into_eight_bytes() -> None:
    assert all(0 <= short_digest(b"%d" % number) < 1 << 64 for number in range(1000))


def test_hashes_are_the_same_for_ever() -> None:
    """Written down from the first release: a stored log names its blobs by them."""
    assert digest(b"a", b"b") == "I3I4vBNBoFcJn5H8kMInHg"
    assert blob_hash("default", b"bytes") == "P47JtUfiz23OASDyVHlnEQ"
    assert stable_uuid("a", "b") == "8391069e-fb5e-544a-8797-aacc3684bac3"


def test_equal_bytes_of_two_tenants_have_unequal_names() -> None:
    assert blob_hash("a", b"bytes") != blob_hash("b", b"bytes")
