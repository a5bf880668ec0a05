"""`python -m trtsmith` is the command."""

import sys

from trtsmith.converter.cli.main import main

sys.exit(main())
