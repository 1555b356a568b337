"""Drives: the trees of files that outlive the machine they are on (`outlast.drive`).

`Drive` reads trees and makes new ones from a list of changes; `Folder` writes a directory down as a tree, and brings it
back to one.
"""

from outlast.workspaces.drive.changing import Edit
from outlast.workspaces.drive.collecting import Collected, collect
from outlast.workspaces.drive.folder import Folder, Restored
from outlast.workspaces.drive.stores import StoredPacks, open_store
from outlast.workspaces.drive.tarring import to_tar
from outlast.workspaces.drive.tree import Drive
from outlast.workspaces.drive.walking import Change

__all__ = [
    "Change",
    "Collected",
    "Drive",
    "Edit",
    "Folder",
    "Restored",
    "StoredPacks",
    "collect",
    "open_store",
    "to_tar",
]
