"""What `outlast doctor` says of providers of sandboxes beside that of this machine."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, cast

import anyio

from outlast.cli.harnesses import Finding
from outlast.errors import ExtraMissing, OutlastError, SandboxUnsupported
from outlast.plugins import brought
from outlast.sandbox import OpenProvider

GROUP: Final = "outlast.sandboxes"
HERE: Final = "bubblewrap"
ASKED_S: Final = 10.0


async def provider_findings(data: Path) -> AsyncGenerator[Finding]:
    """Each provider that can be used here or is set up wrongly; those of which nothing is set up, in one line."""
    absent: list[str] = []
    for point in sorted(brought(GROUP), key=lambda one: one.name):
        if point.name == HERE:
            continue
        what, indent = f"{point.name} boxes", f"\n  {'':16} "
        try:
            with anyio.fail_after(ASKED_S):
                provider = cast("OpenProvider", point.load())(data)
                warnings = await provider.check()
        except (ExtraMissing, SandboxUnsupported):
            absent.append(point.name)
        except TimeoutError:
            yield Finding(what, "warning", "cannot be asked", f"It does not answer within {ASKED_S:g} s.")
        except (OutlastError, OSError) as error:
            yield Finding(what, "warning", "cannot be asked", str(error))
        else:
            yield Finding(what, "warning" if warnings else "ok", "set up here", indent.join(warnings))
    if absent:
        hint = "docs/workspaces says of each what it needs: a package, a daemon, a cluster, a credential."
        yield Finding("more boxes", "absent", f"not set up here: {', '.join(absent)}", hint)
