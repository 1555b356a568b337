"""Boxes in Docker, or Podman: a container for each. `docs/workspaces/docker.md` says what they are."""

from pathlib import Path

from outlast.workspaces.docker.provider import Docker

__all__ = ["Docker", "open_docker"]


def open_docker(_data: Path) -> Docker:
    """The provider of the name `docker`, with the daemon that `docker` finds."""
    return Docker()
