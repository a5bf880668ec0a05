"""Runs the operators of a user's package inside engines of TensorRT-RTX, against their references.

    python3 scripts/ownoperators/package_engines.py DIR --bundle BUNDLE    # DIR was built with trtsmith build-plugins

Every small case of every operator in every type: static shapes, dynamic shapes, a CUDA graph, two contexts on two streams.
--times JSON: instead the kernels' times at the sizes of the definitions' benchmarks, beside engines of the expansions.
BUNDLE: what scripts/gpu_bundle.py unpacked. Exit code 1 if an output is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, with_bundle  # noqa: E402

IN_BUNDLE = "TRTSMITH_IN_BUNDLE"
DTYPES = ("float32", "float16", "bfloat16")
RUNS = 30


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", help="as --ops takes it")
    parser.add_argument("--bundle", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--times", type=Path, metavar="JSON", help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    arguments = parser.parse_args()
    if IN_BUNDLE not in os.environ:  # the loader reads LD_LIBRARY_PATH when a process starts
        environment = os.environ | with_bundle(arguments.bundle, os.environ) | {IN_BUNDLE: "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.path.insert(0, str(arguments.bundle / SITE))
    if arguments.times is not None:
        return measure(arguments.package, arguments.times, arguments.commit)
    return run(arguments.package)


def measure(package: str, output: Path, commit: str | None) -> int:
    import numpy as np

    from trtsmith.converter.bench.node import measure_node, ratio_of
    from trtsmith.converter.engine.build.flavour import load_flavour
    from trtsmith.converter.model.output_file import write_report
    from trtsmith.converter.operators.loading import operators_in_force
    from trtsmith.converter.plugin.bench.kernel_machine import open_bench
    from trtsmith.converter.plugin.cases import SEED
    from trtsmith.converter.plugin.machine import describe
    from trtsmith.importers.registry import packages_in_force

    rows: list[dict[str, Any]] = []
    with operators_in_force([package], installed=False):
        (found,) = packages_in_force()
        head = describe(ROOT, list(found.libraries), commit)
        with open_bench(found.libraries, 0.0) as bench:
            benchmarks = [(op, case) for op in found.operators for case in op.benchmarks]
            for (op, case), dtype in product(benchmarks, DTYPES):
                row: dict[str, Any] = {"op": op.name, "case": case.name, "dtype": dtype}
                generated = case.inputs(np.random.default_rng(SEED))
                flavour = load_flavour("tensorrt_rtx")
                measure_node(bench, flavour, op, case, generated, dtype, RUNS, row.__setitem__)
                rows.append(row | {"ratio": ratio_of(row["plugin"], row["native"])})
                print(rows[-1], flush=True)
                write_report(output, {"format": 1, **head, "rows": rows}, "--times")
    return 0 if all(row["ratio"] is not None for row in rows) else 1


def run(package: str) -> int:
    from gpucheck.plugin_engines import STATIC, run_dynamic, run_static
    from gpucheck.plugin_trials import TrialComparison, trials_of
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
