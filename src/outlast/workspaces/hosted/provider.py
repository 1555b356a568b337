"""Boxes in hosted sandboxes, through the clients that openai-agents has for them.

A client runs a command to its end and no more is needed of it: the supervisor runs inside, and beside it a relay that
carries its streams over such commands. None of the clients lists sandboxes, so a box is found again by its `ref`, or by
what this machine wrote down of it (`cards`).
"""

import importlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

from outlast.clock import Clock, SystemClock
from outlast.errors import BadInput, BoxError, BoxGone, ExtraMissing, OutlastError
from outlast.ids import new_id
from outlast.sandbox import Ability, Box, Found, Ref, Spec
from outlast.workspaces.carried import PYTHON, boot_argv
from outlast.workspaces.hosted.cards import Cards
from outlast.workspaces.hosted.clients import hosting_of, imported
from outlast.workspaces.hosted.relayed import Relayed, packed, unpacked
from outlast.workspaces.sandbox.client import HeldBox, hold

_BOOT_S: Final = 120.0
_CREATE_S: Final = 300.0
_ENDING_S: Final = 30.0
_CALL_S: Final = 30.0
_DETACHED: Final = (
    'state=$1; shift; mkdir -p "$state" && setsid "$@" </dev/null >"$state/said.$$" 2>&1 & echo started'
)


