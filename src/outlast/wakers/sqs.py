"""Wakes through a queue of Amazon SQS: one message for each hint. What reads the queue starts a worker.

The extra `outlast[sqs]` brings boto3, which is imported when the first hint is sent.
"""

import importlib
import re
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread

from outlast.errors import BadInput
from outlast.ids import digest, new_id
from outlast.logs import logger
from outlast.waker import TIMEOUT_S, hint_of, said_in_vain

MISSING: Final = "To wake through SQS, boto3 must be installed: pip install 'outlast[sqs]'"
_REGION: Final = re.compile(r"(?:sqs\.|queue\.)?([a-z]{2}(?:-[a-z]+)+-\d+)(?:\.queue)?\.")
_FIFO: Final = ".fifo"
_TRIES: Final = 2

log = logger("outlast.waker")


class SqsWaker:
    """Sends `{"session": …, "tenant": …}` to a queue. Credentials are found as boto3 finds them.

    In a FIFO queue the hints of one session are a group, so that one at a time of them is handed out. None is taken for
    a repetition of another: what the first one woke may have ended before the second was sent.

    Args:
        queue_url: of the queue, as the service names it.
        region: its region; by default what the URL says, else what boto3 is set up with.
        timeout_s: seconds that a hint may take.

    Raises:
        BadInput: this is no URL of a queue.
    """

    def __init__(self, queue_url: str, *, region: str = "", timeout_s: float = TIMEOUT_S) -> None:
        try:
            parts = urlsplit(queue_url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not parts.netloc or not parts.path.strip("/"):
            raise BadInput(
                detail="An SQS queue's URL looks like https://sqs.eu-west-1.amazonaws.com/123456789012/name."
            )
        self._queue_url = queue_url
        self._endpoint = f"{parts.scheme}://{parts.netloc}"
        self._region = region or region_of(parts.netloc)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._client: Any = None

    async def wake(self, tenant: str, session: str) -> None:
        try:
            with anyio.fail_after(2 * self._timeout_s):
                # It cannot be cancelled; its own time-outs end it soon.
                await anyio.to_thread.run_sync(partial(self._send, tenant, session), abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, a sweep finds the session
            said_in_vain(log, session, _reason(error))

    def _send(self, tenant: str, session: str) -> None:
        fifo: dict[str, str] = {}
        if self._queue_url.endswith(_FIFO):
            group = digest(tenant.encode(), session.encode())
            fifo = {"MessageGroupId": group, "MessageDeduplicationId": new_id("hint")}
        self._connected().send_message(QueueUrl=self._queue_url, MessageBody=hint_of(tenant, session), **fifo)

    def _connected(self) -> Any:
        """The client, made once: it may be used by several threads, but not made by them."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Any:
        try:
            boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
        except ImportError:
            raise BadInput(detail=MISSING) from None
        patience = config.Config(
            connect_timeout=self._timeout_s,
            read_timeout=self._timeout_s,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
        )
        region = {"region_name": self._region} if self._region else {}
        return boto3.session.Session(**region).client("sqs", endpoint_url=self._endpoint, config=patience)


def region_of(host: str) -> str:
    """The region that the address of a queue names; empty if it names none."""
    found = _REGION.match(host)
    return "" if found is None else found[1]


def _reason(error: Exception) -> str:
    if isinstance(error, BadInput):
        return str(error)
    # The text of botocore's ClientError may name the account; its code does not.
    response: Mapping[str, Any] = getattr(error, "response", {})
    return str(response.get("Error", {}).get("Code", "")) or type(error).__name__


def sqs_waker(url: str, _token: str = "") -> SqsWaker:
    """The waker of `sqs://HOST/ACCOUNT/NAME`; `sqs+http://` without TLS.

    Where the host does not say the region, `?region=` may.

    Raises:
        BadInput: this is no URL of a queue.
    """
    scheme, _, rest = url.partition(":")
    place, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    unknown = sorted(options.keys() - {"region"})
    if unknown:
        raise BadInput(detail=f"The URL of an SQS waker has no option {unknown[0]!r}; there is `region`.")
    protocol = "http" if scheme == "sqs+http" else "https"
    return SqsWaker(f"{protocol}:{place}", region=options.get("region", ""))
