"""Writes converter/rewrite/precision/measured_types.json: the operators that TensorRT-RTX builds in float16 and bfloat16.

    python scripts/reduced_types.py

Takes ONNX's own backend node tests of each operator that TensorRT builds in float32 (at most four of one operator), gives
every float32 input that is of a type variable the reduced type, and asks TensorRT-RTX for an engine for sm86. An operator
takes the type if every such case builds. Run it again for a new TensorRT. No GPU is used; it takes some minutes.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import numpy_helper

from harness.jobs import Finding, run_jobs
from harness.run_record import script_parser
from onnxcoverage.builder import build_reason
from onnxcoverage.cases import CoverageCase, load_cases, read_case, write_cases
from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.rewrite.freeze import inputs_to_freeze
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.importers.dtypes import NUMBERS, numpy_dtype

TARGET = Path(__file__).parent.parent / "converter" / "rewrite" / "precision" / "measured_types.json"
REDUCED = {name: NUMBERS[name] for name in ("float16", "bfloat16")}
CASES = 4
WRITTEN = {
    "Einsum": 'Einsum <equation = "bij,bjk->bik"> (x, x)',
    "Equal": "Equal (x, x)",
    "LayerNormalization": "LayerNormalization (x, s)",
    "QuantizeLinear": "QuantizeLinear <output_dtype = 3> (x, c)",
    "DequantizeLinear": "DequantizeLinear (q, c)",
}
"""Operators without a float32 case that TensorRT builds. x: float32 [2, 4, 4], q: int8, s: [4] and c: [] constant."""

TIMEOUT_S = 60.0


def main(argv: Sequence[str] | None = None) -> None:
    parser = script_parser(__doc__)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="OP", help="operators to ask about and print"
    )
    options = parser.parse_args(argv)
    cases = candidates(load_cases(), options.only)
    with tempfile.TemporaryDirectory() as name:
        found = measure(cases, Path(name))
    if options.only:
        print(json.dumps(found, indent=1))
        return
    flavour = load_flavour()
    version = f"{flavour.name} {'.'.join(map(str, flavour.version))}"
    TARGET.write_text(json.dumps({"asked": version, "operators": found}, indent=1) + "\n", encoding="utf-8")
    counts = Counter(name for entry in found.values() for name, reason in entry.items() if not reason)
    print(f"{TARGET.name}: {len(found)} operators of {version}; " + json.dumps(counts))


def candidates(cases: Sequence[CoverageCase], only: Sequence[str] = ()) -> dict[str, list[CoverageCase]]:
    """The cases of each operator: models of one node with a float32 input of a type variable."""
    chosen: defaultdict[str, list[CoverageCase]] = defaultdict(list)
    for case in cases:
        kind = case.operator
        if case.group != "tensors" or kind not in native_operators() or (only and kind not in only):
            continue
        if len(case.model.graph.node) == 1 and any(True for _ in reducible(case.model)):
            chosen[kind].append(case)
    for kind in WRITTEN:
        if not only or kind in only:
            chosen[kind].append(_written(kind))
    return dict(sorted(chosen.items()))


def _written(kind: str) -> CoverageCase:
    text = f"""<ir_version: 10, opset_import: ["" : 23]> g (float[2,4,4] x, int8[2,4,4] q, float[4] s, float c) => (y)
        {{ y = {WRITTEN[kind]} }}"""
    model = onnx.parser.parse_model(text)
    read = [value for value in model.graph.input if value.name in model.graph.node[0].input]
    del model.graph.input[:]
    model.graph.input.extend(read)
    feeds = {
        "x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 4, 4),
        "q": np.arange(32, dtype=np.int8).reshape(2, 4, 4),
        "s": np.full(4, 0.5, np.float32),
        "c": np.array(0.25, np.float32),
    }
    inferred = onnx.shape_inference.infer_shapes(model)
    given = {value.name: feeds[value.name] for value in read}
    return CoverageCase(f"written_{kind}", kind, "tensors", inferred, given, {}, 0.0, 0.0, False)


def reducible(model: onnx.ModelProto) -> Iterator[str]:
    """The node's float32 inputs and outputs whose type the operator's schema leaves open."""
    node, version = model.graph.node[0], model.opset_import[0].version
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    for names, ports in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, value in enumerate(names):
            port = ports[min(index, len(ports) - 1)]
            if types.get(value) == T.FLOAT and not port.type_str.startswith("tensor("):
                yield value


def measure(cases: Mapping[str, Sequence[CoverageCase]], folder: Path) -> dict[str, dict[str, str]]:
    """Builds each operator in each reduced type: "" or TensorRT's first error. Leaves out operators that fail in float32."""
    plain = _ask(
        {f"{kind}/{i}": (case, T.FLOAT) for kind, of in cases.items() for i, case in enumerate(of)}, folder
    )
    built: defaultdict[str, list[CoverageCase]] = defaultdict(list)
    for key, reason in plain.items():
        kind = key.partition("/")[0]
        if not reason and len(built[kind]) < CASES:
            built[kind].append(cases[kind][int(key.partition("/")[2])])
    asked = {
        f"{kind}/{name}/{i}": (case, elem)
        for kind, of in built.items()
        for name, elem in REDUCED.items()
        for i, case in enumerate(of)
    }
    found: dict[str, dict[str, str]] = {
        kind: dict.fromkeys(REDUCED, "") for kind in sorted(built) if built[kind]
    }
    for key, reason in _ask(asked, folder).items():
        kind, name, _ = key.split("/")
        found[kind][name] = found[kind][name] or reason
    return found