class Hosted:
    """Sandboxes of one hosting as boxes.

    Args:
        name: of the hosting: `blaxel`, `cloudflare`, `daytona`, `e2b`, `modal`, `runloop`, `vercel`.
        data: the directory of what this worker keeps.
        options: of its client's options, over what a `Spec` says (`agents.extensions.sandbox.<name>`).
        client: a client that is made already; None: one that finds its credentials as its SDK does.

    Raises:
        BadInput: there is no such hosting.
    """

    def __init__(
        self,
        name: str,
        data: Path,
        *,
        options: Mapping[str, Any] | None = None,
        client: Any = None,
        clock: Clock | None = None,
    ) -> None:
        self._hosting = hosting_of(name)
        self._name = name
        self._options = dict(options or {})
        self._client = client
        self._clock = clock or SystemClock()
        self._cards = Cards(data / "hosted" / name, self._clock)
        self._sessions: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._hosting.abilities

    @cached_property
    def _module(self) -> Any:
        """The client's; it takes seconds to import."""
        return imported(self._hosting)

    async def check(self) -> Sequence[str]:
        _ = self._module
        warnings = [
            f"{self._name} lists no sandboxes through openai-agents: those made on other machines show in its console."
        ]
        if "network" not in self.abilities:
            warnings.append(
                f"{self._name} does not cut the network of a sandbox: what runs in it reaches the internet."
            )
        if "isolates" not in self.abilities:
            warnings.append(
                f"{self._name} isolates nothing: its commands are those of this user, on this machine."
            )
        return warnings

    @asynccontextmanager
    async def attach(self, spec: Spec, fence: int, ref: Ref | None = None) -> AsyncGenerator[Box]:
        if spec.mounts:
            raise BoxError(
                box=spec.name, reason=f"{self._name} cannot have directories of the worker's machine."
            )
        async with AsyncExitStack() as holding:
            async with self._cards.alone(spec.name):
                box = await self._hold(holding, spec, fence, ref)
            yield box
        if spec.idle_s == 0:
            card = self._cards.find(spec.name)
            if (
                card is not None and card.ref == box.ref and card.fence == fence
            ):  # else it is another's by now
                await self.destroy(box.ref)

    async def _hold(self, holding: AsyncExitStack, spec: Spec, fence: int, ref: Ref | None) -> HeldBox:
        """The box that stands, if it is as it is to be; else a new one."""
        self._cards.check_fence(spec.name, fence)
        known = self._cards.find(spec.name)
        standing = ref if known is None else known.ref
        if standing is not None:
            with suppress(BoxGone):
                if spec.idle_s > 0:
                    box = await self._held(holding, spec, fence, standing)
                    self._cards.write(standing, spec, fence)
                    return box
                async with AsyncExitStack() as ending:
                    await self._held(ending, spec, fence, standing)
            await self.destroy(standing)
        made = await self._create(spec)
        self._cards.write(made, spec, fence)
        try:
            return await self._held(holding, spec, fence, made)
        except BoxGone as gone:
            why = await self._last_words(made)
            await self.destroy(made)
            raise BoxError(box=spec.name, reason=f"its supervisor does not start: {why or gone}") from gone
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.destroy(made)
            raise

    async def _held(self, holding: AsyncExitStack, spec: Spec, fence: int, ref: Ref) -> HeldBox:
        return await holding.enter_async_context(
            hold(partial(self.dial, ref), _at_home(spec, ref), fence, ref)
        )

    async def dial(self, ref: Ref) -> ByteStream:
        session = await self._session(ref)
        run = partial(self._ask, session, ref)
        said = await run({"op": "open"}, _CALL_S)
        if "stream" not in said:
            raise BoxGone(box=_box(ref), reason=str(said.get("error", "nothing in it answers.")))
        return Relayed(run, int(said["stream"]))

    async def list(self, labels: Mapping[str, str]) -> Sequence[Found]:
        """Those that were made from this machine: no client of openai-agents lists sandboxes."""
        now = self._clock.now()
        return [
            Found(card.ref, card.name, card.labels, max(0.0, now - card.born_s), "running")
            for card in self._cards.all()
            if labels.items() <= card.labels.items()
        ]

    async def destroy(self, ref: Ref) -> None:
        try:
            session = await self._session(ref)
        except BoxGone:
            self._cards.forget(ref)
            return
        self._sessions.pop(str(ref["state_dir"]), None)
        with anyio.move_on_after(_ENDING_S, shield=True):
            if "isolates" not in self.abilities:  # deleting it ends nothing that runs in it
                with suppress(BoxGone):
                    ending = [*PYTHON, "-c", _relay(), str(ref["state_dir"]), "end"]
                    await self._run(session, ref, ending, _CALL_S)
            try:
                await session.aclose()
                await self._its_client().delete(session)
            except Exception as error:
                raise BoxError(box=_box(ref), reason=f"it is not deleted: {self._why_not(error)}") from error
        self._cards.forget(ref)

    # ------------------------------------------------------------------ the client

    def _its_client(self) -> Any:
        if self._client is None:
            self._client = getattr(self._module, self._hosting.client)()
        return self._client

    async def _create(self, spec: Spec) -> Ref:
        sandboxes = _library()
        asked = {**self._hosting.asked(spec), **self._options}
        try:
            made = getattr(self._module, self._hosting.options)(**asked)
        except (TypeError, ValueError) as wrong:
            raise BadInput(
                detail=f"The options of {self._name} are not right: {wrong}. Give them to Hosted(options=…)."
            ) from wrong
        try:
            with anyio.fail_after(_CREATE_S):
                session = await self._its_client().create(
                    manifest=sandboxes.Manifest(root=spec.cwd), options=made
                )
                await session.start()
        except OutlastError:
            raise
        except Exception as error:
            raise BoxError(box=spec.name, reason=self._why_not(error)) from error
        folder = f"/tmp/{new_id('outlast')}"  # noqa: S108 - the one inside
        state = json.loads(json.dumps(self._its_client().serialize_session_state(session.state)))
        ref = {"hosting": self._name, "box": spec.name, "state_dir": folder, "state": state}
        self._sessions[folder] = session
        await self._begin(session, ref, boot_argv(folder))
        await self._begin(session, ref, [*PYTHON, "-c", _relay(), folder, "serve"])
        return ref

    async def _begin(self, session: Any, ref: Ref, argv: Sequence[str]) -> None:
        """Start a program that goes on when the command that started it has ended."""
        ran = await self._run(
            session, ref, ["sh", "-c", _DETACHED, "sh", str(ref["state_dir"]), *argv], _BOOT_S
        )
        if b"started" not in ran:
            raise BoxError(
                box=_box(ref), reason="no program can be started in it (`sh`, `setsid` and `python3`)."
            )

    async def _session(self, ref: Ref) -> Any:
        """The client's own handle of a sandbox; that of another worker is made anew."""
        key = str(ref["state_dir"])
        if key not in self._sessions:
            client = self._its_client()
            try:
                session = await client.resume(client.deserialize_session_state(dict(ref["state"])))
                await session.start()
            except Exception as error:
                raise BoxGone(box=_box(ref), reason=self._why_not(error)) from error
            self._sessions[key] = session
        return self._sessions[key]

    async def _ask(
        self, session: Any, ref: Ref, request: Mapping[str, Any], within_s: float
    ) -> Mapping[str, Any]:
        argv = [*PYTHON, "-c", _relay(), str(ref["state_dir"]), "call", packed(request)]
        try:
            return unpacked(await self._run(session, ref, argv, within_s))
        except ValueError:
            raise BoxGone(box=_box(ref), reason="nothing in it answers.") from None

    async def _run(self, session: Any, ref: Ref, argv: Sequence[str], within_s: float) -> bytes:
        try:
            ran = await session.exec(*argv, shell=False, timeout=within_s)
        except Exception as error:
            raise BoxGone(box=_box(ref), reason=self._why_not(error)) from error
        return bytes(ran.stdout)

    async def _last_words(self, ref: Ref) -> str:
        try:
            said = await self._run(
                await self._session(ref), ref, ["sh", "-c", f"tail -c 500 {ref['state_dir']}/said.*"], _CALL_S
            )
        except BoxGone:
            return ""
        return said.decode("utf-8", "replace").strip()

    def _why_not(self, error: Exception) -> str:
        cause = error.__cause__ or error
        return (
            f"{self._name} says {type(error).__name__}: {str(error) or cause}. See whether its credentials are set as "
            f"its SDK wants them, and whether its quota is used up."
        )


def _library() -> Any:
    try:
        return importlib.import_module("agents.sandbox")
    except ImportError:
        raise ExtraMissing(what="A hosted sandbox", install="pip install 'outlast[openai-agents]'") from None


def _at_home(spec: Spec, ref: Ref) -> Spec:
    return replace(spec, env={"HOME": f"{ref['state_dir']}/home", **spec.env})


@cache
def _relay() -> str:
    return (resources.files("outlast.workspaces.hosted") / "relay.py").read_text(encoding="utf-8")


def _box(ref: Ref) -> str:
    return str(ref["box"])
