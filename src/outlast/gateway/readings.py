"""What a harness may read of a provider beside asking its model.

Little: behind the operator's credential stand the answers, files and keys of other sessions and other tenants, and
whatever a model makes its harness run may have the token of the attempt.
"""

import re
from typing import Final

_MODELS: Final = re.compile(r"(/v1)?/models(/[^%\\\x00-\x20]+)?/?")
_UPWARDS: Final = frozenset({".", ".."})


def is_reading(method: str, path: str) -> bool:
    """Whether a request only asks whether the provider is there, or which models it has.

    Args:
        path: with what was escaped in it in its place, and without the query.
    """
    if method not in {"GET", "HEAD"}:
        return False
    return path == "/" or (_MODELS.fullmatch(path) is not None and not _UPWARDS & set(path.split("/")))
