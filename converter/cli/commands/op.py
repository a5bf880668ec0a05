"""trtsmith op: writes, compiles and tests a package of the user's own operators."""

from __future__ import annotations

import argparse

from trtsmith.converter.cli.commands import op_build, op_example, op_new, op_test
from trtsmith.converter.cli.parsing.command_parser import common_options

DESCRIPTION = "Write, compile and test a package of your own operators."

_ACTIONS = {
    "new": (op_new, "write a package for your own operator"),
    "build": (op_build, "compile the operators of your package"),
    "test": (op_test, "test the compiled plugins of your package"),
    "example": (op_example, "write the example model of your package again"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    for name, (module, said) in _ACTIONS.items():
        action = actions.add_parser(
            name, parents=[common_options()], help=said, description=module.DESCRIPTION, epilog=module.EPILOG
        )
        module.add_arguments(action)
        action.set_defaults(run=module.run)
