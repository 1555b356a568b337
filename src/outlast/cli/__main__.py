"""`python -m outlast.cli` is `outlast`."""

from outlast.cli.main import main

main(prog_name="outlast")
