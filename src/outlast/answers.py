"""What our HTTP routes answer: JSON, and for each error the status that a caller can act on."""

import msgspec
from starlette.responses import Response

from outlast.errors import (
    BadInput,
    InputConflict,
    NotFound,
    OutlastError,
    Refused,
    SessionErased,
    WorldUnavailable,
)


def json_answer(status: int, value: object) -> Response:
    """An answer of `value`, as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def failure(error: OutlastError) -> Response:
    """The answer for an error: who is at fault stands in its status, what to do about it in its text."""
    return json_answer(_status(error), {"error": str(error)})


def _status(error: OutlastError) -> int:
    match error:
        case NotFound() | SessionErased():
            return 404
        case InputConflict():
            return 409
        case BadInput():
            return 400
        case Refused():
            return 401
        case WorldUnavailable():
            return 503
        case _:
            return 500
