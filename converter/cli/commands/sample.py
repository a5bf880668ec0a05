"""trtsmith sample: writes sample models to try the commands on."""

from __future__ import annotations

import argparse
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.cli.console import Console, table
from trtsmith.converter.samples.sample_models import SAMPLES, write_samples

DESCRIPTION = (
    "Write sample models, on which the commands of the documents run, to the current folder. Never overwrites a file with "
    "other content. Without NAME, list the samples."
)

EPILOG = """examples:
  trtsmith sample
  trtsmith sample detector
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="a sample, such as detector")


def run(options: argparse.Namespace, console: Console) -> int:
    written = write_samples(options.names, Path())
    console.result("\n".join(written) if written else table(list(SAMPLES.items())))
    return EXIT_OK
