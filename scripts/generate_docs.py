"""Rewrite the generated parts of README.md, CONTRIBUTING.md and docs/: what follows from definitions, records and sources.

    python scripts/generate_docs.py            # rewrite
    python scripts/generate_docs.py --check    # exit code 1 if a part is out of date

A part lies between the lines `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from bench_table import bench_tables  # noqa: E402
from gpucheck import engine_tables  # noqa: E402
from importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, OpDef, Spelling  # noqa: E402
from importers.registry import ALL_OPS, OPS  # noqa: E402
from onnxcoverage.record import operator_rows, outcomes_of  # noqa: E402
from pluginvsnative.table import native_tables  # noqa: E402

README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
REWRITE_RECORD = ROOT / "benchmarks" / "rewrite.json"
KERNEL_RECORDS = [ROOT / "benchmarks" / "h200" / name for name in ("bench.json", "bench_earlier.json")]
"""The newest first: of the others only what it has not."""
NATIVE_RECORD = ROOT / "benchmarks" / "h200" / "plugin_vs_native.json"
COVERAGE = ROOT / "docs" / "ONNX_COVERAGE.md"
COVERAGE_RECORD = ROOT / "benchmarks" / "onnx_coverage.json"
REAL_MODELS = ROOT / "docs" / "REAL_MODELS.md"
ENGINES = ROOT / "docs" / "GPU_ENGINES.md"
ENGINES_RECORDS = [
    ROOT / "benchmarks" / "h200" / name
    for name in ("engines_graphs.json", "engines_conversions.json", "engines.json")
]
"""The newest first."""
REAL_MODELS_RECORD = ROOT / "benchmarks" / "real_models.json"


class DocumentError(Exception):
    """The document's marks are not as they must be."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(argv)
    stale = [
        path
        for path, parts in (
            (README, README_PARTS),
            (CONTRIBUTING, CONTRIBUTING_PARTS),
            (COVERAGE, COVERAGE_PARTS),
            (REAL_MODELS, REAL_MODELS_PARTS),
            (ENGINES, ENGINES_PARTS),
        )
        if refresh(path, parts, write=not options.check)
    ]
    if not options.check:
        return 0
    for path in stale:
        print(f"{path.name} is out of date: python scripts/generate_docs.py", file=sys.stderr)
    return 1 if stale else 0


def refresh(path: Path, parts: Mapping[str, Callable[[], str]], *, write: bool) -> bool:
    """Whether the document's generated parts were out of date; written anew if `write`."""
    before = path.read_text(encoding="utf-8")
    after = fill(before, {name: make() for name, make in parts.items()})
    if write and after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def fill(text: str, parts: Mapping[str, str]) -> str:
    """The document with each part between its marks. DocumentError unless the marks are exactly those of the parts."""
    for name, body in parts.items():
        first, last = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
            raise DocumentError(f"one {first} and then one {last} are expected")
        before, rest = text.split(first)
        text = f"{before}{first}\n\n{body}\n\n{last}{rest.split(last)[1]}"
    unknown = set(re.findall(r"<!-- generated: (.+?) -->", text)) - set(parts)
    if unknown:
        raise DocumentError(f"nothing generates {', '.join(sorted(unknown))}")
    return text


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def operators() -> str:
    """Every operator: what it computes, the types of its tensors, and the op_types that mean it."""
    rows = [
        (f"**{op.name}**", op.doc, dtypes(op), ", ".join(op.interfaces), "<br>".join(_read_from(op)))
        for op in ALL_OPS
    ]
    return markdown_table(("operator", "computes", "types", "plugins", "read from"), rows)


def _read_from(op: OpDef) -> list[str]:
    own = [f"`{op.onnx}` (ONNX, where TensorRT lacks it)"] if op.onnx else []
    return own + [spelled(s) for s in op.spellings]


def dtypes(op: OpDef) -> str:
    """The types of each type variable, named by its ports where there is more than one."""
    variables = list(dict.fromkeys(port.type for port in op.inputs))
    texts = []
    for variable in variables:
        text = ", ".join(TYPE_VARIABLES[variable])
        ports = ", ".join(f"`{port.name}`" for port in op.inputs if port.type == variable)
        texts.append(text if variable == variables[0] else f"{ports}: {text}")
    return "<br>".join(texts)


def spelled(spelling: Spelling) -> str:
    """The op_type, its domains and its first opset where that is not 1."""
    first, last = spelling.opsets
    domains = [f"`{domain}`" if domain else "ONNX" for domain in spelling.domains] or ["no domain"]
    opsets = "" if (first, last) == (1, None) else f", opset {first}" + (f" to {last}" if last else " on")
    return f"`{spelling.op_type}` ({', '.join(domains)}{opsets})"


