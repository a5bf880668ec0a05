#!/usr/bin/env python3
"""Inspects the aarch64 wheel and loads its libraries in emulation, without a GPU or an aarch64 machine.

    python scripts/check_aarch64.py dist                                 # what `make wheel PLATFORM=aarch64` made
    python scripts/check_aarch64.py dist --json benchmarks/aarch64.json  # and the emulation; 20 minutes

Of each library: the CUDA and the GPUs of its kernels, the C and C++ libraries that it needs, and whether each kernel's
largest block fits on those GPUs. By emulation: that it loads with Debian 11's C library, and what the plugin registries of
NVIDIA's TensorRT for aarch64 answer, which scripts/real_registries.py asks in the same words on x86_64. Exit code 1 if
anything is wrong, 2 if a package cannot be fetched.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]


def main(argv: Sequence[str] | None = None) -> int:
    from crosscheck.emulation import TENSORRTS, load_on_debian_11, registry_answers
    from crosscheck.library_contents import faults_of, read_library
    from envsetup.cross import PLATFORM_TAG
    from envsetup.native import LIBRARIES, MOST_MIB
    from harness.run_record import script_parser, write_record
    from trtsmith.converter.compile.logged import SetupError

    parser = script_parser(__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    options = parser.parse_args(argv)
    wheels = sorted(options.folder.glob(f"trtsmith-*{PLATFORM_TAG}.whl"))
    if len(wheels) != 1:
        parser.error(
            f"{len(wheels)} wheels for {PLATFORM_TAG} in {options.folder}: make wheel PLATFORM=aarch64"
        )
    size = wheels[0].stat().st_size / 2**20
    faults = [] if size < MOST_MIB else [f"the wheel has {size:.1f} MiB, expected less than {MOST_MIB}"]
    with tempfile.TemporaryDirectory(prefix="trtsmith-aarch64-") as work:
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(work)
        folder = Path(work) / "trtsmith/converter/lib"
        found = {}
        try:
            for build, place in (("cuda13", folder), ("cuda12", folder / "cuda12")):
                found[build] = {name: read_library(place / name) for name in LIBRARIES}
                for name, one in found[build].items():
                    faults += [f"{build} {name}: {fault}" for fault in faults_of(one, build)]
                    print(
                        f"{build} {name}: {one['mib']} MiB, {one['cuda']}, sm {one['architectures']}, {one['needs']}"
                    )
            answers: dict[str, object] = {}
            if options.json is not None:
                for build, place in (("cuda13", folder), ("cuda12", folder / "cuda12")):
                    faults += [f"{build}: {said}" for said in load_on_debian_11(place)]
                    for version in TENSORRTS:
                        told = registry_answers(version, place)
                        faults += [f"{build}, TensorRT {version}: {fault}" for fault in told["faults"]]
                        answers[f"{build} {version}"] = told
        except SetupError as error:
            print(f"{error.tail}\n{error}", file=sys.stderr)
            return 2
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{wheels[0].name}: {size:.1f} MiB, {len(faults)} faults")
    record = {"wheel": wheels[0].name, "mib": round(size, 1), "libraries": found}
    write_record(options.json, {**record, "registries": answers, "faults": faults}, "--json")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
