"""What a tool returns that shows a model images: texts and images in a list, or an image by itself.

The bytes stand in the log's blobs, so limits are stated here and not where a provider would refuse them.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from outlast.codec import DEPTH_LIMIT
from outlast.errors import BadInput
from outlast.model import ImagePart, Part, Parts, TextPart

IMAGE_LIMIT: Final = 3_932_160
"""Bytes of an image in a tool's result: 5 MiB in base 64, which is what Anthropic's API takes of one."""
IMAGES_LIMIT: Final = 20
"""Images in a tool's result."""
MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What both providers read."""

_ALONE: Final = "A tool returns an image by itself, or a list of texts and images."


def shown(value: object) -> Parts | None:
    """What a tool shows a model that returned an image, or a list or tuple of texts and images; None of other values.

    Raises:
        BadInput: it cannot be shown: an image is too large, of another kind or has no bytes here, there are too
            many, or one stands among or within something else.
    """
    if isinstance(value, str | None):
        return None
    items = _items(value)
    images = [item for item in items if isinstance(item, ImagePart)]
    if not images:
        if _holds_image(value):
            raise BadInput(detail=f"{_ALONE} It stands within something else.")
        return None
    if len(images) > IMAGES_LIMIT:
        raise BadInput(detail=f"{len(images)} images are more than {IMAGES_LIMIT}.")
    for item in images:
        _check_image(item)
    return tuple(_part(item) for item in items)


def _items(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)


def _part(item: object) -> TextPart | ImagePart:
    match item:
        case TextPart() | ImagePart():
            return item
        case str():
            return TextPart(item)
        case _:
            raise BadInput(detail=f"{_ALONE} Beside it is a value of type {type(item).__name__}.")


def _check_image(part: ImagePart) -> None:
    if part.url or not part.data:
        raise BadInput(
            detail="An image of a tool's result must have its bytes here, and no URL: fetch it first."
        )
    if part.media_type not in MEDIA_TYPES:
        raise BadInput(detail=f"{part.media_type!r} cannot be shown: give PNG, JPEG, GIF or WebP.")
    if len(part.data) > IMAGE_LIMIT:
        raise BadInput(
            detail=f"An image of {len(part.data):,} bytes is larger than {IMAGE_LIMIT:,}: scale it down."
        )


def _holds_image(value: object) -> bool:
    """Whether an image stands somewhere within lists and objects, as far as these are nested."""
    rest: list[tuple[object, int]] = [(value, 0)]
    while rest:
        item, depth = rest.pop()
        if isinstance(item, ImagePart):
            return True
        if depth > DEPTH_LIMIT:
            return False
        if isinstance(item, dict):
            rest.extend((inner, depth + 1) for inner in cast("dict[object, object]", item).values())
        elif isinstance(item, list | tuple):
            rest.extend((inner, depth + 1) for inner in cast("Sequence[object]", item))
    return False


def find_parts(value: object) -> Parts | None:
    """The texts and images that a tool's result is; None of one that is any JSON."""
    if not isinstance(value, tuple):  # as nothing is that is read from JSON
        return None
    parts = cast("tuple[object, ...]", value)
    return cast("Parts", parts) if parts and all(isinstance(part, Part) for part in parts) else None


def read_parts(value: object) -> Parts:
    """The texts and images that stand in the log.

    Raises:
        msgspec.ValidationError: they are none of ours.
    """
    return msgspec.convert(value, Parts)
