"""`outlast`: the group of commands."""

import click

from outlast.cli import act, look
from outlast.cli.demo.command import demo
from outlast.cli.doctor import doctor
from outlast.cli.model_script import model_script
from outlast.cli.run import run
from outlast.cli.work import work


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="outlast", prog_name="outlast")
def main() -> None:
    """Coding agents that outlast the process they run in.

    Sessions live in a World (OUTLAST_WORLD, else a file in your data directory); workers advance them.
    """


for command in (
    demo,
    run,
    work,
    look.ls,
    look.show,
    look.log,
    look.follow,
    act.send,
    act.steer,
    act.cancel,
    act.rm,
    doctor,
    model_script,
):
    main.add_command(command)
