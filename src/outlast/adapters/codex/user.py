"""The user's own part of Codex, where a session works in the user's own directory (`local()`).

Codex keeps a session's files in the session's own `CODEX_HOME`, so that they can be rebuilt and that requests are the
same in every attempt. What the user has written for Codex stays in force; the configuration does not, since it says
where model calls go, nor the login: the gateway has it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from outlast.adapters.program import user_home
from outlast.errors import HarnessError

LINKED: Final = ("AGENTS.md", "AGENTS.override.md", "prompts")
RULES: Final = "rules"

_RULE: Final = re.compile(r"\bprefix_rule\b")
_ASKING: Final = """\
# Made by outlast of the user's own rules: what they allow is asked, as every command is; what they forbid stays so.
def outlast_rule(pattern, decision = "allow", *rest, **more):
    prefix_rule(pattern, "prompt" if decision in (None, "allow") else decision, *rest, **more)

"""


def bring_user_files(codex_home: Path, environ: Mapping[str, str]) -> None:
    """Let a session's `CODEX_HOME` show the user's instructions and prompts, and hold the user's rules.

    Raises:
        HarnessError: a rule cannot be read, so what it forbids is not known.
    """
    home = user_home(environ)
    given = environ.get("CODEX_HOME")
    own = Path(given) if given else home and home / ".codex"
    if own is None or own == codex_home:
        return
    for name in LINKED:
        if (own / name).exists():
            (codex_home / name).symlink_to(own / name)
    for rules in sorted((own / RULES).glob("*.rules")):
        try:
            text = rules.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise HarnessError(
                harness="Codex", reason=f"its rules {rules} cannot be read: {error}"
            ) from error
        (codex_home / RULES).mkdir(exist_ok=True)
        (codex_home / RULES / rules.name).write_text(asking(text), encoding="utf-8")


def asking(rules: str) -> str:
    """Rules of Codex, but that what they allow is asked: else the approval, the third gate, would be skipped."""
    return _ASKING + _RULE.sub("outlast_rule", rules)
