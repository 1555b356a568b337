"""`python -m outlast.testing.models FILE`: the scripted model server as a process of its own."""

import argparse
import sys
from pathlib import Path

from outlast.errors import OutlastError
from outlast.testing.models.program import run


def main() -> int:
    """Serve the script named on the command line; 2 when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m outlast.testing.models", description=main.__doc__)
    parser.add_argument("script", type=Path, help="the script, .toml or JSON")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--log", type=Path, help="append the requests to this file, as lines of JSON")
    parser.add_argument("--until-eof", action="store_true", help="end also when standard input does")
    options = parser.parse_args()
    try:
        run(options.script, options.host, options.port, options.log, until_eof=options.until_eof)
    except (OutlastError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
