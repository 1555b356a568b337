"""Signatures of what is posted from one program to another: the scheme of Standard Webhooks.

A body is signed together with the id of the delivery and the time of sending, so none of the three can be exchanged:
HMAC-SHA256 over `<id>.<Unix time>.<body>`. Source: https://www.standardwebhooks.com (version 1, symmetric).
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final

from outlast.errors import BadInput

ID: Final = "webhook-id"
TIME: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
TOLERANCE_S: Final = 300.0
"""How far the clocks of two programs may differ; a signature that is older is no use to whoever has overheard it."""
_ENCODED: Final = "whsec_"


def sign(secret: str, delivery: str, body: bytes, now_s: float) -> Mapping[str, str]:
    """The headers under which `body` is sent.

    Args:
        secret: any text; after `whsec_` it is base 64, as others write it down.
        delivery: its id: the same for each time that the same is sent again.

    Raises:
        BadInput: the secret is empty, or no base 64 where it should be.
    """
    moment = str(int(now_s))
    return {ID: delivery, TIME: moment, SIGNATURE: f"v1,{_code(secret, delivery, moment, body)}"}


def verify(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> str:
    """Check that somebody who knows the secret sent `body` a short while ago. Returns what is wrong, or nothing.

    Args:
        headers: by lower-case name. Of several signatures, separated by spaces, one must fit.
    """
    delivery, moment = headers.get(ID, ""), headers.get(TIME, "")
    if not delivery or not moment or not headers.get(SIGNATURE):
        return f"It is not signed: {ID}, {TIME} and {SIGNATURE} are wanted."
    if not (moment.isascii() and moment.isdigit() and len(moment) < 16):
        return f"{TIME} is no Unix time."
    right = f"v1,{_code(secret, delivery, moment, body)}".encode()
    given = headers[SIGNATURE].encode().split()
    if not any(hmac.compare_digest(right, one) for one in given):
        return "The signature does not fit."
    if abs(now_s - int(moment)) > TOLERANCE_S:
        return f"It was signed more than {TOLERANCE_S:g} s from now."
    return ""


def _code(secret: str, delivery: str, moment: str, body: bytes) -> str:
    signed = b".".join((delivery.encode(), moment.encode(), body))
    return b64encode(hmac.digest(_key(secret), signed, "sha256")).decode()


def _key(secret: str) -> bytes:
    try:
        key = (
            b64decode(secret.removeprefix(_ENCODED), validate=True)
            if secret.startswith(_ENCODED)
            else secret.encode()
        )
    except (binascii.Error, ValueError):
        raise BadInput(detail="The secret begins with whsec_, and what follows is no base 64.") from None
    if not key:
        raise BadInput(detail="The secret is empty.")
    return key
