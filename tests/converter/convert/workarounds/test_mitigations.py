"""Each mitigation keeps the results in onnxruntime, and leaves alone what it cannot rewrite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from tests.converter.models import parsed
from trtsmith.converter.convert.workarounds.float_constants import with_float_constants
from trtsmith.converter.convert.workarounds.mitigations import (
    MITIGATIONS,
    with_expanded_plugins,
    with_identities,
    with_identities_before_casts,
    with_inlined_ifs,
    with_written_elus,
)
from trtsmith.converter.convert.workarounds.refusals import MAY_DIFFER, RefusedGraph
from trtsmith.converter.convert.workarounds.static_axes import with_static_axes
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import by_name


def graph(
    folder: Path, text: str, made: set[str], profiles: tuple[dict[str, Profile], ...] = ()
) -> RefusedGraph:
    return RefusedGraph(parsed(folder / "m.onnx", text.removeprefix("g ")), frozenset(made), profiles)


def run(model: Model, **feeds: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(model.proto.SerializeToString())
    return list(session.run(None, feeds))


def kinds(model: Model) -> list[str]:
    return [node.op_type for node in model.proto.graph.node]


def same(given: RefusedGraph, mended: Model, **feeds: np.ndarray) -> None:
    for expected, found in zip(run(given.model, **feeds), run(mended, **feeds), strict=True):
        np.testing.assert_array_equal(found, expected)


ONE = {"x": Profile((1, 4, 6), (1, 4, 6), (1, 4, 6))}
X = np.arange(24, dtype=np.float32).reshape(1, 4, 6) - 7


def test_every_name_is_there_once_and_what_may_differ_is_known() -> None:
    names = [one.name for one in MITIGATIONS]
    assert len({*names}) == len(names)
    assert tuple(one.name for one in MITIGATIONS if not one.exact) == MAY_DIFFER


def test_static_axes_of_a_squeeze(tmp_path: Path) -> None:
    text = "g (float[N, 4, M] x) => (float[] y) { s = Squeeze(x) y = Relu(s) }"
    given = graph(tmp_path, text, {"s"}, (ONE,))
    mended = with_static_axes(given)
    assert mended is not None
    (squeeze, _) = mended.proto.graph.node
    axes = {t.name: numpy_helper.to_array(t).tolist() for t in mended.proto.graph.initializer}
    assert axes[squeeze.input[1]] == [0]
    assert [d.dim_value for d in mended.proto.graph.input[0].type.tensor_type.shape.dim] == [1, 4, 6]
    same(given, mended, x=X)


def test_names_that_two_branches_use_get_no_axes_of_each_other(tmp_path: Path) -> None:
    text = """g (float[N, 4, M] x, bool c) => (float[] y) <int64[1] axis = {0}> {
      y = If(c) <then_branch = t () => (float[] r) { q = Neg(x) r = Squeeze(q) },
                 else_branch = e () => (float[] r) { q = Unsqueeze(x, axis) r = Squeeze(q) }>
    }"""
    given = graph(tmp_path, text, {"y"}, (ONE,))
    mended = with_static_axes(given)
    assert mended is not None
    for condition in (True, False):
        same(given, mended, x=X, c=np.array(condition))


def test_static_axes_decide_what_shapes_decide(tmp_path: Path) -> None:
    text = """g (float[N, 4, M] x) => (float[] y) <int64 one = {1}, int64 last = {-1}> {
      s = Shape(x) n = Gather(s, last) c = Equal(n, one)
      y = If(c) <then_branch = t () => (float[] a) { a = Squeeze(x) }, else_branch = e () => (float[] b) { b = Neg(x) }>
    }"""
    given = graph(tmp_path, text, {"c", "y"}, (ONE,))
    mended = with_static_axes(given)
    assert mended is not None and not {"Shape", "Gather", "Equal"} & {*kinds(mended)}
    same(given, mended, x=X)


def test_sizes_that_the_profile_leaves_open_stay_so(tmp_path: Path) -> None:
    text = "g (float[N, 4, M] x) => (float[] y) { s = Shape(x) r = Reshape(x, s) y = Relu(r) }"
    open_ = {"x": Profile((1, 4, 6), (2, 4, 6), (4, 4, 6))}
    mended = with_static_axes(graph(tmp_path, text, {"r"}, (open_,)))
    assert mended is not None
    dims = mended.proto.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in dims] == [0, 4, 6] and dims[0].dim_param == "N"
    assert with_static_axes(graph(tmp_path, text, {"r"})) is None
    every = {"x": Profile((1, 4, 6), (2, 4, 7), (4, 4, 8))}
    assert with_static_axes(graph(tmp_path, text, {"r"}, (every,))) is None
    assert with_static_axes(graph(tmp_path, text, {"r"}, (ONE, every))) is None


IF = """g (float[2, 3] x, bool c) => (float[2, 3] y) <float[3] w = {1, 2, 3}> {
  a = Relu(x)
  z = If(c) <
    then_branch = t () => (float[2, 3] r) <float[3] k = {4, 5, 6}> { q = Add(a, k) r = Mul(q, w) },
    else_branch = e () => (float[2, 3] r) { q = Neg(a) r = Add(q, w) }>
  y = Identity(z)
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_an_inlined_if_chooses_as_the_if_did(tmp_path: Path, condition: bool) -> None:
    given = graph(tmp_path, IF, {"z"})
    mended = with_inlined_ifs(given)
    assert mended is not None and "If" not in kinds(mended) and "Where" in kinds(mended)
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    same(given, mended, x=x, c=np.array(condition))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q = Neg(a) r = Add(q, w)", "q = Neg(a) r = Unsqueeze(q, axis)"),  # another rank
        ("q = Neg(a)", "q = RandomNormalLike(a)"),
        ("z = If", "z0 = If"),
    ],
)
def test_an_if_that_is_not_sure_to_be_the_same_stays(tmp_path: Path, old: str, new: str) -> None:
    text = IF.replace(old, new).replace(
        "float[3] w = {1, 2, 3}", "float[3] w = {1, 2, 3}, int64[1] axis = {0}"
    )
    text = text.replace("y = Identity(z)", "y = Identity(z0)") if "z0" in new else text
    text = text.replace("(float[2, 3] r) { q = Neg(a) r = Uns", "(float[] r) { q = Neg(a) r = Uns")
    assert with_inlined_ifs(graph(tmp_path, text, {"z"})) is None


