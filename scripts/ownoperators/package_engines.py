"""Runs the operators of a user's package inside engines of TensorRT-RTX, against their references.

    python3 scripts/ownoperators/package_engines.py DIR --bundle BUNDLE    # DIR was built with trtsmith build-plugins

Every small case of every operator in every type: static shapes, dynamic shapes, a CUDA graph, two contexts on two streams.
BUNDLE: what scripts/gpu_bundle.py unpacked. Exit code 1 if an output is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, with_bundle  # noqa: E402

IN_BUNDLE = "TRTSMITH_IN_BUNDLE"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", help="as --ops takes it")
    parser.add_argument("--bundle", type=Path, required=True, metavar="BUNDLE")
    arguments = parser.parse_args()
    if IN_BUNDLE not in os.environ:  # the loader reads LD_LIBRARY_PATH when a process starts
        environment = os.environ | with_bundle(arguments.bundle, os.environ) | {IN_BUNDLE: "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.path.insert(0, str(arguments.bundle / SITE))
    return run(arguments.package)


def run(package: str) -> int:
    from gpucheck.plugin_engines import STATIC, run_dynamic, run_static
    from gpucheck.plugin_trials import trials_of
    from gpucheck.trial_comparison import TrialComparison
    from trtsmith.converter.engine.build.flavour import load_flavour
    from trtsmith.converter.operators.loading import operators_in_force
    from trtsmith.converter.plugin.cases import type_choices
    from trtsmith.importers.registry import packages_in_force

    wrong = 0
    with operators_in_force([package], installed=False), tempfile.TemporaryDirectory() as folder:
        registry = load_flavour("tensorrt_rtx").module.get_plugin_registry()
        for found in packages_in_force():
            for library in found.libraries:
                registry.load_library(str(library))
            for op in found.operators:
                for types in type_choices(op):
                    trials = tuple(trials_of(op, types))
                    runs = ((STATIC, run_static(trials, Path(folder))), *run_dynamic(trials, Path(folder)))
                    report = TrialComparison(op, types).report(*runs)
                    cases = sum(row["cases"] for row in report["rows"])
                    passed = sum(row["passed"] for row in report["rows"])
                    wrong += cases - passed
                    print(
                        f"{op.name} {' '.join(types.values())}: {passed} of {cases} runs inside engines are right"
                    )
                    for failure in report["failures"][:3]:
                        print(f"  {failure}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
