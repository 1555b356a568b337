"""Stores of packs beside the World: a directory, a bucket.

A session's files are in the World unless its workspace names a store. That keeps the World small where files are large,
and lets what is cheap per byte hold them.
"""

import importlib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from outlast.errors import BadInput
from outlast.workspaces.drive.stores.directory import DirectoryObjects
from outlast.workspaces.drive.stores.objects import Held, Objects
from outlast.workspaces.drive.stores.packs import StoredPacks

__all__ = ["DirectoryObjects", "Held", "Objects", "StoredPacks", "open_store"]


def open_store(url: str, tenant: str = "default") -> StoredPacks:
    """The store of packs that a URL names.

    Args:
        url: a directory as an absolute path or `file:///…`; a bucket, or a folder of one, as `s3://bucket/folder`,
            `gs://bucket/folder`, `az://container/folder`, which needs `outlast[drive]`.
        tenant: whose packs; those of two never meet.

    Raises:
        BadInput: it names no store.
        ExtraMissing: it needs a package that is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme in {"", "file"}:
        path = Path(unquote(parts.path)) if parts.scheme else Path(url)
        if not path.is_absolute() or parts.netloc:
            raise BadInput(
                detail=f"{url!r} names no store of files. Name a directory by its absolute path, or a bucket."
            )
        return StoredPacks(DirectoryObjects(path), tenant)
    cloud: Any = importlib.import_module("outlast.workspaces.drive.stores.cloud")
    return StoredPacks(cloud.open_cloud(url), tenant)
