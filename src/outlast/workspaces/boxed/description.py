"""The description of a sandbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from outlast.errors import BadInput
from outlast.sandbox import Limits
from outlast.workspace import Checkpoint
from outlast.workspaces.described import Isolated, kept_in
from outlast.workspaces.egress.rules import Allow, Credential, Network, network, read_network

CWD: Final = "/workspace"
IDLE_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Sandboxed(Isolated):
    """A machine for each session. Made by `sandbox`."""

    provider: str = "bubblewrap"
    checkpoint: Checkpoint = "call"
    idle_s: float = IDLE_S
    network: Network = field(default_factory=Network)
    limits: Limits = field(default_factory=Limits)
    image: str = ""
    reads: tuple[str, ...] = ()
    store: str = ""

    @property
    def kind(self) -> str:
        return "sandbox"

    @property
    def cwd(self) -> str:
        return CWD

    def reference(self) -> Mapping[str, Any]:
        limits = self.limits
        return {
            "kind": "sandbox",
            "provider": self.provider,
            "checkpoint": self.checkpoint,
            "idle_s": self.idle_s,
            "network": self.network.reference(),
            "limits": {
                "memory_bytes": limits.memory_bytes,
                "processes": limits.processes,
                "cpus": limits.cpus,
                "output_bytes": limits.output_bytes,
            },
            "image": self.image,
            "reads": list(self.reads),
            **kept_in(self.store),
        }


def sandbox(  # noqa: PLR0913 - each keyword is a property of the machine
    provider: str = "bubblewrap",
    *,
    checkpoint: Checkpoint = "call",
    idle_s: float = IDLE_S,
    allow: Sequence[str | Allow] = (),
    credentials: Sequence[Credential] = (),
    limits: Limits | None = None,
    image: str = "",
    reads: Sequence[str] = (),
    store: str = "",
) -> Sandboxed:
    """A machine of its own for each session, from which nothing leads out but to the model and to what is allowed.

    Args:
        provider: who makes it: an entry point of the group `outlast.sandboxes`.
        checkpoint: when the files of `/workspace` are written down: with each call that may have changed them, when a
            turn ends, or never.
        idle_s: seconds for which it outlives its worker, and with it commands that run: the next worker attaches to
            them. 0: it ends with each attempt, and is made anew from the files.
        allow: hosts that are reached: `packages.example.com`, `*.internal:8443`; see `outlast.workspaces.egress.Allow`.
        credentials: what is added to requests on the way out, and never seen inside.
        limits: of memory, processes and output.
        image: of providers that have such; by default the programs of the worker's machine.
        reads: directories of the worker's machine that it may read, at the same path: tools that stand in a home. Not
            with providers elsewhere (Kubernetes, hosted ones), whose machines have what is in their image.
        store: where its files are kept, if not in the World: the URL of a directory or a bucket.

    Raises:
        BadInput: one of these cannot be meant.
    """
    if checkpoint not in {"call", "turn", "off"}:
        raise BadInput(detail=f"checkpoint={checkpoint!r} is none of call, turn and off.")
    if not 0 <= idle_s <= 7 * 86_400:
        raise BadInput(detail=f"idle_s={idle_s!r} is no time from 0 up to a week.")
    relative = [path for path in reads if not path.startswith("/")]
    if relative:
        raise BadInput(detail=f"reads= names {relative[0]!r}, which is not absolute.")
    out = network(allow, credentials)
    return Sandboxed(provider, checkpoint, idle_s, out, limits or Limits(), image, tuple(reads), store)


def read_sandbox(reference: Mapping[str, Any]) -> Sandboxed:
    """What `Sandboxed.reference` wrote; what is not there is as by default.

    Raises:
        BadInput: it cannot be read.
    """
    from_log = {
        name: reference[name] for name in ("checkpoint", "idle_s", "image", "store") if name in reference
    }
    try:
        out = read_network(reference.get("network", {}))
        return Sandboxed(
            str(reference.get("provider", "bubblewrap")),
            network=out,
            limits=Limits(**reference.get("limits", {})),
            reads=tuple(reference.get("reads", ())),
            **from_log,
        )
    except TypeError as error:
        raise BadInput(detail=f"The reference of a sandbox cannot be read: {error}.") from error
