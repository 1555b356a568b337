"""The OpenAPI of the server: the table of operations, and nothing that is not in it."""

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from outlast.server.asking import name_of
from outlast.server.operations import Nothing, Operation, Unread
from outlast.server.schemas import Schemas

_PATTERN: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_SAYS: Final[Mapping[int, str]] = {
    400: "What was sent cannot be used; nothing was changed.",
    401: "Nobody is known by this token.",
    403: "Who asks may not do this.",
    404: "There is no such thing, or not in the tenant of who asks.",
    405: "The address does not take this method.",
    408: "The body did not come in time.",
    409: "It does not fit what stands there now; nothing was changed.",
    410: "What was counted cannot be counted here; begin without an index.",
    413: "The body is too long.",
    429: "Too many requests; `retry-after` says when the next is taken.",
    503: "The store cannot be reached now; nothing that was acknowledged is lost.",
}


class Failure(msgspec.Struct, frozen=True):
    """Why it was not done."""

    error: str
    """What happened, and what to do next."""


def openapi(operations: Sequence[Operation]) -> Mapping[str, Any]:
    """The document, as OpenAPI 3.1 has it."""
    schemas = Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        path = _PATTERN.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "outlast", "version": version("outlast")},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Operation, schemas: Schemas) -> Mapping[str, Any]:
    first, _, rest = inspect.cleandoc(one.answer.__doc__ or "").partition("\n")
    said: dict[str, Any] = {
        "operationId": name_of(one),
        "summary": first.rstrip("."),
        "parameters": [*_of_path(one), *_of_query(one, schemas)],
        "responses": _responses(one, schemas),
    }
    if rest.strip():
        said["description"] = rest.strip()
    if one.scope is not None:
        said["security"] = [{"token": []}]
        said["x-scope"] = one.scope.value
    if one.body is not Nothing:
        optional = all(not field.required for field in msgspec.structs.fields(one.body))
        said["requestBody"] = {
            "required": not optional,
            "content": {"application/json": {"schema": {} if one.body is Unread else schemas.of(one.body)}},
        }
    return said


def _of_path(one: Operation) -> Sequence[Mapping[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PATTERN.findall(one.path)
    ]


def _of_query(one: Operation, schemas: Schemas) -> Sequence[Mapping[str, Any]]:
    return [
        {"name": name, "in": "query", "required": required, "schema": schema}
        for name, required, schema in schemas.of_fields(one.query)
    ]


def _responses(one: Operation, schemas: Schemas) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    if one.returns is not None:
        found[str(one.status)] = {
            "description": "Done.",
            "content": {"application/json": {"schema": schemas.of(one.returns)}},
        }
    elif one.media != "application/json":
        found[str(one.status)] = {
            "description": "Done.",
            "content": {one.media: {"schema": {"type": "string"}}},
        }
    else:
        found["204"] = {"description": "Done."}
    failure = {"content": {"application/json": {"schema": schemas.of(Failure)}}}
    for status in sorted(statuses_of(one)):
        found[str(status)] = {"description": _SAYS[status], **failure}
    return found


def statuses_of(one: Operation) -> set[int]:
    """The statuses at which an operation may fail."""
    found = {400, 429, 503, *one.fails}
    if one.scope is not None:
        found |= {401, 403}
    if "{" in one.path:
        found.add(404)
    if one.body is not Nothing:
        found |= {408, 413}
    return found
