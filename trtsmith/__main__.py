"""Runs the command: `trtsmith`, or `python -m trtsmith`."""

import sys


def main() -> int:
    try:
        from trtsmith.converter.cli.main import main as command

        return command()
    except KeyboardInterrupt:  # while the command itself is imported
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
