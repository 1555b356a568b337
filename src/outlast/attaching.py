"""Files that come with a prompt: their bytes, on the way to the model or out of the log.

What a file says it is must be so: a provider refuses an image of another kind, and with it every later request of a
conversation that holds it.
"""

import mimetypes
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, Self

from outlast.codec import Packer
from outlast.errors import BadAttachment, BadInput
from outlast.ids import blob_hash
from outlast.model import image
from outlast.parts import IMAGE_LIMIT, MEDIA_TYPES
from outlast.records import Attached

COUNT_LIMIT: Final = 20
"""Attachments of one prompt."""
BYTES_LIMIT: Final = IMAGE_LIMIT
"""Of one."""
TOTAL_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of all that come with one prompt: less than a provider takes in one request, in base 64."""
NAME_LIMIT: Final = 200
PDF: Final = "application/pdf"
TEXT: Final = "text/*"
"""Of every kind of text."""
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that comes with a prompt.

    Args:
        data: its bytes.
        name: how people call it, without a directory; empty: as its media type says.
        media_type: what it is; empty: as its first bytes or its name say.

    Raises:
        BadAttachment: it is empty or too large, or its bytes are not what it says it is.
    """

    data: bytes
    name: str = ""
    media_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "media_type", self.media_type.lower() or _guessed(self.data, self.name))
        object.__setattr__(self, "name", self.name or _named(self.media_type))
        if wrong := self._wrong():
            raise BadAttachment(name=self.name[:NAME_LIMIT], reason=wrong)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file at `path`.

        Raises:
            BadAttachment: it cannot be read, or as above.
        """
        try:
            with path.open("rb") as file:
                data = file.read(BYTES_LIMIT + 1)
        except OSError as error:
            raise BadAttachment(name=str(path), reason=error.strerror or str(error)) from None
        return cls(data, path.name)

    @property
    def text(self) -> str:
        """What it says; of one whose media type is a text's."""
        return self.data.decode()

    def _wrong(self) -> str:
        if len(self.name) > NAME_LIMIT or not self.name.isprintable() or re.search(r"[/\\]", self.name):
            return f"its name is no name of a file of at most {NAME_LIMIT} characters"
        if not _TYPE.fullmatch(self.media_type):
            return f"{self.media_type[:80]!r} is no media type"
        if not self.data:
            return "it is empty"
        if len(self.data) > BYTES_LIMIT:
            return f"it has more than {BYTES_LIMIT:,} bytes: scale it down, or put it into the workspace"
        if not _is(self.data, self.media_type):
            return f"its bytes are no {self.media_type}"
        return ""


def _named(media_type: str) -> str:
    return "attachment" + (mimetypes.guess_extension(media_type, strict=False) or "")


def _guessed(data: bytes, name: str) -> str:
    found = _seen(data)
    if not found:
        found = mimetypes.guess_type(name, strict=False)[0] or ""
    # What the bytes do not bear out is said by the name alone.
    if not found or not _is(data, found):
        found = "text/plain" if _is_text(data) else "application/octet-stream"
    return found


def image_type(data: bytes) -> str:
    """PNG, JPEG, GIF or WebP as a media type, if the first bytes say so; else empty."""
    try:
        return image(data).media_type
    except BadInput:
        return ""


def _seen(data: bytes) -> str:
    """What the first bytes say it is; empty where they say nothing."""
    return image_type(data) or (PDF if data.startswith(b"%PDF-") else "")


def _is(data: bytes, media_type: str) -> bool:
    if media_type in MEDIA_TYPES or media_type == PDF:
        return _seen(data) == media_type
    return not media_type.startswith("text/") or _is_text(data)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def check_all(attachments: Sequence[Attachment]) -> None:
    """Return if they may come with one prompt.

    Raises:
        BadAttachment
    """
    if len(attachments) > COUNT_LIMIT:
        raise BadAttachment(
            name=attachments[COUNT_LIMIT].name, reason=f"a prompt has at most {COUNT_LIMIT} attachments"
        )
    left = TOTAL_LIMIT
    for one in attachments:
        left -= len(one.data)
        if left < 0:
            reason = f"with it the prompt's attachments have more than {TOTAL_LIMIT:,} bytes"
            raise BadAttachment(name=one.name, reason=reason)


def pack(attachments: Iterable[Attachment], packer: Packer) -> tuple[Attached, ...]:
    """As the log holds them; their bytes are `packer`'s."""
    return tuple(
        Attached(one.name, one.media_type, len(one.data), packer.blob(one.data)) for one in attachments
    )


def named(attachments: Iterable[Attachment], tenant: str) -> list[list[str]]:
    """What tells them from others."""
    return [[one.name, one.media_type, blob_hash(tenant, one.data)] for one in attachments]


def takes(taken: Collection[str], media_type: str) -> bool:
    """Whether one of these media types, or kinds of them such as `text/*`, is this."""
    return any(fnmatchcase(media_type, kind) for kind in taken)


def check_taken(attachments: Iterable[Attached], taken: Collection[str], harness: str) -> None:
    """Return if a harness takes all of these.

    Raises:
        BadAttachment
    """
    for one in attachments:
        if not takes(taken, one.media_type):
            what = ", ".join(sorted(taken)) or "no attachments"
            reason = f"it is {one.media_type}, and {harness} takes {what}. Put it into the workspace instead"
            raise BadAttachment(name=one.name, reason=reason)


def suffix(attachment: Attachment) -> str:
    """The end of a file's name by which programs know what it is."""
    return PurePosixPath(attachment.name).suffix or mimetypes.guess_extension(attachment.media_type) or ""


def data_url(attachment: Attachment) -> str:
    """Its bytes as an address."""
    return f"data:{attachment.media_type};base64,{b64encode(attachment.data).decode()}"


def worded(prompt: str, attachments: Iterable[Attachment]) -> str:
    """A prompt with the texts that came with it in its words, for programs that take only images beside."""
    texts = [as_words(one) for one in attachments if one.media_type.startswith("text/")]
    return "\n\n".join([prompt, *texts])


def images_of(attachments: Iterable[Attachment]) -> list[Attachment]:
    """The images among these."""
    return [one for one in attachments if one.media_type in MEDIA_TYPES]


def as_words(attachment: Attachment) -> str:
    """A text among the words of a prompt."""
    return f'<attachment name="{attachment.name}">\n{attachment.text}\n</attachment>'