def torch_operators() -> str:
    """The schema of every PyTorch operator, and PyTorch's own operators that are exported as the same node."""
    from importers.torch_ops import schema

    schemas = "\n".join(f"torch.ops.{PLUGIN_NAMESPACE}.{schema(op)}" for op in OPS)
    also = "; ".join(f"`{name}` as `{op.name}`" for op in OPS for name in sorted(op.aten))
    return f"```\n{schemas}\n```\n\nOf PyTorch's own operators, `export` also writes {also}."


def rewrite_figures() -> str:
    """What scripts/bench_rewrite.py measured."""
    return render_rewrite(json.loads(REWRITE_RECORD.read_text(encoding="utf-8")))


def render_rewrite(record: Mapping[str, Any]) -> str:
    detector, machine = record["detector"], record["machine"]
    graphs = [("the detector of `make demo`", detector)]
    graphs += [("a generated chain", entry) for entry in record["generated"]]
    graphs += [("a chain with 10% for rules", entry) for entry in record.get("ruled", ())]
    rows = [
        (
            what,
            f"{entry['nodes']:,}",
            f"{entry['model_mib']:.1f} MiB",
            f"{entry['total_seconds']:.2f} s",
            f"{entry['peak_growth_mib']:.0f} MiB",
            f"{entry['anonymous_growth_mib']:.0f} MiB",
        )
        for what, entry in graphs
    ]
    header = (
        "graph",
        "nodes",
        "model file",
        "load, rewrite and plan",
        "memory, peak",
        "memory, anonymous, at the end",
    )
    where = (
        f"Python {machine['python']}, onnx {machine['packages']['onnx']}, {machine['cores']} cores of an "
        f"{machine['cpu']}, {machine['memory_gib']:.0f} GiB, {machine['date']}"
    )
    ratio, limits = f"{detector['peak_growth_over_model']:.2f}", record["limits"]
    return (
        f"Median of {detector['runs']} processes on {where}. Memory is the growth after the imports. Its peak counts mapped "
        f"pages of the model file, and the system decides how many it maps at once. For the detector it is {ratio} times "
        f"the model. The limits that `scripts/bench_rewrite.py` holds the detector to are {limits['seconds']:g} s and "
        f"{limits['memory_over_model']:g} times the model.\n\n{markdown_table(header, rows)}"
    )


def kernel_figures() -> str:
    """What `trtsmith plugin bench` measured."""
    return bench_tables([json.loads(path.read_text(encoding="utf-8")) for path in KERNEL_RECORDS]).rstrip()


def native_figures() -> str:
    """What scripts/plugin_vs_native.py measured."""
    return native_tables(json.loads(NATIVE_RECORD.read_text(encoding="utf-8"))).rstrip()


def modules(*folders: str) -> Callable[[], str]:
    """The modules of folders, each with the first sentence that its source says of itself."""
    return lambda: "\n".join(line for folder in folders for line in _modules(ROOT / folder))


def _modules(folder: Path) -> list[str]:
    lines, seen = [], set()
    for path in sorted(
        folder.iterdir(), key=lambda p: (p.stem, _ORDER.index(p.suffix) if p.suffix in _ORDER else 0)
    ):
        said = first_sentence(path) if path.suffix in _ORDER and path.name != "__init__.py" else ""
        if said and path.stem not in seen:
            seen.add(path.stem)
            lines.append(f"- `{path.relative_to(ROOT)}`: {said}".replace("<", "&lt;"))
    return lines


_ORDER = (".py", ".h", ".hpp", ".cuh", ".cpp", ".cu")
"""Sources that have a line in the map; of a header and its source, the first that says something."""


