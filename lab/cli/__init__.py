"""The command `qclimb lab`. Heavy imports wait until needed: every `qclimb` command loads these files."""

import click

from lab.cli import coflow, fabric, record, run, sim, vasic

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

EXAMPLE = """\b
Example:
  sudo qclimb lab up
  sudo qclimb lab exec h5 -- python3 -m http.server 80 &
  sudo qclimb lab exec h1 -- curl -s http://198.19.2.1/
  sudo qclimb lab down
"""


@click.group(context_settings=SETTINGS, epilog=EXAMPLE)
def lab() -> None:
    """A leaf-spine fabric: of namespaces (root only), or simulated."""


for _command in (fabric.up, fabric.down, fabric.exec_, fabric.show, run.demo, run.run, run.trace, record.record):
    lab.add_command(_command)
lab.add_command(sim.sim)
lab.add_command(coflow.coflow)
lab.add_command(vasic.vasic)
