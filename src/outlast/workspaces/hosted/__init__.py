"""Boxes in hosted sandboxes (e2b, modal, daytona, vercel …). `docs/workspaces/hosted.md` says what each can do."""

from pathlib import Path

from outlast.workspaces.hosted.provider import Hosted

__all__ = [
    "Hosted",
    "open_blaxel",
    "open_cloudflare",
    "open_daytona",
    "open_e2b",
    "open_modal",
    "open_runloop",
    "open_vercel",
]


def open_blaxel(data: Path) -> Hosted:
    """The provider of the name `blaxel`."""
    return Hosted("blaxel", data)


def open_cloudflare(data: Path) -> Hosted:
    """The provider of the name `cloudflare`."""
    return Hosted("cloudflare", data)


def open_daytona(data: Path) -> Hosted:
    """The provider of the name `daytona`."""
    return Hosted("daytona", data)


def open_e2b(data: Path) -> Hosted:
    """The provider of the name `e2b`."""
    return Hosted("e2b", data)


def open_modal(data: Path) -> Hosted:
    """The provider of the name `modal`."""
    return Hosted("modal", data)


def open_runloop(data: Path) -> Hosted:
    """The provider of the name `runloop`."""
    return Hosted("runloop", data)


def open_vercel(data: Path) -> Hosted:
    """The provider of the name `vercel`."""
    return Hosted("vercel", data)
