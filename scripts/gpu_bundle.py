#!/usr/bin/env python3
"""Bundles a GPU check for a machine without a network: TensorRT-RTX, wheels, our libraries, models.

    python scripts/gpu_bundle.py pack --to FOLDER                     # writes FOLDER/chunk-1, FOLDER/chunk-2, ...
    python3 scripts/gpu_bundle.py unpack chunk-1 --to DIR             # there, as the chunks arrive
    eval "$(python3 scripts/gpu_bundle.py unpack chunk-2 --to DIR)"   # the last one: prints the environment
    python scripts/gpu_bundle.py pack --files FILES --to FOLDER       # of a folder's files, and nothing else

Every chunk is at most --chunk-mib large, has the index of the whole bundle, and may come in a call of its own. A part
with another SHA-256 than packed is refused. Unpacking needs Python 3.12 with pip, no network and nothing else; the wheels
are for Python 3.12 on x86_64. Exit code 2 if something is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.chunks import BundleError, pack  # noqa: E402
from gpubundle.unpack import exports, unpack  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BundleError as error:
        print(error.problem, file=sys.stderr)
    except OSError as error:
        print(f"{error.strerror}: {error.filename}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="pack|unpack")
    packing = commands.add_parser("pack", help="gather everything and write the chunks")
    packing.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the chunks go")
    packing.add_argument(
        "--chunk-mib", type=float, default=42.0, help="the most in one chunk (default %(default)g)"
    )
    packing.add_argument(
        "--wheels",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="wheels that are there already",
    )
    packing.add_argument(
        "--files", type=Path, metavar="FOLDER", help="pack the files of this folder, in place of all that"
    )
    packing.add_argument(
        "--no-models", action="store_true", help="for scripts that export their networks there: minutes less"
    )
    packing.set_defaults(run=_pack)
    unpacking = commands.add_parser("unpack", help="take chunks in; install when all are there")
    unpacking.add_argument("chunks", type=Path, nargs="*", metavar="CHUNK", help="folders of chunks")
    unpacking.add_argument("--to", type=Path, required=True, metavar="DIR", help="a folder that stays")
    unpacking.set_defaults(run=_unpack)
    return parser


def _pack(arguments: argparse.Namespace) -> int:
    from gpubundle.contents import gather, library_folder

    with tempfile.TemporaryDirectory() as work:
        if arguments.files is None:
            files = gather(arguments.wheels, library_folder(), Path(work), not arguments.no_models)
        else:
            found = sorted(path for path in arguments.files.rglob("*") if path.is_file())
            files = {path.relative_to(arguments.files).as_posix(): path for path in found}
        if not files:
            raise BundleError(
                "There is nothing to pack.",
                f"--files {arguments.files}",
                "a folder with files in it",
                "correct the path",
            )
        for folder in pack(files, arguments.to, max(int(arguments.chunk_mib * 2**20), 1)):
            print(folder)
    return 0


def _unpack(arguments: argparse.Namespace) -> int:
    target = arguments.to.resolve()
    missing = unpack(arguments.chunks, target)
    if missing:
        print(f"still missing: {', '.join(missing)}", file=sys.stderr)
    else:
        print(exports(target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
