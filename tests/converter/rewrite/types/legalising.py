"""Runs a model before and after the types pass: onnx's reference on the original, onnxruntime on what TensorRT gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np
import onnx
from onnx import helper, reference

from tests.converter.rewrite.running import loaded
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite

OPSET = 21


def model_of(inputs: str, body: str, outputs: str, opset: int = OPSET, ir: int = 10) -> onnx.ModelProto:
    text = f'<ir_version: {ir}, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return onnx.parser.parse_model(text)


@dataclass(frozen=True)
class Ran:
    expected: Mapping[str, np.ndarray]
    got: Mapping[str, np.ndarray]
    result: Rewritten

    def check(self) -> None:
        """Equal to the last bit, NaN for NaN and sign of zero included."""
        for name, wanted in self.expected.items():
            array = self.got[name]
            assert array.shape == wanted.shape
            assert array.dtype == wanted.dtype
            if wanted.dtype == bool or "int" in str(wanted.dtype):
                np.testing.assert_array_equal(array.astype(object), wanted.astype(object))
                continue
            left, right = array.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_array_equal(left, right)
            real = ~np.isnan(right)
            np.testing.assert_array_equal(np.signbit(left)[real], np.signbit(right)[real])


def rewritten(proto: onnx.ModelProto, folder: Path) -> Rewritten:
    onnx.checker.check_model(proto)
    return rewrite(loaded(proto, folder), passes=())


def run_legalised(
    proto: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    expected: Mapping[str, np.ndarray] | None = None,
    by_reference: bool = False,
) -> Ran:
    """`feeds` in ONNX's types; outputs are cast back into them, as the engine's runner does.

    expected: instead of what onnx's reference gives. by_reference: it runs the rewritten graph too.
    """
    result = rewritten(proto, folder)
    assert not result.declined
    if expected is None:
        values = reference.ReferenceEvaluator(proto).run(None, dict(feeds))
        expected = dict(zip([o.name for o in proto.graph.output], map(np.asarray, values), strict=True))
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.input}
    cast = {n: a.astype(helper.tensor_dtype_to_np_dtype(types[n])) for n, a in feeds.items() if n in types}
    before = {io.name: np.dtype(io.before) for io in result.io_types}
    if by_reference:
        arrays = reference.ReferenceEvaluator(result.model.proto).run(None, cast)
    else:
        made = run(result.model, cast, optimise=False)  # its optimiser makes 0 of a -0 on the way
        arrays = [made[name] for name in expected]
    got = {n: a.astype(before.get(n, a.dtype)) for n, a in zip(expected, arrays, strict=True)}
    return Ran(expected, got, result)


def types_of(result: Rewritten) -> set[int]:
    """Element types that the graph for TensorRT names: of its ends, its constants and its casts."""
    graph = result.model.proto.graph
    found = {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output, *graph.value_info)}
    found |= {t.data_type for t in graph.initializer}
    found |= {a.i for n in graph.node for a in n.attribute if a.name == "to"}
    return found
