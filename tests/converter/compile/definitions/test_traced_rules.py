"""Shape rules traced on symbols: what is found, the C++ written for it, and what cannot be traced."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.plugin.fixtures import ROOT
from trtsmith.converter.compile.definitions.definition_source import definition_header
from trtsmith.converter.compile.definitions.formulas import CLOSE, OPEN
from trtsmith.converter.compile.definitions.rule_source import check_body, field_member, shape_body
from trtsmith.converter.compile.definitions.traced_rules import NotTracedError, leaf_for, leaves, trace_rules
from trtsmith.importers.opdef import Case, Field, Fields, Kind, OpDef, Port
from trtsmith.importers.registry import OPS, by_name

FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-sign-conversion")
NOT_FOLLOWED = {"VoxelGeneration": "something else on symbols"}
"""Rules of ours that compute with floats: they are beyond this, and are found to be."""

OURS = (
    *("MatrixInverse", "LocalCorrelation", "SegmentReduction", "DeformableConvolution", "DetectionSelection"),
    *("SelectedSlices", "StridedRulebook"),
)


REST: dict[str, Any] = {
    "name": "Traced",
    "doc": "",
    "expand": lambda expansion: "",
    "reference": lambda fields, arrays: {},
}


def operator(
    shape: Callable[..., Any] = lambda fields, shapes: {"output": shapes["x"]},
    check: Callable[..., Any] = lambda fields, shapes: [],
) -> OpDef:
    """x of rank 2, an optional y of any rank, a field and a list."""
    draw = lambda generator: {"x": generator.normal(size=(6, 4)), "y": generator.normal(size=(4,))}  # noqa: E731
    return OpDef(
        **REST,
        inputs=(Port("x", "T", 2, ""), Port("y", "T", None, "", optional=True)),
        outputs=(Port("output", "T", None, ""),),
        fields=(
            *(Field("step", Kind.INT, "", minimum=1), Field("pads", Kind.INTS, "", length=2)),
            Field("scale", Kind.FLOAT, ""),
        ),
        shape=shape,
        check=check,
        cases=(Case("one", {"step": 2, "pads": (1, 2), "scale": 0.5}, draw),),
    )


def strided(fields: Fields, shapes: Mapping[str, Any]) -> dict[str, Any]:
    rows, columns = shapes["x"]
    if fields["step"] > 1:
        rows = (rows + sum(fields["pads"]) - 1) // fields["step"] + 1
    return {"output": (rows, 3, 7 - columns)}


def test_a_rule_becomes_statements() -> None:
    traced = operator(strided)
    body = shape_body(trace_rules(traced))
    assert body.splitlines()[0].startswith("if (int64_t{p.step} <= int64_t{1})")
    assert "constantLike(in[0][0], int64_t{3})" in body
    assert "(constantLike(in[0][1], int64_t{7}) - in[0][1])" in body


def test_a_check_stops_at_the_first_fault_and_says_the_sizes() -> None:
    def check(fields: Fields, shapes: Mapping[str, Any]) -> list[str]:
        y = shapes.get("y")
        if y is not None and len(y) != 1:
            return ["y is no list"]
        rows = shapes["x"][1]
        wrong = y is not None and None not in (y[0], rows) and y[0] != rows
        return [f'y "holds" {y[0]}\\{rows} €'] if wrong else []

    traced = operator(check=check)
    body = check_body(trace_rules(traced))
    assert 'return sentence({"y is no list"});' in body
    assert ", t.in[1].shape[0], " in body
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
        trace_rules(operator(check=check))


def test_inputs_of_any_rank_are_at_most_two() -> None:
    traced = operator()
    ports = tuple(Port(name, "T", None, "") for name in ("a", "b", "c"))
    with pytest.raises(NotTracedError, match="more than two inputs of any rank"):
        trace_rules(replace(traced, inputs=ports))


def test_a_check_says_the_first_fault_alone() -> None:
    def check(fields: Fields, shapes: Mapping[str, Any]) -> list[str]:
        rows, columns = shapes["x"]
        faults = [f"{rows} rows"] if rows is not None and rows < 2 else []
        return faults + ([f"{columns} columns"] if columns is not None and columns < 3 else [])

    traced = operator(check=check)
    rules = trace_rules(traced)
    ends = [end.value for end in leaves(rules.check[0].tree)]
    assert len(ends) == 3 and all(len(end or ()) <= 1 for end in ends)
    assert leaf_for(rules.check, {}, ((1, 1),)).value == (f"{OPEN}0{CLOSE} rows",)


def test_what_ranks_and_fields_alone_make_wrong_is_said_in_the_place_of_shapes() -> None:
    def check(fields: Fields, shapes: Mapping[str, Any]) -> list[str]:
        return [f"step {fields['step']} is more than 7"] if fields["step"] > 7 else []

    traced = operator(check=check)
    assert 'fail(sentence({"step ", int64_t{p.step}, " is more than 7"}));' in shape_body(trace_rules(traced))


def test_a_field_may_be_called_as_a_keyword_of_cpp() -> None:
    assert (field_member("default"), field_member("stride")) == ("default_", "stride")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_rules_of_ours_are_followed(op: OpDef) -> None:
    if op.name not in NOT_FOLLOWED:
        trace_rules(op)  # which compares with numbers
        return
    with pytest.raises(NotTracedError) as refused:
        trace_rules(op)
    assert NOT_FOLLOWED[op.name] in str(refused.value)


def program(op: OpDef) -> str:
    """Reads fields and shapes, and prints what the check says, or which shapes come out."""
    read = "\n".join(
        f"for (auto& e : p.{f.name}) std::cin >> e;" if f.kind.is_list else f"std::cin >> p.{f.name};"
        for f in op.fields
    )
    sized = """
        std::array<SizeBounds<int64_t>, kMaxPorts> bounds{};
        std::array<int64_t, kMaxPorts> sizes{};
        Op::sizes<int64_t>(p, in.data(), count, bounds.data());
        for (size_t i = 0; i < kMaxPorts; ++i) sizes[i] = bounds[i].most;
        Op::shape<int64_t>(p, in.data(), count, sizes.data(), out.data());"""
    return f"""
