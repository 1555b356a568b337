"""Signed links by which somebody without a token decides about one call, once.

A link names one asking (`outlast.awaited.Awaited.ask`) of one call in one session of one tenant, until when it holds
and which rulings it allows, under HMAC-SHA256: nothing of it can be exchanged, and where that call is asked about anew,
or decided, it is stale. To look at it decides nothing, since programs open links before people do.
"""

import binascii
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from outlast.awaited import awaited_by
from outlast.errors import BadInput, Refused, WorldUnavailable
from outlast.folders import make_private
from outlast.ids import new_id, new_token
from outlast.records.kinds import Ruling
from outlast.session import Session
from outlast.settings import Settings

KEY_BYTES: Final = 16
_PURPOSE: Final = b"outlast approval link 1\n"
_LONGEST: Final = 4096
FORGED: Final = "This link is none of this server's, or was changed on its way."
OVER: Final = "This link holds no more: its time is over. Ask whoever sent it for another."


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """What a link lets its holder decide."""

    tenant: str
    session: str
    turn: int
    call: int
    ask: str
    rulings: tuple[Ruling, ...]
    until_s: float
    """Unix time."""
    by: str
    """Who made it: stands in the log with what is decided."""


class Links:
    """Makes links and reads them, under one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise BadInput(detail=f"The secret of approval links is shorter than {KEY_BYTES} bytes.")
        self._key = key

    def write(self, allowed: Pass) -> str:
        """The link's own part of its address."""
        body = msgspec.json.encode(allowed)
        return f"{_text(body)}.{_text(self._code(body))}"

    def read(self, text: str, now_s: float) -> Pass:
        """What a link allows.

        Raises:
            BadInput: it is none of ours.
            Refused: its time is over.
        """
        body, dot, code = text.partition(".")
        if not dot or len(text) > _LONGEST or not text.isascii():
            raise BadInput(detail=FORGED)
        try:
            said, given = _bytes(body), _bytes(code)
        except (binascii.Error, ValueError):
            raise BadInput(detail=FORGED) from None
        if not hmac.compare_digest(given, self._code(said)):
            raise BadInput(detail=FORGED)
        found = msgspec.json.decode(said, type=Pass)
        if now_s > found.until_s:
            raise Refused(detail=OVER)
        return found

    def _code(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _PURPOSE + body, "sha256")


async def pass_for(session: Session, call: int, rulings: Sequence[Ruling], until_s: float, by: str) -> Pass:
    """What a link to decide about a call lets its holder do.

    Args:
        rulings: empty: whatever may be decided.

    Raises:
        Refused: the call waits for no decision.
        BadInput: it waits for another.
    """
    state = await session.state()
    found = next((one for one in await awaited_by(session, state) if one.call == call and one.rulings), None)
    if found is None or state.turn is None:
        raise Refused(
            detail=f"Call {call} of {session.id} waits for no decision, so there is nothing to link to."
        )
    if not set(rulings) <= set(found.rulings):
        raise BadInput(detail=f"Call {call} waits for one of {', '.join(found.rulings)}.")
    chosen = tuple(rulings) or found.rulings
    return Pass(session.world.tenant, session.id, state.turn.turn, call, found.ask, chosen, until_s, by)


def links_of(settings: Settings) -> Links:
    """The links that the settings have the secret of; else that of a file in the data directory.

    Raises:
        BadInput, WorldUnavailable
    """
    return Links(settings.links_secret.encode() or key_in(settings.data / "server" / "links.key"))


def key_in(file: Path) -> bytes:
    """The key in a file that nobody else can read; made when it is not there.

    Raises:
        WorldUnavailable: it can be neither read nor made.
    """
    try:
        make_private(file.parent)
        if not file.exists():
            beside = file.with_name(new_id(file.name))
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
                made.write(new_token())
            with suppress(FileExistsError):  # another process was first: whole, as ours is
                os.link(beside, file)
            beside.unlink()
        return file.read_bytes()
    except OSError as error:
        raise WorldUnavailable(
            world=f"The key of approval links, {file},", reason=str(error.strerror)
        ) from None


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
