"""Reads what a request carries into the types that its operation takes."""

import asyncio
from collections.abc import Mapping
from typing import Any, get_origin

import msgspec
from starlette.requests import Request

from outlast.errors import BadInput, Declined
from outlast.server.operations import Nothing, Operation, Unread


async def read_body(request: Request, operation: Operation, body_s: float) -> Any:
    """The body of a request.

    Raises:
        Declined: it is too long, or comes too slowly.
        BadInput: it is none that the operation takes.
        ClientDisconnect
    """
    if operation.body is Nothing:
        return Nothing()
    raw = await _bytes(request, operation.most_bytes, body_s)
    if operation.body is Unread:
        return Unread(raw)
    try:
        return msgspec.json.decode(raw or b"{}", type=operation.body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as error:
        raise BadInput(detail=f"The body is not what this operation takes: {error}.") from None


async def _bytes(request: Request, most: int, body_s: float) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise _too_long(most)
    body = bytearray()
    try:
        async with asyncio.timeout(body_s):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise _too_long(most)
    except TimeoutError:
        raise Declined(
            status=408, detail=f"The body did not come within {body_s:g} s. Send it again."
        ) from None
    return bytes(body)


def _too_long(most: int) -> Declined:
    return Declined(status=413, detail=f"The body is longer than {most} bytes, the most that is taken here.")


def read_query(request: Request, operation: Operation) -> Any:
    """The query of a request.

    Raises:
        BadInput: it is none that the operation takes.
    """
    given: dict[str, Any] = {}
    lists = _lists(operation.query)
    for name, value in request.query_params.multi_items():
        if "\x00" in value or not _is_unicode(value):
            raise BadInput(detail=f"The query parameter {name[:60]!r} is no Unicode text.")
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise BadInput(detail=f"The query parameter {name[:60]!r} stands there twice.")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(detail=f"The query is not what this operation takes: {error}.") from None


def read_path(request: Request) -> Mapping[str, str]:
    """What stands in the path.

    Raises:
        BadInput: it is no Unicode text.
    """
    found = {name: str(value) for name, value in request.path_params.items()}
    for name, value in found.items():
        if "\x00" in value or not _is_unicode(value):
            raise BadInput(detail=f"The {name} in the path is no Unicode text.")
    return found


def _lists(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(
        one.encode_name for one in msgspec.structs.fields(kind) if get_origin(one.type) in {list, tuple}
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
