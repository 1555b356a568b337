"""The way out of a sandbox: a small server in the worker, and the only way besides the gateway.

`network` describes what may be reached, and which credentials are added on the way; `open_egress` serves it.
"""

from outlast.workspaces.egress.events import CredentialUsed, Event, Opened, TurnedAway, Who
from outlast.workspaces.egress.limits import Limits
from outlast.workspaces.egress.rules import (
    Allow,
    Credential,
    Network,
    Secret,
    from_call,
    from_env,
    from_file,
    network,
    read_network,
)
from outlast.workspaces.egress.secrets import Secrets, WorkerSecrets
from outlast.workspaces.egress.server import Egress, Outside, open_egress

__all__ = [
    "Allow",
    "Credential",
    "CredentialUsed",
    "Egress",
    "Event",
    "Limits",
    "Network",
    "Opened",
    "Outside",
    "Secret",
    "Secrets",
    "TurnedAway",
    "Who",
    "WorkerSecrets",
    "from_call",
    "from_env",
    "from_file",
    "network",
    "open_egress",
    "read_network",
]
