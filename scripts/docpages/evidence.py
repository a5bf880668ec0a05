"""Writes tables of measurements, each from its record in benchmarks/ alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_table import bench_tables
from docpages.marks import markdown_table, table_of
from docpages.native_times import native_tables, selection_table
from gpucheck import engine_tables
from onnxcoverage.record import operator_rows, outcomes_of
from realregistries.registry_answers import COUNTS, totals

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "benchmarks"
H200 = RECORDS / "h200"
REWRITE_RECORD = RECORDS / "rewrite.json"
KERNEL_RECORDS = [
    H200 / name
    for name in ("bench_correlation.json", "bench.json", "bench_earlier.json", "bench_catalogue.json")
]
"""The newest first: of the others only what it has not."""
NATIVE_RECORD = H200 / "plugin_vs_native.json"
COVERAGE_RECORD = RECORDS / "onnx_coverage.json"
REGISTRIES_RECORD = RECORDS / "real_registries.json"
AARCH64_RECORD = RECORDS / "aarch64.json"
ENGINES_RECORDS = [
    H200 / f"engines{which}.json"
    for which in (
        "_onnx",
        "_rules",
        "_judged",
        "_layers",
        "_stress",
        "_operators",
    )
]
"""The newest first."""


def read(record: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return document


CHAINS = {
    "plain": "a chain of ONNX's operators",
    "generated": "the same, each 100th a custom operator",
    "ruled": "the same, a tenth for rules",
    "ruled_rtx": "the same, for TensorRT-RTX",
}
"""Generated models, by their key in the record."""


GRAPHS: Mapping[str, Callable[[tuple[str, Any]], str]] = {
    "graph": lambda pair: pair[0],
    "nodes": lambda pair: f"{pair[1]['nodes']:,}",
    "model file": lambda pair: f"{pair[1]['model_mib']:.1f} MiB",
    "load, rewrite and plan": lambda pair: f"{pair[1]['total_seconds']:.2f} s",
    "memory, peak": lambda pair: f"{pair[1]['peak_growth_mib']:.0f} MiB",
    "memory, anonymous, at the end": lambda pair: f"{pair[1]['anonymous_growth_mib']:.0f} MiB",
}
"""Of what a graph is and its part of the record."""


_VERDICTS = {0: "agree", 3: "disagree", 4: "not compared"}
"""By exit code."""

CONVERSIONS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "network": lambda row: row["network"],
    "TensorRT's own import": lambda row: f"{row['import']:g} s",
    "`convert`, float32": lambda row: f"{row['float32']:g} s",
    "beyond 1.3 times": lambda row: f"{max(row['float32'] - 1.3 * row['import'], 0):.1f} s",
    "`convert`, float16": lambda row: f"{row['float16']:g} s",
    "beyond 2 times": lambda row: f"{max(row['float16'] - 2 * row['import'], 0):.1f} s",
    "verdicts": lambda row: ", ".join(_VERDICTS[row[f"{name}_exit_code"]] for name in ("float32", "float16")),
}
"""Of a network."""


def conversion_seconds() -> str:
    """The table of scripts/convert_seconds.py."""
    record = read(RECORDS / "convert_seconds.json")
    machine, packages = record["machine"], record["packages"]
    where = (
        f"One run of each on {machine['cores']} cores of an {machine['cpu']}, {machine['date']}: TensorRT-RTX "
        f"{packages['tensorrt-rtx-cu13']}, onnxruntime {packages['onnxruntime']}."
    )
    return f"{where}\n\n{table_of(record['rows'], CONVERSIONS)}"


def rewrite_figures() -> str:
    """The table of scripts/bench_rewrite.py."""
    return render_rewrite(read(REWRITE_RECORD))


def render_rewrite(record: Mapping[str, Any]) -> str:
    detector, machine = record["detector"], record["machine"]
    graphs = [("the detector of `make demo`", detector)]
    for kind, what in CHAINS.items():
        graphs += [(what, entry) for entry in record.get(kind, ())]
    where = (
        f"Python {machine['python']}, onnx {machine['packages']['onnx']}, {machine['cores']} cores of an "
        f"{machine['cpu']}, {machine['memory_gib']:.0f} GiB, {machine['date']}"
    )
    ratio, limits = f"{detector['peak_growth_over_model']:.2f}", record["limits"]
    return (
        f"Median of {detector['runs']} processes on {where}. Memory is the growth after the imports. Its peak counts mapped "
        f"pages of the model file, and the system decides how many it maps at once. For the detector it is {ratio} times "
        f"the model. The limits that `scripts/bench_rewrite.py` holds the detector to are {limits['seconds']:g} s and "
        f"{limits['memory_over_model']:g} times the model.{_check_said(record)}\n\n{table_of(graphs, GRAPHS)}"
        f"{_goals_said(record['over_limits'])}"
    )


def _check_said(record: Mapping[str, Any]) -> str:
    check = record.get("check")
    return f" `trtsmith check` of {check['nodes']} nodes takes {check['seconds']:.2f} s." if check else ""


def _goals_said(over: Sequence[str]) -> str:
    """The list of goals not reached yet; "" if there are none."""
    return "".join(["\n\nNot reached yet:\n", *(f"\n- {sentence}" for sentence in over)]) if over else ""


def kernel_figures() -> str:
    """The tables of `trtsmith plugin bench`."""
    return bench_tables([read(path) for path in KERNEL_RECORDS]).rstrip()


def native_figures() -> str:
    """The tables of scripts/plugin_vs_native.py."""
    return native_tables(read(NATIVE_RECORD))


def selection_figures() -> str:
    """The table of scripts/bench_selection.py."""
    return selection_table(read(H200 / "selection.json"))


def onnx_coverage() -> str:
    """The table of scripts/onnx_coverage.py, with a line for each operator."""
    return render_coverage(read(COVERAGE_RECORD))


def render_coverage(record: Mapping[str, Any]) -> str:
    summary, versions = record["summary"], record["versions"]
    outcomes = outcomes_of(record)
    rows = [(op, *(f"{count:,}" for count in counts)) for op, *counts in operator_rows(outcomes)]
    said = ", ".join(f"{package} {version}" for package, version in versions.items())
    others = Counter(o.group for o in outcomes if o.group != "tensors")
    groups = ", ".join(f"{count} {group}" for group, count in sorted(others.items()))
    return (
        f"{said}. Of {summary['cases']:,} cases {summary['about_tensors']:,} are about tensors: "
        f"{summary['built_as_is']:,} build as they are, {summary['built_rewritten']:,} after the rewrite, "
        f"{summary['passed']:,} pass. The other {summary['others']:,} ({groups}) have to be refused with a reason "
        f"or to pass; of these, {summary['others_passed']:,} do.\n\n"
        + markdown_table(("operator", "cases", "as it is", "built", "passed"), rows)
    )


def registries() -> str:
    """The answers to scripts/real_registries.py, by version and by operator."""
    return render_registries(read(REGISTRIES_RECORD))


def render_registries(record: Mapping[str, Any]) -> str:
    answers = record["answers"]
    rows: list[tuple[str, ...]] = []
    operators: dict[tuple[str, ...], list[str]] = {}
    for name, found in answers.items():
        for interface, count in totals(found).items():
            numbers = [f"{count[column]:,}" for column in ("operators", *COUNTS)]
            rows.append((_registry_name(name, found), interface, *numbers, str(len(found["faults"]))))
        for interface, counts in found["asked"].items():
            for operator, count in counts.items():
                numbers = [f"{count[column]:,}" for column in COUNTS]
                operators.setdefault((operator, interface, *numbers), []).append(name)
    by_operator = [
        (*row, f"{'each of ' if len(names) == len(answers) else ''}{len(names)}")
        for row, names in operators.items()
    ]
    return "\n\n".join(
        (
            markdown_table(("registry of", "library", "operators", *COUNTS, "faults"), rows),
            markdown_table(("operator", "library", *COUNTS, "registries"), by_operator),
        )
    )


def aarch64() -> str:
    """The findings of scripts/check_aarch64.py in the wheel, and TensorRT's answers in emulation."""
    record = read(AARCH64_RECORD)
    libraries = [
        (f"`{name}`" + (", for CUDA 12" if build == "cuda12" else ""), found)
        for build, ours in record["libraries"].items()
        for name, found in ours.items()
    ]
    columns: Mapping[str, Callable[[tuple[str, Any]], str]] = {
        "library": lambda pair: pair[0],
        "compiled by CUDA": lambda pair: pair[1]["cuda"],
        "for compute capability": lambda pair: ", ".join(pair[1]["architectures"].split()),
        "size": lambda pair: f"{pair[1]['mib']} MiB",
        "needs": lambda pair: f"GLIBC {pair[1]['needs']['GLIBC']}, GLIBCXX {pair[1]['needs']['GLIBCXX']}",
        "kernels for each": lambda pair: ", ".join(sorted({str(of["count"]) for of in _kernels(pair[1])})),
        "of these too large for the GPU": lambda pair: str(sum(len(of["unfit"]) for of in _kernels(pair[1]))),
    }
    answers = record["registries"].values()
    asked = sum(count["comparisons"] for found in answers for count in totals(found).values())
    faults = sum(len(found["faults"]) for found in answers)
    versions = " and ".join(sorted({found["version"] for found in answers}))
    return table_of(libraries, columns) + (
        f"\n\nThe wheel, `{record['wheel']}`, has {record['mib']} MiB. Under QEMU, TensorRT "
        f"{versions} for aarch64 gave {asked:,} answers about both pairs of plugin libraries, {asked - faults:,} of them "
        f"right. All ran on {record['machine']['cpu']}, without a GPU."
    )


def _kernels(library: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(library["kernels"].values())


def _registry_name(name: str, found: Mapping[str, Any]) -> str:
    return f"TensorRT {name}" if name == found["version"] else f"{name} {found['version']}"


def engines_of(step: str) -> Callable[[], str]:
    """The results of one step of scripts/gpu_check.py --engines."""
    return lambda: render_engines(newest(step), step)


def newest(step: str) -> dict[str, Any]:
    """The newest record in which the step ran."""
    records = [read(path) for path in ENGINES_RECORDS]
    return next((record for record in records if engine_tables.was_done(record, step)), records[0])


def render_engines(record: Mapping[str, Any], step: str) -> str:
    found = record["steps"].get(step, {"rows": []})
    rows = found["rows"]
    if not rows:
        return "The step was not run yet."
    header, made = engine_tables.TABLES[step]
    said = engine_tables.SAID[step](rows) if step in engine_tables.SAID else found["summary"]
    return f"{engine_tables.heading(record)} {said}.\n\n{markdown_table(header, made(rows))}"
