"""The measurement of types: its cases, and that the table has everything on which the pass relies."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto as T

import reduced_types
from onnxcoverage.cases import CoverageCase, load_cases
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.converter.rewrite.precision.formats import BF16, FP16
from trtsmith.converter.rewrite.precision.judge import refusal
from trtsmith.converter.rewrite.precision.policy import (
    CHAINS_GO_THROUGH,
    FIXED,
    HEAVY,
    INTERFACES,
    POSITIONS,
    SENSITIVE,
)


@pytest.fixture(scope="module")
def cases() -> dict[str, list[CoverageCase]]:
    return reduced_types.candidates(load_cases(), ["Conv", "Resize", "Einsum", "Range", "Shape"])


def test_type_variables_change_and_fixed_types_do_not(cases: dict[str, list[CoverageCase]]) -> None:
    case = next(c for c in cases["Resize"] if c.name == "test_resize_upsample_scales_linear")
    model, feeds = reduced_types.retyped(case, T.BFLOAT16)
    types = {v.name: v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    types |= {t.name: t.data_type for t in model.graph.initializer}
    assert types["X"] == types["Y"] == T.BFLOAT16 and types["scales"] == T.FLOAT
    assert str(feeds["X"].dtype) == "bfloat16"


def test_written_cases_are_sound(cases: dict[str, list[CoverageCase]]) -> None:
    case = next(c for c in cases["Einsum"] if c.name == "written_Einsum")
    onnx.checker.check_model(case.model, full_check=True)
    assert set(case.inputs) == {"x"}


def test_what_tensorrt_refused_is_refused() -> None:
    assert "does not build" in refusal("ConvTranspose", BF16)
    assert refusal("ConvTranspose", FP16) == ""
    assert "was measured" in refusal("SomethingNew", FP16)
    assert not [op for op in ("Conv", "MatMul", "Gemm", "Relu", "Add", "Reshape") if refusal(op, BF16)]


def test_the_policy_s_operators_are_onnx_s_and_stand_in_one_table_each() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | {"SimplifiedLayerNormalization"}
    for table in (SENSITIVE, HEAVY, FIXED, INTERFACES, CHAINS_GO_THROUGH, POSITIONS):
        assert set(table) <= known, set(table) - known
    tables = [set(SENSITIVE), set(HEAVY), set(FIXED), set(INTERFACES)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert not set(CHAINS_GO_THROUGH) & (set(SENSITIVE) | set(INTERFACES))
    assert {op for op in HEAVY if op in native_operators()} >= {"Conv", "MatMul", "Gemm", "Einsum", "LSTM"}
