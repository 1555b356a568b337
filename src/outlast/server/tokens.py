"""The token file: who may ask, by tokens of which it holds hashes alone."""

import fcntl
import hmac
import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from outlast.clock import Clock
from outlast.errors import BadInput, NotFound, WorldUnavailable
from outlast.folders import make_private
from outlast.ids import new_id, new_token, sha256
from outlast.server.access import Identity, Scope

PREFIX: Final = "ol_"
"""What tokens begin with, so that whoever finds one knows what it is."""
_LONGEST: Final = 512
_MODE: Final = 0o600


class TokenRow(msgspec.Struct, frozen=True):
    """One token."""

    name: str
    """Of whoever holds it, for people: unique in the file."""
    hash: str
    """SHA-256 of the token: it has 256 random bits, so nothing slower is needed."""
    tenant: str = "default"
    scopes: tuple[Scope, ...] = tuple(Scope)
    made_at_s: float = 0.0


class _File(msgspec.Struct, frozen=True):
    tokens: tuple[TokenRow, ...] = ()


class Tokens:
    """The tokens of a file, which nobody but its owner can read.

    A doorkeeper (`outlast.server.access`). What is added or removed holds from the next request on, in every server
    that reads the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._rows: Sequence[TokenRow] = ()

    async def identify(self, credential: str) -> Identity | None:
        if not credential.startswith(PREFIX) or len(credential) > _LONGEST:
            return None
        given = sha256(credential.encode("utf-8", "surrogateescape"))
        found: TokenRow | None = None
        for row in self.rows():
            if hmac.compare_digest(row.hash.encode(), given.encode()):
                found = row
        return None if found is None else Identity(found.name, found.tenant, frozenset(found.scopes))

    def rows(self) -> Sequence[TokenRow]:
        """Every token, in the order in which they were made.

        Raises:
            WorldUnavailable: the file cannot be read, or is none of ours.
        """
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._rows = None, ()
            return ()
        except OSError as error:
            raise self._broken(str(error.strerror)) from None
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._rows, self._seen = self._read(), seen
        return self._rows

    def add(
        self, name: str, clock: Clock, *, tenant: str = "default", scopes: Sequence[Scope] = tuple(Scope)
    ) -> str:
        """Make a token. It is returned once, and stands nowhere.

        Raises:
            BadInput: the name is taken, or is none.
            WorldUnavailable: the file cannot be written.
        """
        if not name or len(name) > 100 or not name.isprintable():
            raise BadInput(detail="A token needs a name of 1 to 100 printable characters.")
        token = PREFIX + new_token()
        with self._alone():
            rows = self.rows()
            if any(row.name == name for row in rows):
                raise BadInput(
                    detail=f"There is a token called {name!r} already. Take another name, or remove it first."
                )
            row = TokenRow(name, sha256(token.encode()), tenant, tuple(dict.fromkeys(scopes)), clock.now())
            self._write((*rows, row))
        return token

    def add_first(self, name: str, clock: Clock, *, tenant: str = "default") -> str:
        """Make the first token of a file: of several who want to at once, one does. Empty: there are some already.

        Raises:
            WorldUnavailable: the file cannot be read or written.
        """
        token = PREFIX + new_token()
        with self._alone():
            if self.rows():
                return ""
            self._write((TokenRow(name, sha256(token.encode()), tenant, tuple(Scope), clock.now()),))
        return token

    def remove(self, name: str) -> None:
        """Forget a token: from the next request on it lets nobody in.

        Raises:
            NotFound: there is none of this name.
        """
        with self._alone():
            rows = self.rows()
            left = tuple(row for row in rows if row.name != name)
            if len(left) == len(rows):
                raise NotFound(detail=f"There is no token called {name!r}. `outlast token ls` lists them.")
            self._write(left)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Nobody else changes the file meanwhile: what is read and then written loses no token of another's.

        Raises:
            WorldUnavailable: it cannot be seen to.
        """
        with ExitStack() as held:
            try:
                make_private(self._path.parent)
                # Of the folder: the file itself is replaced, and a file beside it would lie about for ever.
                folder = os.open(self._path.parent, os.O_RDONLY)
                held.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX)
            except OSError as error:
                raise self._broken(str(error.strerror)) from None
            yield

    def _read(self) -> Sequence[TokenRow]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).tokens
        except (OSError, msgspec.MsgspecError) as error:
            raise self._broken(type(error).__name__) from None

    def _write(self, rows: Sequence[TokenRow]) -> None:
        beside = self._path.with_name(new_id(self._path.name))
        try:
            make_private(self._path.parent)
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_File(tuple(rows)))))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise self._broken(str(error.strerror)) from None

    def _broken(self, reason: str) -> WorldUnavailable:
        return WorldUnavailable(world=f"The token file {self._path}", reason=reason)
