"""What AWS's own library does for us: credentials, signatures, the frames of event streams.

Format: "Signature Version 4" in the reference of AWS's IAM, "Event stream encoding" in that of Amazon Transcribe.
"""

# botocore comes without types: the rules about what is unknown are off in this module, which is all that touches it.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.eventstream import EventStreamBuffer, ParserError
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from outlast.gateway.target import NoCredential


class Signs(Protocol):
    """Credentials of AWS."""

    def headers(self, url: str, headers: Mapping[str, str], body: bytes, region: str) -> Mapping[str, str]:
        """`headers` and those that show who asks; may wait for the network.

        Raises:
            NoCredential
        """
        ...


class Chain:
    """Credentials as all programs of AWS find them: `AWS_` variables, profiles, the role of the machine."""

    def __init__(self, session: Session | None = None) -> None:
        self._session = session or Session()

    def headers(self, url: str, headers: Mapping[str, str], body: bytes, region: str) -> Mapping[str, str]:
        try:
            found = self._session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        except BotoCoreError as error:
            reason = f"No credential of AWS could be had: {error}"
            raise NoCredential(reason) from None
        if frozen is None:
            reason = "There is no credential of AWS. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            raise NoCredential(reason)
        request = AWSRequest("POST", url, dict(headers), body)
        SigV4Auth(frozen, "bedrock", region).add_auth(request)
        return dict(request.headers.items())


def chain_of(profile: str) -> Chain:
    """The credentials of one profile, whatever the variables say."""
    return Chain(Session(profile=profile))


@dataclass(frozen=True, slots=True)
class BedrockKey:
    """An API key of Bedrock, which needs no signature."""

    key: str = field(repr=False)

    def headers(self, url: str, headers: Mapping[str, str], body: bytes, region: str) -> Mapping[str, str]:
        return {**headers, "authorization": f"Bearer {self.key}"}


class AwsBroken(Exception):
    """Bytes that are no event stream of AWS."""


class AwsEvents:
    """Cuts bytes, however they are chunked, into the events of AWS."""

    def __init__(self) -> None:
        self._buffer = EventStreamBuffer()

    def feed(self, chunk: bytes) -> Iterator[tuple[Mapping[str, Any], bytes]]:
        """Headers and payload of each event that `chunk` completes.

        Raises:
            AwsBroken
        """
        self._buffer.add_data(chunk)
        try:
            for event in self._buffer:
                yield event.headers, event.payload
        except ParserError as error:
            raise AwsBroken(str(error)) from None
