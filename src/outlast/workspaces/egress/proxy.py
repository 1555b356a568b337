"""What a client inside asks of the way out, and what becomes of it.

A client is believed in nothing: where it wants to go stands in one place (the target of the request, or of `CONNECT`),
and whatever else says so must say the same.
"""

from dataclasses import dataclass

import anyio
import h11
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from outlast.workspaces.egress.authority import Authority
from outlast.workspaces.egress.conversation import Conversation
from outlast.workspaces.egress.dial import Dialer
from outlast.workspaces.egress.events import CredentialUsed, Event, Opened, Told, TurnedAway, Who, log
from outlast.workspaces.egress.hello import SameHost
from outlast.workspaces.egress.hosts import written
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.policy import Grant, Policy, Refusal, plain_name
from outlast.workspaces.egress.relay import Exchange, framed, passing
from outlast.workspaces.egress.rules import Credential
from outlast.workspaces.egress.scrub import Scrub
from outlast.workspaces.egress.secrets import Keeper, Proof
from outlast.workspaces.egress.targets import USUAL, Target, check, connect_target, target_of
from outlast.workspaces.egress.tunnel import join
from outlast.workspaces.egress.wire import LOST, Header, Pushed


@dataclass(frozen=True, slots=True)
class Means:
    """What all connections of one session share."""

    who: Who
    policy: Policy
    dialer: Dialer
    keeper: Keeper
    authority: Authority | None
    told: Told
    limits: Limits


class Proxy:
    """Answers one client. `within`: where its connection leads, inside of a `CONNECT` that we end."""

    def __init__(self, means: Means, within: tuple[str, int] | None = None) -> None:
        self._means = means
        self._within = within

    async def answer(self, asked: h11.Request, talk: Conversation) -> None:
        """See `outlast.workspaces.egress.conversation.Answering`."""
        if asked.method == b"CONNECT":
            await self._connect(asked, talk)
        else:
            await self._carry(asked, talk)

    def refused(self, asked: h11.Request | None, refusal: Refusal) -> None:
        """See `outlast.workspaces.egress.conversation.Answering`."""
        host, port = self._where(asked)
        self._tell(TurnedAway(self._means.who, host, port, refusal.short))

    async def _connect(self, asked: h11.Request, talk: Conversation) -> None:
        if self._within is not None:
            raise Refusal(405, "CONNECT is not carried through CONNECT")
        host, port = connect_target(asked)
        grant = self._means.policy.tunnel(host, port)
        if grant.scheme == "https":
            await self._end_here(grant, talk)
            return
        outer = await self._means.dialer.dial(grant)
        try:
            inner = SameHost(await _switched(talk), host)
            self._tell(Opened(self._means.who, host, port))
            await join(inner, outer, self._means.limits.idle_s)
            if inner.other:
                why = "within TLS it was asked for another host"
                self._tell(TurnedAway(self._means.who, host, port, why))
        finally:
            await anyio.aclose_forcefully(outer)

    async def _end_here(self, grant: Grant, talk: Conversation) -> None:
        """End the encryption of a client that wants to speak to the host, and look at what it asks."""
        assert self._means.authority is not None, "there is one where a credential is for https"
        context = self._means.authority.context(grant.host)
        inner = await _switched(talk)
        try:
            with anyio.fail_after(self._means.limits.head_s):
                stream = await TLSStream.wrap(
                    inner, server_side=True, ssl_context=context, standard_compatible=False
                )
        except (*LOST, TimeoutError):
            why = "the client does not trust this sandbox's certificate, or asked it for another name"
            self._tell(TurnedAway(self._means.who, grant.host, grant.port, why))
            return
        within = Proxy(self._means, (grant.host, grant.port))
        await Conversation(stream, within, self._means.limits).serve()

    async def _carry(self, asked: h11.Request, talk: Conversation) -> None:
        target = target_of(asked, self._within)
        check(asked, target)
        method = asked.method.decode()
        grant = self._means.policy.request(target.scheme, (target.host, target.port), method, target.path)
        proof = await self._proof(grant.credential)
        headers, address = self._headers(asked, grant, proof), target.origin
        if grant.scheme == "http" and (upstream := self._means.dialer.upstream(grant)) is not None:
            headers += upstream.headers
            address = f"http://{written(grant.host, grant.port, USUAL['http'])}{target.origin}"
        request = h11.Request(method=asked.method, target=address.encode(), headers=headers)
        key = (grant.scheme, grant.host, grant.port)
        host = await talk.reach(key, lambda: self._means.dialer.dial(grant))
        limits = self._means.limits
        exchange = Exchange(
            talk.client, host, Scrub(proof.forms if proof else ()), limits.idle_s, limits.linger_s
        )
        try:
            await exchange.carry(request)
        finally:
            self._used(grant, method, target, exchange.status)
            await talk.keep(key, host)

    def _headers(self, asked: h11.Request, grant: Grant, proof: Proof | None) -> list[Header]:
        own = self._means.policy.taken_off(grant.host)
        headers = [
            each
            for each in passing(asked.headers)
            if each[0] != b"host" and plain_name(each[0].decode("latin-1")) not in own
        ]
        if proof is not None:
            # The answer is looked through, for which it must come as it is.
            headers = [each for each in headers if each[0] != b"accept-encoding"]
            headers += [(b"accept-encoding", b"identity"), (proof.header, proof.value)]
        host = written(grant.host, grant.port, USUAL[grant.scheme])
        return framed(asked, [(b"host", host.encode()), *headers])

    async def _proof(self, credential: Credential | None) -> Proof | None:
        if credential is None:
            return None
        try:
            return await self._means.keeper.proof(credential)
        except Exception as error:
            log.exception("%s: the credential %r cannot be had", self._means.who.session, credential.name)
            short = f"The credential {credential.name!r} cannot be had by the worker now"
            raise Refusal(502, short, "The request is right; the worker's log has the reason.") from error

    def _used(self, grant: Grant, method: str, target: Target, status: int) -> None:
        credential = grant.credential
        if credential is None:
            return
        if status == 401:
            self._means.keeper.forget(credential)
        about = (credential.name, method, grant.host, grant.port, target.path, status)
        self._tell(CredentialUsed(self._means.who, *about))

    def _where(self, asked: h11.Request | None) -> tuple[str, int]:
        """Where a request was to go, as far as it says so."""
        if self._within is not None:
            return self._within
        try:
            if asked is None:
                return "", 0
            if asked.method == b"CONNECT":
                return connect_target(asked)
            target = target_of(asked, None)
        except Refusal:
            return "", 0
        return target.host, target.port

    def _tell(self, event: Event) -> None:
        self._means.told(event)


async def _switched(talk: Conversation) -> ByteStream:
    """What follows a `CONNECT` that was taken."""
    side = talk.client
    await side.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
    early, _ = side.http.trailing_data
    return Pushed(bytes(early), side.stream)