def _ask(cases: Mapping[str, tuple[CoverageCase, int]], folder: Path) -> dict[str, str]:
    jobs = {}
    for number, (key, (case, elem)) in enumerate(cases.items()):
        write_cases([replace(case, name=str(number))], folder)
        jobs[f"{number}:{elem}"] = key
    findings = run_jobs("reduced_types", deque(jobs), 2, TIMEOUT_S, folder)
    reasons = {jobs[job]: _reason(finding) for job, finding in findings}
    return {key: reasons[key] for key in cases}


def _reason(finding: Finding) -> str:
    return finding.died or str(finding.found["reason"])


def work(job: str, folder: Path) -> dict[str, Any]:
    """Builds a case of `write_cases` in a type, "number:element type", in a worker; TensorRT's first error."""
    number, _, elem = job.partition(":")
    model, feeds = retyped(read_case(number, folder), int(elem))
    path = folder / f"{number}.{elem}.onnx"
    onnx.save(model, path)
    reason = build_reason(path, feeds, plugins=False)
    # Weights that are inputs in ONNX's tests, constants in networks.
    if reason and len(model.graph.input) > 1:
        names = [value.name for value in model.graph.input][1:]
        onnx.save(_frozen(model, names, feeds), path)
        reason = build_reason(path, feeds, plugins=False) and reason
    return {"reason": reason}


def retyped(case: CoverageCase, elem: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The case with its reducible values in another type, and with constants where TensorRT wants them."""
    model = deepcopy(case.model)
    names = set(reducible(model))
    dtype = numpy_dtype(elem)
    feeds = {n: np.asarray(v).astype(dtype) if n in names else np.asarray(v) for n, v in case.inputs.items()}
    for value in (*model.graph.input, *model.graph.output):
        if value.name in names:
            value.type.tensor_type.elem_type = elem
    return _frozen(model, sorted(inputs_to_freeze(case.model)), feeds), feeds


def _frozen(model: onnx.ModelProto, names: Sequence[str], feeds: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    result = deepcopy(model)
    left = [value for value in result.graph.input if value.name not in names]
    result.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names if n in feeds)
    del result.graph.input[:]
    result.graph.input.extend(left)
    return result


if __name__ == "__main__":
    main()
