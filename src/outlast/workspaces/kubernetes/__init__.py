"""Boxes in Kubernetes: a pod for each. `docs/workspaces/kubernetes.md` says what they are."""

from pathlib import Path

from outlast.workspaces.kubernetes.pods import Claim
from outlast.workspaces.kubernetes.provider import Kubernetes

__all__ = ["Claim", "Kubernetes", "open_kubernetes"]


def open_kubernetes(_data: Path) -> Kubernetes:
    """The provider of the name `kubernetes`, with the cluster that `kubectl` finds."""
    return Kubernetes()
