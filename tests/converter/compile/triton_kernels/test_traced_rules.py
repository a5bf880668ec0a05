"""Rules of shapes that are followed on symbols: what is found, what is written in C++, and what cannot be followed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.plugin.fixtures import ROOT, cuda_root
from trtsmith.converter.compile.triton_kernels.rule_source import check_body, shape_body
from trtsmith.converter.compile.triton_kernels.traced_rules import NotTracedError, trace_rules
from trtsmith.importers.opdef import Case, Field, Fields, Kind, OpDef, Port
from trtsmith.importers.registry import OPS, by_name

NOT_FOLLOWED = {
    "MultiscaleDeformableAttentionFromOffsets": "ways",
    "PyramidRegionAlign": "ways",
    "PyramidRotatedRegionAlign": "ways",
    "TopElements": "list indices",
    "GroupedDeformableSampling": "interpreted as an integer",
    "VoxelGeneration": "something else on symbols",
}
"""Rules of ours that count with fields, or compute with floats: they are beyond this, and are found to be."""

OURS = (
    "MatrixInverse",
    "LocalCorrelation",
    "SegmentReduction",
    "DeformableConvolution",
    "DetectionSelection",
)


def operator(shape: Callable[..., Any], check: Callable[..., Any] = lambda fields, shapes: []) -> OpDef:
    """x of rank 2, an optional y of any rank, a field and a list."""

    def inputs(generator: np.random.Generator) -> dict[str, np.ndarray]:
        return {"x": generator.normal(size=(6, 4)), "y": generator.normal(size=(4,))}

    return OpDef(
        name="Traced",
        doc="",
        inputs=(Port("x", "T", 2, ""), Port("y", "T", None, "", optional=True)),
        outputs=(Port("output", "T", None, ""),),
        fields=(
            Field("step", Kind.INT, "", minimum=1),
            Field("pads", Kind.INTS, "", length=2),
            Field("scale", Kind.FLOAT, ""),
        ),
        shape=shape,
        check=check,
        reference=lambda fields, arrays: {},
        expand=lambda expansion: "",
        cases=(Case("one", {"step": 2, "pads": (1, 2), "scale": 0.5}, inputs),),
    )


def strided(fields: Fields, shapes: Mapping[str, Any]) -> dict[str, Any]:
    rows, columns = shapes["x"]
    if fields["step"] > 1:
        rows = (rows + sum(fields["pads"]) - 1) // fields["step"] + 1
    return {"output": (rows, 3, 7 - columns)}


def test_a_rule_becomes_statements() -> None:
    traced = operator(strided)
    body = shape_body(traced, trace_rules(traced))
    assert body.splitlines()[0].startswith("if (int64_t{p.field_step} <= int64_t{1})")
    assert "constantLike(in[0][0], int64_t{3})" in body
    assert "(constantLike(in[0][1], int64_t{7}) - in[0][1])" in body


def test_a_check_stops_at_the_first_fault_and_says_the_sizes() -> None:
    def check(fields: Fields, shapes: Mapping[str, Any]) -> list[str]:
        y = shapes.get("y")
        if y is not None and len(y) != 1:
            return ["y is no list"]
        rows = shapes["x"][1]
        return (
            [f'y "holds" {y[0]}\\{rows} €']
            if y is not None and None not in (y[0], rows) and y[0] != rows
            else []
        )

    traced = operator(lambda fields, shapes: {"output": shapes["x"]}, check)
    body = check_body(traced, trace_rules(traced))
    assert 'return std::string("") + "y is no list";' in body
    assert "std::to_string(t.in[1].shape[0])" in body
    assert '"y \\042holds\\042 "' in body and '"\\134"' in body and "\\342\\202\\254" in body


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (
            lambda fields, shapes: {"output": (shapes["x"][0] if shapes["x"][0] > 2 else 1,)},
            "asks for the value",
        ),
        (lambda fields, shapes: {"output": (int(shapes["x"][0]),)}, "fails on symbols: TypeError"),
        (lambda fields, shapes: {"output": (shapes["x"][0] / 2,)}, "fails on symbols: TypeError"),
        (lambda fields, shapes: {"output": (fields["scale"] * 2,)}, "fails on symbols: TypeError"),
        (lambda fields, shapes: {}, "fails on symbols: KeyError"),
        (lambda fields, shapes: {"output": (type(shapes["x"][0]) is int,)}, "something else on symbols"),
    ],
)
def test_rules_that_cannot_be_followed(shape: Callable[..., Any], words: str) -> None:
    with pytest.raises(NotTracedError) as refused:
        trace_rules(operator(shape))
    assert words in str(refused.value)


def test_a_check_that_looks_at_what_a_size_is_is_found_out() -> None:
    def check(fields: Fields, shapes: Mapping[str, Any]) -> list[str]:
        return ["odd"] if isinstance(shapes["x"][0], int) and shapes["x"][0] % 2 else []

    with pytest.raises(NotTracedError, match="its `check` says something else on symbols"):
        trace_rules(operator(lambda fields, shapes: {"output": shapes["x"]}, check))


def test_inputs_of_any_rank_are_at_most_two() -> None:
    traced = operator(lambda fields, shapes: {"output": shapes["x"]})
    ports = tuple(Port(name, "T", None, "") for name in ("a", "b", "c"))
    with pytest.raises(NotTracedError, match="more than two inputs of any rank"):
        trace_rules(replace(traced, inputs=ports))


@pytest.mark.parametrize("op", [op for op in OPS if not op.data_dependent], ids=lambda op: op.name)
def test_rules_of_ours_are_followed(op: OpDef) -> None:
    if op.name not in NOT_FOLLOWED:
        trace_rules(op)  # which compares with numbers
        return
    with pytest.raises(NotTracedError) as refused:
        trace_rules(op)
    assert NOT_FOLLOWED[op.name] in str(refused.value)


def program(op: OpDef) -> str:
    """Reads fields and shapes, and prints what the check says and which shapes come out."""
    rules = trace_rules(op)
    members = "\n".join(
        f"    std::array<{'float' if f.kind in (Kind.FLOAT, Kind.FLOATS) else 'int32_t'}, {f.length}> field_{f.name};"
        if f.kind.is_list
        else f"    {'float' if f.kind is Kind.FLOAT else 'int32_t'} field_{f.name};"
        for f in op.fields
    )
    read = "\n".join(
        f"for (auto& e : p.field_{f.name}) std::cin >> e;"
        if f.kind.is_list
        else f"std::cin >> p.field_{f.name};"
        for f in op.fields
    )
    return f"""
