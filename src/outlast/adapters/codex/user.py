"""The user's own part of Codex, where a session works in the user's own directory (`local()`).

Codex keeps a session's files in the session's own `CODEX_HOME`, so that they can be rebuilt and that requests are the
same in every attempt. What the user has written for Codex stays in force, by links; the configuration does not, since
it says where model calls go, nor the login: the gateway has it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outlast.adapters.program import user_home

LINKED: Final = ("AGENTS.md", "AGENTS.override.md", "prompts", "rules")


def link_user_files(codex_home: Path, environ: Mapping[str, str]) -> None:
    """Let a session's `CODEX_HOME` show the user's instructions, prompts and rules."""
    home = user_home(environ)
    given = environ.get("CODEX_HOME")
    own = Path(given) if given else home and home / ".codex"
    for name in LINKED:
        if own is not None and own != codex_home and (own / name).exists():
            (codex_home / name).symlink_to(own / name)
