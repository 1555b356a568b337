"""The user's own part of Claude Code, where a session works in the user's own directory (`local()`).

Claude Code keeps a session's files in the session's own configuration directory, so that they can be rebuilt and that
requests are the same in every attempt. HOME stays the user's, since git, ssh and package managers look there; and
what the user has written for Claude Code stays in force, by links. The login is not linked: the gateway has it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outlast.adapters.program import user_home
from outlast.folders import make_private

LINKED: Final = ("CLAUDE.md", "settings.json", "agents", "commands", "output-styles", "rules", "skills")


def link_user_files(config: Path, environ: Mapping[str, str]) -> None:
    """Let a session's configuration directory show the user's instructions, settings, agents, commands and skills."""
    home = user_home(environ)
    own = (
        Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else home and home / ".claude"
    )
    make_private(config)
    for name in LINKED:
        link = config / name
        if link.is_symlink():
            link.unlink()
        if own is not None and own != config and (own / name).exists() and not link.exists():
            link.symlink_to(own / name)