#include <iostream>
#include "triton/checked.hpp"
using namespace trtsmith;
using namespace trtsmith::triton;
struct Params {{
{members}
}};
template <typename D>
void shape(const Params& p, const Shape<D>* in, int32_t nbInputs, Shape<D>* out) {{
    (void)p; (void)nbInputs;
{shape_body(op, rules)}
}}
std::string check(const Params& p, const Tensors& t, int32_t nbInputs) {{
    (void)p; (void)nbInputs;
{check_body(op, rules)}
}}
int main() {{
    Params p{{}};
    Tensors t;
    int32_t count = 0;
    while (std::cin >> count) {{
        {read}
        std::array<Shape<int64_t>, kMaxPorts> in{{}}, out{{}};
        t.nbInputs = count;
        for (int32_t i = 0; i < count; ++i) {{
            std::cin >> in[i].rank;
            for (int32_t axis = 0; axis < in[i].rank; ++axis) std::cin >> in[i][axis];
            t.in[i].shape = in[i];
        }}
        const std::string fault = check(p, t, count);
        if (!fault.empty()) {{ std::cout << "fault" << std::endl; continue; }}
        shape<int64_t>(p, in.data(), count, out.data());
        for (int32_t i = 0; i < {len(op.outputs)}; ++i) {{
            for (int32_t axis = 0; axis < out[i].rank; ++axis) std::cout << out[i][axis] << " ";
            std::cout << "; ";
        }}
        std::cout << std::endl;
    }}
}}
"""


@pytest.mark.parametrize("name", OURS)
def test_the_cpp_says_what_the_rules_say(tmp_path: Path, name: str) -> None:
    op = by_name()[name]
    (tmp_path / "program.cpp").write_text(program(op))
    command = [
        os.environ.get("CXX", "g++"),
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-sign-conversion",
    ]
    command += [
        f"-I{ROOT / 'plugins_cpp'}",
        f"-isystem{cuda_root() / 'include'}",
        str(tmp_path / "program.cpp"),
    ]
    built = subprocess.run([*command, "-o", str(tmp_path / "program")], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    given, expected = [], []
    for case in op.cases:
        generated = case.inputs(np.random.default_rng(7))
        right = {port.name: generated[port.name].shape for port in op.inputs if port.name in generated}
        for shapes in (right, *near(right)):
            given.append(line(op, case.fields, shapes))
            if op.check(case.fields, shapes):
                expected.append("fault")
            else:
                made = op.shape(case.fields, shapes)
                outputs = ("".join(f"{dim} " for dim in made[port.name]) for port in op.outputs)
                expected.append("".join(f"{output}; " for output in outputs))
    assert len({*expected}) > 2 and ("fault" in expected or name in ("MatrixInverse",))
    ran = subprocess.run([str(tmp_path / "program")], input="\n".join(given), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == expected


def near(right: Mapping[str, tuple[int, ...]]) -> list[dict[str, tuple[int, ...]]]:
    """The shapes with one size more or less."""
    return [
        {**right, name: (*shape[:axis], max(0, shape[axis] + change), *shape[axis + 1 :])}
        for name, shape in right.items()
        for axis in range(len(shape))
        for change in (-1, 1)
    ]


def line(op: OpDef, fields: Fields, shapes: Mapping[str, tuple[int, ...]]) -> str:
    numbers: list[Any] = [len(shapes)]
    for field in op.fields:
        numbers += fields[field.name] if field.kind.is_list else [fields[field.name]]
    for shape in shapes.values():
        numbers += [len(shape), *shape]
    return " ".join(map(str, numbers))
