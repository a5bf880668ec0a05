"""Runs the command: `python -m trtsmith`."""

import sys

from trtsmith.converter.cli.main import main

sys.exit(main())
