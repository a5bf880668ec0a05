"""Integers in wider types: every operator that can leave the range, at both ends of it."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from tests.converter.rewrite.types.legalising import model_of, rewritten, run_legalised

TYPES = ("int8", "uint8", "int16", "uint16", "uint32", "uint64")
SMALL = ("int4", "uint4", "int2", "uint2")
ONNX = {name: getattr(TensorProto, name.upper()) for name in (*TYPES, *SMALL, "int32", "int64", "bool")}
ONNX |= {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}
SIZE = 400
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def values(dtype: str, seed: int = 0, size: int = SIZE) -> np.ndarray:
    """Of the whole range, with both ends, their neighbours and small numbers."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    info = ml_dtypes.iinfo(kind)
    low, high = int(info.min), int(info.max)
    some = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3]
    drawn = [low + int(n) % (high - low + 1) for n in rng.integers(0, 2**63, size, dtype=np.int64) * 2]
    small = [int(n) for n in rng.integers(0, 3, size // 4)]
    pool = np.array([*some, *drawn, *small], dtype=object)
    return (
        np.array([int(n) for n in rng.choice(pool, size)]).astype(kind)
        if low < 0
        else np.array([int(n) for n in rng.choice(pool, size)], dtype=np.uint64).astype(kind)
    )


def signature(dtype: str, *names: str) -> str:
    return ", ".join(f"{dtype}[{SIZE}] {name}" for name in names)


@pytest.mark.parametrize("dtype", TYPES)
def test_operators(dtype: str, tmp_path: Path) -> None:
    """Arithmetic, comparisons and signs; TensorRT takes int8 in all but Mod."""
    a, b = values(dtype, 1), values(dtype, 2)
    b[::3] = a[::3]
    lines = {"mod": "Mod (a, c)"}
    if dtype != "int8":
        lines |= {op: f"{op} (a, b)" for op in ("Add", "Sub", "Mul", "Max", "Min", *COMPARISONS)}
        lines |= {"quotient": "Div (p, q)", "Abs": "Abs (a)", "Sign": "Sign (a)"}
    if dtype == "int16":
        lines["Neg"] = "Neg (a)"
    c = np.where(b == 0, np.array(1, b.dtype), b)
    p, q = a, c
    if np.dtype(dtype).kind == "i":  # numpy, and so the reference, floors; ONNX truncates
        p = np.abs(a.astype(np.int64)).clip(0, np.iinfo(dtype).max).astype(dtype)
        q = np.where(c < 0, 1, c).astype(dtype)
    feeds = {"a": a, "b": b, "c": c, "p": p, "q": q}
    outputs = (signature("bool" if name in COMPARISONS else dtype, name) for name in lines)
    body = " ".join(f"{name} = {call}" for name, call in lines.items())
    model = model_of(signature(dtype, *feeds), body, ", ".join(outputs))
    run_legalised(model, feeds, tmp_path).check()


@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_division_truncates(dtype: str, tmp_path: Path) -> None:
    """ONNX, from opset 14 on: towards zero; the one quotient out of range wraps around."""
    low = np.iinfo(dtype).min
    a = np.array([-7, 7, -7, 7, -1, low, low, 5], dtype)
    b = np.array([2, -2, -2, 2, 2, -1, 2, 3], dtype)
    model = model_of(
        f"{dtype}[8] a, {dtype}[8] b", "c = Mod (a, b) y = Div (a, b)", f"{dtype}[8] y, {dtype}[8] c"
    )
    ran = run_legalised(model, {"a": a, "b": b}, tmp_path)
    if dtype == "int16":
        assert ran.got["y"].tolist() == [-3, -3, 3, 3, 0, low, low // 2, 1]
    assert ran.got["c"].tolist() == [1, -1, -1, 1, 1, 0, 0, 2]


@pytest.mark.parametrize("dtype", TYPES)
def test_clip(dtype: str, tmp_path: Path) -> None:
    info = np.iinfo(dtype)
    low, high = info.min + 3, info.max - 3 - info.max // 4
    body = f"l = Cast <to = {ONNX[dtype]}> (low) h = Cast <to = {ONNX[dtype]}> (high) y = Clip (a, l, h)"
    kind = "uint64" if dtype == "uint64" else "int64"
    model = model_of(f"{signature(dtype, 'a')}, {kind} low, {kind} high", body, signature(dtype, "y"))
    feeds = {"a": values(dtype), "low": np.array(low, kind), "high": np.array(high, kind)}
    run_legalised(model, feeds, tmp_path).check()


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize(
    "op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"]
)
def test_reductions(op: str, dtype: str, tmp_path: Path) -> None:
    axes = "x = Constant <value = int64[1] {1}> ()"
    model = model_of(f"{dtype}[20, 20] a", f"{axes} y = {op} <keepdims = 0> (a, x)", f"{dtype}[20] y")
    a = values(dtype).reshape(20, 20)
    with np.errstate(over="ignore"):
        wanted = {
            "ReduceSum": lambda: np.add.reduce(a, axis=1, dtype=a.dtype),
            "ReduceProd": lambda: np.multiply.reduce(a, axis=1, dtype=a.dtype),
            "ReduceL1": lambda: np.add.reduce(a, axis=1, dtype=a.dtype),
            "ReduceSumSquare": lambda: np.add.reduce(a * a, axis=1, dtype=a.dtype),
            "ReduceMax": lambda: a.max(axis=1),
            "ReduceMin": lambda: a.min(axis=1),
        }[op]()
    # onnxruntime adds and multiplies int64 in float64
    exact = op in ("ReduceMax", "ReduceMin")
    run_legalised(model, {"a": a}, tmp_path, expected={"y": wanted}, by_reference=not exact).check()


@pytest.mark.parametrize("dtype", ["int16", "uint64"])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(dtype: str, largest: int, tmp_path: Path) -> None:
    a = np.unique(values(dtype))[::-1].copy()
    np.random.default_rng(0).shuffle(a)
    body = f"k = Constant <value = int64[1] {{7}}> () y, i = TopK <largest = {largest}> (a, k)"
    model = model_of(f"{dtype}[{a.size}] a", body, f"{dtype}[7] y, int64[7] i")
    run_legalised(model, {"a": a}, tmp_path).check()


@pytest.mark.parametrize("op", ["Max (a, b)", "Min (a, b)", "Clip (a, b)"])
def test_no_sum_with_the_lowest_number(op: str, tmp_path: Path) -> None:
    """TensorRT-RTX 1.6.1 gets the top bit wrong where -2**63 is added twice."""
    model = model_of(signature("uint64", "a") + ", uint64 b", f"y = {op}", signature("uint64", "y"))
    nodes = rewritten(model, tmp_path).model.proto.graph.node
    constants = [numpy_helper.to_array(n.attribute[0].t) for n in nodes if n.op_type == "Constant"]
    assert {int(value) for value in constants} == {0, 2**62, -(2**62)}


NATIVE = ("int8", "uint8", "int32", "int64", "bool", "float32", "float16")
SOURCES = (*TYPES, *SMALL, "int32", "int64", "bool")


@pytest.mark.parametrize("source", SOURCES)
def test_cast(source: str, tmp_path: Path) -> None:
    """To all types, but from those that TensorRT has to one that it has."""
    x = values(source) if source != "bool" else values("uint8") % 2 == 1
    lines, outputs, expected = [], [], {}
    for target in (*SOURCES, "float32", "float16"):
        if not (source in NATIVE and target in NATIVE):
            lines.append(f"{target}_ = Cast <to = {ONNX[target]}> (x)")
            outputs.append(f"{ {'float32': 'float'}.get(target, target) }[{SIZE}] {target}_")
            with np.errstate(over="ignore"):
                wanted = x.astype(target) if source not in SMALL else x.astype(np.int64).astype(target)
                if target == "float16":  # by way of float32, where numpy rounds once
                    wanted = x.astype(np.float32).astype(target)
            expected[f"{target}_"] = wanted
    model = model_of(f"{source}[{SIZE}] x", " ".join(lines), ", ".join(outputs), opset=25, ir=13)
    run_legalised(model, {"x": x}, tmp_path, expected=expected).check()


@pytest.mark.parametrize("target", [*TYPES, *SMALL])
@pytest.mark.parametrize("source", ["float32", "float16", "float64"])
def test_cast_of_floats_truncates(source: str, target: str, tmp_path: Path) -> None:
    info = ml_dtypes.iinfo(np.dtype(target))
    low, high = float(info.min), float(info.max)
    x = np.random.default_rng(0).uniform(low, high, SIZE)
    if target == "uint64":
        x[:3] = 2.0**63, 2.0**64 - 2.0**41, 2.0**63 - 2.0**39
    x = np.clip(x, -60000, 60000) if source == "float16" else x
    x = x.astype(np.float32).astype(source)
    x = x[(x > low - 1) & (x <= high)]
    kind = {"float32": "float", "float64": "double"}.get(source, source)
    model = model_of(
        f"{kind}[{x.size}] x", f"z = Cast <to = {ONNX[target]}> (x) y = Identity (z)", f"{target}[{x.size}] y",
        opset=25, ir=13,
    )  # fmt: skip
    ran = run_legalised(model, {"x": x}, tmp_path)
    exact = [int(v) for v in x.tolist()]
    assert [int(v) for v in ran.got["y"].astype(object)] == exact


@pytest.mark.parametrize("opset", [8, 9, 13])
def test_older_opsets_wrap_without_mod(opset: int, tmp_path: Path) -> None:
    """Mod came with opset 10; before it, division does."""
    x = np.array([-70000, -32769, -32768, -1, 0, 1, 32767, 32768, 65535, 65536, 2**31 - 1], np.int32)
    model = model_of("int32[11] x", "z = Cast <to = 5> (x) y = Cast <to = 6> (z)", "int32[11] y", opset, ir=4)
    ran = run_legalised(model, {"x": x}, tmp_path)
    assert ("Mod" in {n.op_type for n in ran.result.model.proto.graph.node}) == (opset >= 10)
    ran.check()
