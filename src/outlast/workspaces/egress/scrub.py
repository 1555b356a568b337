"""Takes out of answers what was added to their requests: a host may say it again, to whoever asks in the right way.

In headers and addresses it is left out; in bodies it is written over, byte for byte, so that no length changes. That
is a second line behind the first, which is that a host gets only what is its own. A host that answers with the secret
in pieces is past it. Bodies in a coding are for `coded`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from outlast.workspaces.egress.coded import CODINGS, Coded, Unseen

_GONE: Final = b"[removed]"
_DROPPED: Final = frozenset(
    {b"set-cookie", b"set-cookie2", b"authentication-info", b"proxy-authentication-info"}
)
_USER: Final = re.compile(rb"(?<=//)[^/?#\s\"'<>]*@")
Header = tuple[bytes, bytes]


class Scrub:
    """Of one answer; `forms` are what must not be in it, the longest first. Without any it changes nothing."""

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms = forms
        self._longest = max(map(len, forms), default=0)
        self._held = b""

    def of_body(self, codings: Sequence[bytes]) -> "Scrub | Coded":
        """What is to look through a body in these codings.

        Raises:
            Unseen: nothing here can.
        """
        told = [each for each in codings if each != b"identity"]
        if not self._forms or not told:
            return self
        if len(told) > 1 or told[0] not in CODINGS:
            raise Unseen("it is in a coding that is not known here")
        return Coded(told[0], self._forms)

    def headers(self, headers: Iterable[Header]) -> list[Header]:
        """Those of an answer, names in lower case."""
        if not self._forms:
            return list(headers)
        return [(name, self.text(value)) for name, value in headers if not self._is_dropped(name)]

    def body(self, data: bytes) -> bytes:
        """The next bytes of a body; what may be the beginning of a secret is kept until more comes."""
        if not self._forms:
            return data
        whole = self._over(self._held + data)
        keep = self._open_end(whole)
        self._held = whole[len(whole) - keep :]
        return whole[: len(whole) - keep]

    def rest(self) -> bytes:
        """What is still kept when the body has ended."""
        rest, self._held = self._held, b""
        return rest

    def text(self, value: bytes) -> bytes:
        """Of a header, or what stands behind the status."""
        if self._forms:
            value = _USER.sub(b"", value)
        for form in self._forms:
            value = value.replace(form, _GONE)
        return value

    def _is_dropped(self, name: bytes) -> bool:
        return name in _DROPPED or any(form.lower() in name for form in self._forms)

    def _over(self, data: bytes) -> bytes:
        for form in self._forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        return data

    def _open_end(self, data: bytes) -> int:
        """How many of the last bytes may be the beginning of a secret."""
        for size in range(min(self._longest - 1, len(data)), 0, -1):
            end = data[len(data) - size :]
            if any(form.startswith(end) for form in self._forms):
                return size
        return 0
