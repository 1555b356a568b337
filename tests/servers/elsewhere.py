"""Another machine, as far as its workers know: a mount namespace in which the kernel has another boot id.

Linux only. It needs no root where user namespaces are allowed.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ENTER = f'mount --bind "$1" {BOOT_ID} && shift && exec "$@"'


def on_another_host(argv: Sequence[str], identity: Path) -> list[str]:
    """A command, run where `outlast.engine.proof.host_id` names another host: the one of the file `identity`.

    A worker of it needs a data directory of its own as well, as another machine would have: there its locks are.
    """
    if not identity.exists():
        identity.write_text(f"{uuid4()}\n", encoding="ascii")
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", ENTER, "sh", str(identity), *argv]
