"""What an API server refuses: bodies that its own description does not have."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from lightkube.models import core_v1, networking_v1
from starlette.responses import JSONResponse, Response

MODELS: Mapping[str, type[msgspec.Struct]] = {
    "pods": core_v1.Pod,
    "persistentvolumeclaims": core_v1.PersistentVolumeClaim,
    "networkpolicies": networking_v1.NetworkPolicy,
}


class Refused(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(message)

    @property
    def response(self) -> Response:
        said = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        return JSONResponse(
            {**said, "message": str(self), "reason": self.reason, "code": self.status},
            status_code=self.status,
        )


def judged(kind: str, body: Any) -> None:
    """Refuse what the API's own description does not have (`fieldValidation=Strict`)."""
    try:
        known = msgspec.to_builtins(msgspec.convert(body, MODELS[kind]))
    except msgspec.ValidationError as wrong:
        raise Refused(422, "Invalid", str(wrong)) from None
    if unknown := _beyond(body, known):
        raise Refused(400, "BadRequest", f'strict decoding error: unknown field "{unknown}"')


def _beyond(said: Any, known: Any, where: str = "") -> str:
    if isinstance(said, dict):
        for name, value in cast("dict[str, Any]", said).items():
            if name not in known:
                return f"{where}.{name}"
            if found := _beyond(value, known[name], f"{where}.{name}"):
                return found
    if isinstance(said, list):
        for number, value in enumerate(cast("list[Any]", said)):
            if found := _beyond(value, known[number], f"{where}[{number}]"):
                return found
    return ""
