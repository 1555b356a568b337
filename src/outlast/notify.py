"""The port that tells somebody outside how a turn stands: that it has ended, waits, or is parked.

What is to be told stands in the session's log, in the commit that it is about, and so does that it was told. It is told
at least once: whoever is told knows a repetition by its id.
"""

import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

import anyio
import httpx
import msgspec

from outlast.clock import Clock, SystemClock
from outlast.errors import BadInput, BadSettings
from outlast.settings import Settings
from outlast.signing import sign
from outlast.trust import trusted

TIMEOUT_S: Final = 10.0
"""How long one try may take."""
SECRET: Final = "OUTLAST_NOTIFY_SECRET"  # noqa: S105 - the name of a variable
_SAID: Final = 300


class Notice(msgspec.Struct, frozen=True):
    """What is told: ids and a status, nothing that a model or a person wrote."""

    id: str
    """The same for each time that it is told."""
    tenant: str
    session: str
    agent: str
    turn: int
    event: str
    """`settled`, `parked` or `waiting`."""
    status: str
    """`done`, `failed`, `cancelled` · `stuck`, `diverged`, `budget`, `decision` · `signal`, `person`."""
    at_s: float
    """Unix time of what it is about."""


class Notifier(Protocol):
    """Tells somebody."""

    async def tell(self, notice: Notice) -> str:
        """Tell it once. Returns why that failed, nothing when it was told; ends soon when it is cancelled."""
        ...


class HttpNotifier:
    """Posts a notice as JSON to a URL, signed (`outlast.signing`). Any status from 200 to 299 means told.

    Args:
        url: where to post. A redirection is no answer.
        secret: known to both sides.

    Raises:
        BadInput: the secret is none.
    """

    def __init__(
        self, url: str, secret: str, *, clock: Clock | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        sign(secret, "", b"", 0.0)

    async def tell(self, notice: Notice) -> str:
        body = msgspec.json.encode(notice)
        signed = sign(self._secret, notice.id, body, self._clock.now())
        headers = {**signed, "content-type": "application/json"}
        try:
            with anyio.fail_after(self._timeout_s):
                async with httpx.AsyncClient(timeout=self._timeout_s, verify=trusted()) as client:
                    answer = await client.post(self._url, content=body, headers=headers)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}"[:_SAID]
        return "" if answer.is_success else f"it answered {answer.status_code}"


class CommandNotifier:
    """Runs a command, with a notice as JSON on its standard input. Status 0 means told.

    Its environment is this process's own without the secret. With a secret the headers of the signature stand in it, as
    `WEBHOOK_ID`, `WEBHOOK_TIMESTAMP` and `WEBHOOK_SIGNATURE`.

    Args:
        command: words as a shell would part them; no shell runs.

    Raises:
        BadInput: there is no command in it, or the secret is none.
    """

    def __init__(
        self, command: str, secret: str = "", *, clock: Clock | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._words = _words(command)
        self._secret = secret
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        if secret:
            sign(secret, "", b"", 0.0)

    async def tell(self, notice: Notice) -> str:
        body = msgspec.json.encode(notice)
        environ = {name: value for name, value in os.environ.items() if name != SECRET}
        signed: Mapping[str, str] = {}
        if self._secret:
            signed = sign(self._secret, notice.id, body, self._clock.now())
        environ |= {name.upper().replace("-", "_"): value for name, value in signed.items()}
        try:
            return await self._run(body, environ)
        except OSError as error:
            return f"it cannot be run: {error}"[:_SAID]

    async def _run(self, body: bytes, environ: Mapping[str, str]) -> str:
        process = await anyio.open_process(
            self._words, stdout=None, stderr=None, env=environ, start_new_session=True
        )
        try:
            with anyio.fail_after(self._timeout_s):
                if process.stdin is not None:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                        await process.stdin.send(body)
                    await process.stdin.aclose()
                status = await process.wait()
        except TimeoutError:
            return f"it did not end within {self._timeout_s:g} s"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # with whatever it left running
            with anyio.CancelScope(shield=True):  # bounded: it is killed
                await process.aclose()
        return "" if status == 0 else f"it ended with status {status}"


def notifier_of(settings: Settings) -> Notifier | None:
    """Who is told, as the settings have it; None: nobody.

    Raises:
        BadSettings: they do not fit together.
    """
    url, command, secret = settings.notify_url, settings.notify_command, settings.notify_secret
    if url and command:
        raise _unfit("notify_url", url, "notify_command is set as well, and only one of them can be")
    if url and not secret:
        raise _unfit("notify_url", url, "notify_secret is not set, which signs what is posted")
    if url and not url.startswith(("http://", "https://")):
        raise _unfit("notify_url", url, "it must begin with http:// or https://")
    try:
        if command:
            return CommandNotifier(command, secret)
        return HttpNotifier(url, secret) if url else None
    except BadInput as error:
        name = "notify_command" if command and not secret else "notify_secret"
        raise _unfit(name, command if name == "notify_command" else "…", str(error).rstrip(".")) from None


def _unfit(name: str, value: str, reason: str) -> BadSettings:
    return BadSettings(
        name=name, value=value, reason=reason, source="the environment or your own outlast.toml"
    )


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(detail=f"The command to notify by cannot be read: {error}.") from None
    if not words:
        raise BadInput(detail="The command to notify by is empty.")
    return words