#include <iostream>
#include "definition.hpp"
using namespace trtsmith;
using Op = {op.name}Definition;
int main() {{
    Op::Params p{{}};
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
        const std::string fault = Op::check(p, t);
        if (!fault.empty()) {{ std::cout << fault << std::endl; continue; }}
        {sized if op.sizes else "Op::shape<int64_t>(p, in.data(), count, out.data());"}
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
    (tmp_path / "definition.hpp").write_text(definition_header(op))
    command = [os.environ.get("CXX", "g++"), *FLAGS]
    command += [f"-I{ROOT / 'plugins_cpp'}", f"-I{tmp_path}", str(tmp_path / "program.cpp")]
    built = subprocess.run([*command, "-o", str(tmp_path / "program")], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    given: list[str] = []
    expected: list[set[str]] = []
    for case in op.cases:
        generated = case.inputs(np.random.default_rng(7))
        right = {port.name: generated[port.name].shape for port in op.inputs if port.name in generated}
        for shapes in (right, *near(right)):
            given.append(line(op, case.fields, shapes))
            faults = op.check(case.fields, shapes)
            if faults:
                expected.append({*faults})
                continue
            sizes = {name: (most,) for name, most in op.bounds(case.fields, shapes).items()}
            made = op.shape(case.fields, {**shapes, **sizes})
            outputs = ("".join(f"{dim} " for dim in made[port.name]) for port in op.outputs)
            expected.append({"".join(f"{output}; " for output in outputs)})
    assert len({*map(frozenset, expected)}) > 2
    ran = subprocess.run([str(tmp_path / "program")], input="\n".join(given), capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    said = ran.stdout.splitlines()
    assert [text for text, right in zip(said, expected, strict=True) if text not in right] == []


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
