"""Notes what the interpreter starts and writes, in a file that `OUTLAST_WATCHED` names: found by PYTHONPATH alone."""

import json
import os
import sys
from pathlib import Path
from typing import Any

_STARTS = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "pty.spawn",
}
_CHANGES = {
    "os.mkdir",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.remove",
    "os.rmdir",
    "shutil.copyfile",
}
_TO = {"os.rename", "os.link", "os.symlink"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOG = os.open(os.environ["OUTLAST_WATCHED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _STARTS:
        kind, what = "start", repr(arguments[:2])
    elif event in _CHANGES:
        kind, what = "write", os.fsdecode(arguments[1 if event in _TO else 0])
    elif event == "open" and isinstance(arguments[0], str | bytes) and int(arguments[2]) & _WRITING:
        kind, what = "write", os.fsdecode(arguments[0])
    else:
        return
    where = what if kind == "start" else str(Path.cwd() / what)
    os.write(_LOG, json.dumps([kind, where]).encode() + b"\n")


sys.addaudithook(_note)
