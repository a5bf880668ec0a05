"""Judges one case by separate jobs: does it build unchanged, does it build rewritten, and is it right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.names_met import names_met
from onnxcoverage.builder import build_reason
from onnxcoverage.cases import CoverageCase, read_case
from trtsmith.converter.base.errors import ConversionError, TrtsmithError
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.convert.reports import graph_report
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.freeze import inputs_to_freeze
from trtsmith.converter.rewrite.rewrite import Rewritten, expand, rewrite
from trtsmith.converter.rewrite.rules.control_flow.loop_bodies import loop_inputs_to_freeze
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.rewrite.types import to_model
from trtsmith.importers.dtypes import dtype_name, numpy_dtype
from trtsmith.importers.problem import Problem

_FED = frozenset(
    "float16 float32 float64 bool complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()  # noqa: SIM905
)
"""Types of numpy that onnxruntime's Python takes and gives."""


IGNORED = {"Attention": 6}
"""By operator, the input that TensorRT-RTX 1.7.1 ignores: nonpad_kv_seqlen of Attention is read by no layer."""


def built_as_is(case: CoverageCase, folder: Path) -> dict[str, Any]:
    path = folder / f"{case.name}.onnx"
    onnx.save(case.model, path)
    return {"reason": build_reason(path, case.inputs, plugins=False) or ignored_input(case.model)}


def ignored_input(model: onnx.ModelProto) -> str:
    """The input that TensorRT silently ignores, so that the engine's numbers differ; "" if there is none."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            position = IGNORED.get(node.op_type)
            if position is not None and position < len(node.input) and node.input[position]:
                return f"TensorRT ignores input {position} of {node.op_type}"
    return ""


def rewritten(case: CoverageCase, folder: Path, freeze_inputs: bool = True) -> dict[str, Any]:
    """Rewrites the case, writes the graph for TensorRT, and compares its outputs with ONNX's.

    freeze_inputs: whether inputs that decide what is computed become constants; not where TensorRT takes the case.
    problems: trtsmith's own refusals. changed: whether TensorRT gets another graph. numbers: "" if they agree.
    """
    try:
        model, result = rewrite_case(case, folder, freeze_inputs)
        planned = plan(result)
    except TrtsmithError as error:
        return {
            "problems": _texts(error.problems),
            "changed": False,
            "told": False,
            "numbers": "not rewritten",
            "frozen": [],
        }
    changed = is_changed(result)
    if changed:
        save_model(result.model, folder / f"{case.name}.trt.onnx")
    found = {
        "problems": _texts(planned.problems),
        "changed": changed,
        "told": bool(result.warnings()) or any(record.notes for record in result.rewrites),
        "frozen": sorted(record.input for record in result.frozen),
        "met": names_met(graph_report(planned, result)),
        "warnings": list(result.warnings()),
    }
    return found | _numbers(case, model, result)


def rewrite_case(case: CoverageCase, folder: Path, freeze_inputs: bool) -> tuple[Model, Rewritten]:
    """The case as a Model in a file of the folder, and its rewrite. freeze_inputs: as of `rewritten`."""
    path = folder / f"{case.name}.rewrite.onnx"
    onnx.save(case.model, path)
    model = load_model(path)
    wanted = inputs_to_freeze(model.proto) | loop_inputs_to_freeze(model.proto)
    names = wanted if freeze_inputs else frozenset()
    freeze = {name: np.asarray(case.inputs[name]) for name in case.inputs if name in names}
    return model, rewrite(model, RTX, freeze=freeze)


def is_changed(result: Rewritten) -> bool:
    """Whether TensorRT's graph differs from the case's own."""
    return bool(result.frozen or result.rewrites or result.io_types)


def built_rewritten(case: CoverageCase, folder: Path) -> dict[str, Any]:
    path = folder / f"{case.name}.trt.onnx"
    types = {v.name: v.type for v in onnx.load(path, load_external_data=False).graph.input}
    feeds = {name: as_type(case.inputs[name], type_) for name, type_ in types.items() if name in case.inputs}
    return {"reason": build_reason(path, feeds, plugins=True)}


STEPS: Mapping[str, Callable[[CoverageCase, Path], dict[str, Any]]] = {
    "as is": built_as_is,
    "rewrite": rewritten,
    "rewrite unfrozen": partial(rewritten, freeze_inputs=False),
    "build": built_rewritten,
}


def work(job: str, folder: Path) -> dict[str, Any]:
    """Runs one step of one case of `write_cases`: "build:test_abs"."""
    step, _, name = job.partition(":")
    return STEPS[step](read_case(name, folder), folder)


def _texts(problems: tuple[Problem, ...]) -> list[str]:
    """Each problem's first part. A problem without all four parts is a mistake of ours."""
    return [
        problem.what if all(problem.to_json().values()) else f"INCOMPLETE MESSAGE: {problem}"
        for problem in problems
    ]