def first_sentence(path: Path) -> str:
    """Of a module's docstring, or of the comment that a C++ file begins with; "" if there is none."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        paragraph = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    else:
        comment = re.match(r"(?://.*\n)+", text)
        paragraph = re.sub(r"^// ?", "", comment[0], flags=re.MULTILINE).split("\n\n")[0] if comment else ""
    sentence = re.match(r".*?\.(?=\s|$)|.+", " ".join(paragraph.split()))
    return sentence[0] if sentence else ""


def onnx_coverage() -> str:
    """What scripts/onnx_coverage.py found, with a line for each operator."""
    return render_coverage(json.loads(COVERAGE_RECORD.read_text(encoding="utf-8")))


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


def real_models() -> str:
    """What scripts/real_models.py found, with a line for each form of each model."""
    return render_real_models(json.loads(REAL_MODELS_RECORD.read_text(encoding="utf-8")))


def render_real_models(record: Mapping[str, Any]) -> str:
    said = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    rows = [
        (
            f"`{r['model']}`, {r['about']}, of {r['package']}",
            r["form"],
            str(r["opset"]),
            ", ".join(f"{count:,} {route}" for route, count in r["routes"].items()) or f"{r['nodes']:,}",
            r["outcome"].replace("|", "\\|"),
            "" if r["relative"] is None else f"{r['relative']:.1e}",
            f"{r['engine_bytes'] / 2**20:.1f} MiB" if r["engine_bytes"] else "none",
        )
        for r in record["results"]
    ]
    head = ("model", "form", "opset", "nodes", "outcome", "largest relative error", "engine")
    return f"{said}.\n\n" + markdown_table(head, rows)


SAID: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    "networks": engine_tables.networks_said,
    "planted": engine_tables.planted_said,
    "runner": lambda rows: f"Python {rows[0]['found']['python'].split()[0]}",
}
"""What is said of a step's rows, where that is not the step's own summary."""


def engines_of(step: str, header: Sequence[str]) -> Callable[[], str]:
    """What one step of scripts/gpu_check.py --engines found, by the newest record in which there was time for it."""

    def part() -> str:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in ENGINES_RECORDS]
        done = [record for record in records if engine_tables.was_done(record, step)]
        return render_engines((done or records)[0], step, header)

    return part


def render_engines(record: Mapping[str, Any], step: str, header: Sequence[str]) -> str:
    found = record["steps"].get(step, {"rows": []})
    rows = found["rows"]
    if not rows:
        return "The step was not run yet."
    said = found["summary"]
    make = {
        "onnx-tests": engine_tables.node_test_rows,
        "rules": engine_tables.rule_rows,
        "graphs": engine_tables.graph_rows,
        "networks": engine_tables.network_rows,
        "sums": engine_tables.sum_rows,
        "runner": engine_tables.runner_rows,
        "planted": engine_tables.planted_rows,
    }[step]
    if step in SAID:
        said = SAID[step](rows)
    return f"{engine_tables.heading(record)} {said}.\n\n{markdown_table(header, make(rows))}"


README_PARTS: Mapping[str, Callable[[], str]] = {
    "operators": operators,
    "torch operators": torch_operators,
    "rewrite figures": rewrite_figures,
    "kernel figures": kernel_figures,
    "plugin against native": native_figures,
}
CONTRIBUTING_PARTS: Mapping[str, Callable[[], str]] = {
    "map of importers": modules("importers", "importers/ops"),
    "map of converter": modules(
        "converter",
        "converter/modelfile",
        "converter/passes",
        "converter/passes/rules",
        "converter/passes/rules/quantised",
        "converter/passes/types",
        "converter/passes/precision",
        "converter/quantise",
        "converter/build",
        "converter/benchmark",
        "converter/child",
        "converter/runtime",
        "converter/locate",
        "converter/plugin",
        "converter/verify",
        "converter/verify/meanings",
    ),
    "map of commands": modules("converter/commands"),
    "map of plugins_cpp": modules(
        *(f"plugins_cpp/{name}" for name in ("kernels", "core", "trt", "ops", "host")),
        "plugins_cpp",
    ),
    "map of models": modules("models"),
    "map of scripts": modules(
        "scripts",
        *(
            f"scripts/{name}"
            for name in (
                "benchmemory",
                "envsetup",
                "gpubundle",
                "gpucheck",
                "onnxcoverage",
                "planted",
                "pluginvsnative",
            )
        ),
    ),
}
COVERAGE_PARTS: Mapping[str, Callable[[], str]] = {"onnx coverage": onnx_coverage}
REAL_MODELS_PARTS: Mapping[str, Callable[[], str]] = {"real models": real_models}
ENGINES_PARTS: Mapping[str, Callable[[], str]] = {
    "node tests on a GPU": engines_of(
        "onnx-tests",
        ("operator", "cases", "match", "of these by TF32's error", "wrong", "no engine, or no run"),
    ),
    "rules on a GPU": engines_of(
        "rules", ("rule", "examples", "match", "of these by TF32's error", "others")
    ),
    "random graphs on a GPU": engines_of("graphs", ("verdict", "graphs", "the first")),
    "networks on a GPU": engines_of(
        "networks", ("network", "precision", "error of the engine", "of PyTorch", "verdict")
    ),
    "runner on a GPU": engines_of(
        "runner", ("inputs", "arrays", "bare call, us", "inference, us", "overhead, us")
    ),
    "planted errors on a GPU": engines_of(
        "planted", ("planted", "model", "on", "in the node", "named first", "verdict")
    ),
    "sums of products on a GPU": engines_of(
        "sums", ("layer", "products", "precision", "error", "of rounding the result", "times that")
    ),
}


if __name__ == "__main__":
    sys.exit(main())