GATHER = """g (int64[3] i) => (float[3, 2] y) <
  int8[4, 2] table = {-128, 127, 0, 1, 2, -3, 100, -100}, float scale = {0.1}, int8 zero = {-5}> {
  q = Gather(table, i)
  t = Transpose<perm = [1, 0]>(q)
  u = Transpose<perm = [1, 0]>(t)
  y = DequantizeLinear(u, scale, zero)
}"""


def test_int8_constants_that_are_moved_and_dequantized(tmp_path: Path) -> None:
    given = graph(tmp_path, GATHER, {"q"})
    mended = with_float_constants(given)
    assert mended is not None
    assert kinds(mended) == ["Gather", "Transpose", "Transpose", "Sub", "Mul"]
    assert not {3} & {t.data_type for t in mended.proto.graph.initializer if t.name == "table"}
    same(given, mended, i=np.array([3, 0, 1]))


def test_uint8_constants_that_are_cast(tmp_path: Path) -> None:
    text = """g (int64[2] i) => (float[2] y, int32[2] z) <uint8[3] table = {0, 255, 7}> {
      q = Gather(table, i) y = Cast<to = 1>(q) z = Cast<to = 6>(q)
    }"""
    given = graph(tmp_path, text, {"q"})
    mended = with_float_constants(given)
    assert mended is not None
    same(given, mended, i=np.array([1, 2]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u = Transpose<perm = [1, 0]>(t)", "u = Add(t, t)"),  # wraps around in int8
        ("i) => (float[3, 2] y)", "i) => (float[3, 2] y, int8[2, 3] t)"),  # seen outside
        ("float scale = {0.1}", "float[2] scale = {0.1, 0.2}"),  # one scale for each column
        ("q = Gather(table, i)", "table2 = Identity(table) q0 = Gather(table2, i) q = Identity(q0)"),
    ],
)
def test_int8_constants_of_other_uses_stay(tmp_path: Path, old: str, new: str) -> None:
    text = GATHER.replace(old, new)
    if "scale = {0.1, 0.2}" in new:
        text = text.replace("int8 zero = {-5}", "int8[2] zero = {-5, 0}")
    made = {"nothing"} if "table2" in new else {"q"}
    assert with_float_constants(graph(tmp_path, text, made)) is None


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_an_elu_is_written_by_its_formula(tmp_path: Path, dtype: str) -> None:
    text = f"g ({dtype}[1, 4, 6] x) => ({dtype}[1, 4, 6] y) {{ e = Elu <alpha = 0.7> (x) f = Elu (e) y = Relu (f) }}"
    given = graph(tmp_path, text, {"e"})
    mended = with_written_elus(given)
    assert mended is not None and kinds(mended).count("Elu") == 1 and "Exp" in kinds(mended)
    x = (X / 8).astype(np.float16 if dtype == "float16" else np.float32)
    (expected,), (found,) = run(given.model, x=x), run(mended, x=x)
    np.testing.assert_allclose(found, expected, atol=2e-3 if dtype == "float16" else 1e-7)
    assert with_written_elus(graph(tmp_path, text, {"y"})) is None


def test_identities_stand_before_casts_alone(tmp_path: Path) -> None:
    text = "g (float[2] x) => (float[2] y, float16[2] z) { a = Relu(x) y = Neg(a) z = Cast <to = 10> (a) }"
    mended = with_identities_before_casts(graph(tmp_path, text, {"y", "z"}))
    assert mended is not None and kinds(mended) == ["Relu", "Neg", "Identity", "Cast"]
    assert with_identities_before_casts(graph(tmp_path, text, {"y"})) is None


def test_identities_stand_before_what_nodes_made(tmp_path: Path) -> None:
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Relu(x) b = Add(a, w) y = Mul(b, a) }"
    given = graph(tmp_path, text, {"b", "y"})
    mended = with_identities(given)
    assert mended is not None and kinds(mended) == ["Relu", "Identity", "Add", "Identity", "Identity", "Mul"]
    same(given, mended, x=np.array([3, -4], np.float32))
    assert with_identities(graph(tmp_path, text, {"a"})) is None


def test_plugins_that_are_concerned_are_expanded(tmp_path: Path) -> None:
    op = next(name for name in by_name() if "Inverse" in name)
    text = f"""(float[2, 3, 3] x) => (float[2, 3, 3] y, float[2, 3, 3] z) {{
        y = trtsmith.{op} (x) z = trtsmith.{op} (y) }}"""
    given = graph(tmp_path, text, {"y"})
    mended = with_expanded_plugins(given)
    assert mended is not None
    assert [node.op_type for node in mended.proto.graph.node if node.domain == "trtsmith"] == [op]
    assert with_expanded_plugins(RefusedGraph(given.model, frozenset({"x"}))) is None
