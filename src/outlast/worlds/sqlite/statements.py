"""SQL from the file beside its caller, by name."""

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statements(caller: str) -> dict[str, str]:
    """The statements of the `.sql` file that has the name of the module `caller` (its `__file__`).

    Each begins with a line `-- name: …`. None is a transaction by itself: the writer's and the readers' threads put
    their own around whatever belongs together.
    """
    parts = _NAME.split(Path(caller).with_suffix(".sql").read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