def _numbers(case: CoverageCase, model: Model, result: Rewritten) -> dict[str, str]:
    """numbers: "" if the rewritten graph gives ONNX's outputs, else the fault. by: the runtime that ran it."""
    silent = _silent_changes(case, result)
    if silent:
        return {"numbers": silent, "by": ""}
    try:
        reference = expand(result.model)
    except ConversionError as error:
        return {"numbers": error.problems[0].what, "by": ""}
    feeds = {
        value.name: as_type(case.inputs[value.name], value.type)
        for value in reference.proto.graph.input
        if value.name in case.inputs
    }
    try:
        outputs = run_onnxruntime(reference, feeds)
    except ConversionError as error:
        return _by_reference(case, reference, feeds, result, error.problems[0].what[:200])
    outputs = to_model(outputs, result.io_types)
    fault = faults(outputs, case)
    if fault and _differs_from_onnx(case, model):
        return _by_reference(
            case, reference, feeds, result, f"onnxruntime itself differs from ONNX ({fault})"
        )
    return {"numbers": fault, "by": "onnxruntime"}


def _by_reference(
    case: CoverageCase, graph: Model, feeds: Mapping[str, Any], result: Rewritten, why: str
) -> dict[str, str]:
    """The same by onnx's reference implementation; `why`: the reason not to use onnxruntime."""
    try:
        fault = faults(to_model(_run_reference(graph, feeds), result.io_types), case)
    except Exception as error:  # its operators raise whatever numpy raises
        return {"numbers": f"{why}; onnx.reference: {type(error).__name__}: {error}"[:400], "by": ""}
    return {"numbers": fault, "by": f"onnx.reference: {why}"}


def _differs_from_onnx(case: CoverageCase, model: Model) -> bool:
    """Whether onnxruntime's outputs differ from ONNX's even for the original case."""
    try:
        return bool(faults(run_onnxruntime(model, case.inputs), case))
    except ConversionError:
        return True


def faults(outputs: Mapping[str, Any], case: CoverageCase) -> str:
    """The first wrong output, and its fault; "" if there is none."""
    for name, expected in case.outputs.items():
        fault = _fault(outputs.get(name), expected, case)
        if fault:
            return f"output {name!r}: {fault}"
    return ""


def _silent_changes(case: CoverageCase, result: Rewritten) -> str:
    """An input or output that is missing or retyped without a report."""
    told = {io.name for io in result.io_types} | {record.input for record in result.frozen}
    after = {v.name: v.type for v in (*result.model.proto.graph.input, *result.model.proto.graph.output)}
    for value in (*case.model.graph.input, *case.model.graph.output):
        now = after.get(value.name)
        same = now is not None and now.tensor_type.elem_type == value.type.tensor_type.elem_type
        if not same and value.name not in told:
            return f"{value.name!r} changed, and nothing says so"
    return ""


def as_type(value: Any, type_: onnx.TypeProto) -> Any:
    """The array in the element type of the graph's input, as the engine's runner casts it."""
    value = np.asarray(value) if isinstance(value, np.generic) else value  # some cases give scalars
    if not isinstance(value, np.ndarray) or not type_.HasField("tensor_type"):
        return value
    want = numpy_dtype(type_.tensor_type.elem_type)
    return value if value.dtype == want or want == np.object_ else value.astype(want)


def run_onnxruntime(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Runs onnxruntime; types that its Python lacks enter as initializers and leave through a Cast to float32."""
    proto = model.copied()
    odd = {
        name: array
        for name, array in feeds.items()
        if isinstance(array, np.ndarray) and str(array.dtype) not in _FED and array.dtype != np.object_
    }
    kept = [value for value in model.proto.graph.input if value.name not in odd]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in odd.items())
    back: dict[str, str] = {}
    for value in proto.graph.output:
        type_ = value.type.tensor_type.elem_type
        if type_ and type_ != onnx.TensorProto.STRING:
            dtype = dtype_name(type_)
            if dtype not in _FED:
                back[f"{value.name}/as_float32"] = value.name
                cast = helper.make_node("Cast", [value.name], [f"{value.name}/as_float32"], to=1)
                proto.graph.node.append(cast)
                value.name = f"{value.name}/as_float32"
                value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    session = open_session(model.with_proto(proto))
    names = [value.name for value in proto.graph.output]
    try:
        values = session.run(names, {n: a for n, a in feeds.items() if n not in odd})
    except Exception as error:  # onnxruntime's errors have no base of their own
        what = f"onnxruntime cannot run the model: {error}"
        raise ConversionError(" ".join(what.split())[:250], "", "", "") from error
    return {back.get(name, name): value for name, value in zip(names, values, strict=True)}


def _run_reference(model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    from onnx.reference import ReferenceEvaluator

    values = ReferenceEvaluator(model.proto).run(None, dict(feeds))
    return dict(zip([v.name for v in model.proto.graph.output], values, strict=True))


def _fault(got: Any, expected: Any, case: CoverageCase) -> str:
    """The fault of one output, by the test suite's own rule; "" if there is none."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple, np.ndarray)) or len(got) != len(expected):
            return "another sequence"
        return next((f for a, b in zip(got, expected, strict=True) if (f := _fault(a, b, case))), "")
    if expected is None or got is None:
        return "" if got is expected or (isinstance(got, np.ndarray) and got.dtype == object) else "no value"
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape:
        return f"shape {list(a.shape)} instead of {list(b.shape)}"
    if case.random:
        return ""
    if b.dtype == np.object_ or b.dtype.kind in "US":
        return "" if np.array_equal(a.astype(object), b.astype(object)) else "other strings"
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    if np.allclose(x, y, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        off = np.abs(x - y)
    return f"differs by {np.nanmax(off):.3g}"
