"""A model provider that follows a script: for the demo, for tests, soaks and benches; no key, no network.

It speaks the APIs of Anthropic (Messages) and OpenAI (Responses, Chat Completions) over HTTP, says what a script tells
it to, fails where the script says so, and counts every request that reaches it, which is how a promise about
model calls is checked. It keeps no conversation: the step that answers a request is read from the request
itself (`locate`), so that a harness which was killed and resumed goes on where the script does.

A script in TOML::

    [[conversations.main]]
    text = "I will look."
    tools = [{ name = "Bash", input = { command = "ls" } }]

    [[conversations.main]]
    text = "Done."
    cut_after = 4

and `[script:main]` in the prompt selects it. `Step` lists what a step can say and how it can fail.
"""

from outlast.testing.models.dialect import Answer, Billed, Dialect, Message, ModelRequest
from outlast.testing.models.errors import BadScript, CannotListen, NotReady
from outlast.testing.models.ledger import Outcome, RequestRecord, read_log
from outlast.testing.models.program import run
from outlast.testing.models.progress import Place, locate
from outlast.testing.models.script import SCRIPT_OVER, Script, Step, ToolUse, Usage, load_script, parse_script
from outlast.testing.models.server import ScriptedModels
from outlast.testing.models.spawned import SpawnedModels

__all__ = [
    "SCRIPT_OVER",
    "Answer",
    "BadScript",
    "Billed",
    "CannotListen",
    "Dialect",
    "Message",
    "ModelRequest",
    "NotReady",
    "Outcome",
    "Place",
    "RequestRecord",
    "Script",
    "ScriptedModels",
    "SpawnedModels",
    "Step",
    "ToolUse",
    "Usage",
    "load_script",
    "locate",
    "parse_script",
    "read_log",
    "run",
]
