"""Tests our plugin libraries in the plugin registries of NVIDIA's own TensorRTs, without a GPU.

    python scripts/real_registries.py --json benchmarks/real_registries.json      # every version, 44 MB each
    python scripts/real_registries.py --versions 10.15.1.29,TensorRT-RTX

The lean runtimes of TensorRT have the registry of the full one, and no builder. In each, in a process of its own, both
libraries are loaded; every creator, every plugin of every small case and every field with a fault are asked for; V2 plugins
are cloned, serialised and deserialised, V3 plugins made again from the fields that they serialise. What the plugins say is
compared with the definitions and with what the plugin host hears from them. The exit code is 1 if anything differs or a
process crashes, 2 if a TensorRT cannot be fetched.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]


def main(argv: Sequence[str] | None = None) -> int:
    from harness.run_record import script_parser, write_record
    from realregistries.lean_wheels import versions
    from realregistries.registry_answers import ask, summary
    from realregistries.registry_questions import questions
    from trtsmith.converter.compile.logged import SetupError

    parser = script_parser(__doc__)
    parser.add_argument(
        "--versions", default=",".join(versions()), metavar="A,B", help="only these (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    options = parser.parse_args(argv)
    chosen = options.versions.split(",")
    unknown = sorted(set(chosen) - set(versions()))
    if unknown:
        parser.error(f"no TensorRT {', '.join(unknown)} is pinned; there are {', '.join(versions())}")
    answers = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(questions(), file)
        file.flush()
        for version in chosen:
            try:
                answers[version] = ask(version, Path(file.name))
            except SetupError as error:
                print(f"{error.tail}\n{error}", file=sys.stderr)
                return 2
            for fault in answers[version]["faults"]:
                print(f"{version}: {fault}", file=sys.stderr)
    write_record(options.json, {"answers": answers}, "--json")
    print(summary(answers))
    return 1 if any(found["faults"] for found in answers.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
