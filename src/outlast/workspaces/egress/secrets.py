"""Where the secrets come from: the worker's environment, its files, a function of its code."""

import importlib
import inspect
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import anyio
from anyio import to_thread

from outlast.clock import Clock
from outlast.errors import WorkspaceError
from outlast.workspaces.egress.events import Who
from outlast.workspaces.egress.rules import Credential

_SHORTEST: Final = 6
"""Bytes of a text that is looked for in answers: a shorter one stands there by chance."""


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """A secret, as it is shown to a host. Its repr says nothing."""

    header: bytes
    value: bytes
    forms: tuple[bytes, ...]
    """What must not come back: the secret as it is, and as it goes over the wire."""


class Secrets(Protocol):
    """Says the secrets of credentials."""

    def check(self, credential: Credential, who: Who) -> None:
        """Look whether it can be said, as far as that is seen without saying it.

        Raises:
            WorkspaceError: it cannot; the text says what is missing.
        """
        ...

    async def say(self, credential: Credential, who: Who) -> str:
        """The secret.

        Raises:
            Exception: of any kind: it cannot be had now.
        """
        ...


class WorkerSecrets:
    """Those of this process."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ: Mapping[str, str] = os.environ if environ is None else environ

    def check(self, credential: Credential, who: Who) -> None:
        name = _filled(credential, who)
        match credential.secret.source:
            case "env":
                missing = "" if self._environ.get(name) else f"the environment variable {name} is not set"
            case "file":
                missing = "" if os.access(name, os.R_OK) else f"the file {name} cannot be read"
            case "call":
                missing = _why_not_called(name)
        if missing:
            about = f"The credential {credential.name!r} cannot be had by this worker: {missing}."
            detail = f"{about} Give it that, or take the credential out."
            raise WorkspaceError(detail=detail)

    async def say(self, credential: Credential, who: Who) -> str:
        name = _filled(credential, who)
        match credential.secret.source:
            case "env":
                return self._environ[name]
            case "file":
                return await anyio.Path(name).read_text("utf-8")
            case "call":
                about = (who,) if credential.scope == "session" else ()
                function = _function(name)
                if inspect.iscoroutinefunction(function):
                    return str(await function(*about))
                return str(await to_thread.run_sync(function, *about, abandon_on_cancel=True))


class Keeper:
    """The proofs of one session, each asked for when it is first needed, and again after a while."""

    def __init__(self, secrets: Secrets, who: Who, clock: Clock, wait_s: float, keep_s: float) -> None:
        self._secrets = secrets
        self._who = who
        self._clock = clock
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._known: dict[str, tuple[float, Proof]] = {}

    async def proof(self, credential: Credential) -> Proof:
        """What shows who a request is from.

        Raises:
            Exception: of any kind: it cannot be had now.
        """
        now = self._clock.elapsed()
        known = self._known.get(credential.name)
        if known is not None and now < known[0]:
            return known[1]
        with anyio.fail_after(self._wait_s):
            proof = prove(credential, await self._secrets.say(credential, self._who))
        kept_s = self._keep_s if credential.secret.source == "call" else 0.0
        self._known[credential.name] = (now + kept_s, proof)
        return proof

    def forget(self, credential: Credential) -> None:
        """A host did not take it: ask anew the next time."""
        self._known.pop(credential.name, None)


def prove(credential: Credential, said: str) -> Proof:
    """The header that a secret goes into.

    Raises:
        ValueError: it is empty, or does not fit into a header.
    """
    secret = said.strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ValueError("a secret must be one line of visible characters")
    plain = secret.encode()
    match credential.kind:
        case "basic":
            shown = b64encode(f"{credential.user}:{secret}".encode())
            value = b"Basic " + shown
        case "bearer":
            shown, value = plain, b"Bearer " + plain
        case "header":
            shown, value = plain, plain
    forms = {
        plain,
        shown,
        quote(secret, safe="").encode(),
        b64encode(plain),
        quote(shown.decode(), safe="").encode(),
    }
    longest_first = sorted((form for form in forms if len(form) >= _SHORTEST), key=len, reverse=True)
    return Proof(credential.header_name.encode(), value, tuple(longest_first))


def _filled(credential: Credential, who: Who) -> str:
    name = credential.secret.name
    if credential.secret.source == "call" or credential.scope == "agent":
        return name
    return name.replace("{session}", who.session).replace("{tenant}", who.tenant)


def _why_not_called(name: str) -> str:
    try:
        _function(name)
    except (ImportError, AttributeError) as error:
        return f"{name} cannot be imported ({type(error).__name__})"
    return ""


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
