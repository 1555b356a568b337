"""The user's own part of Pi, where a session works in the user's own directory (`local()`).

Pi keeps a session's files in the session's own agent directory, so that they can be rebuilt and that requests are the
same in every attempt. HOME stays the user's, since git, ssh and package managers look there; and what the user has
written for Pi stays in force, by links. Login, settings, extensions and MCP servers are not linked: they would lead
past the gates.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outlast.adapters.program import user_home

LINKED: Final = ("AGENTS.md", "APPEND_SYSTEM.md", "CLAUDE.md", "SYSTEM.md", "prompts", "skills")


def link_user_files(config: Path, environ: Mapping[str, str]) -> None:
    """Let a session's agent directory, which is new, show the user's instructions, prompts and skills."""
    home = user_home(environ)
    told = environ.get("PI_CODING_AGENT_DIR")
    own = Path(told) if told else home and home / ".pi" / "agent"
    if own is None or own == config:
        return
    for name in LINKED:
        if (own / name).exists():
            (config / name).symlink_to(own / name)
