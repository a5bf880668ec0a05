"""Declarations of Triton kernels, their expressions and bindings: everything that needs no Triton."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.plugin.fixtures import ROOT, cuda_root, tensorrt_include
from trtsmith.converter.compile.definitions.traced_rules import trace_rules
from trtsmith.converter.compile.triton_kernels.binding_source import Compiled, binding_source
from trtsmith.converter.compile.triton_kernels.declaration_checks import DeclarationError
from trtsmith.converter.compile.triton_kernels.kernel_plan import (
    Argument,
    KernelPlan,
    plan_kernel,
    targets_of,
)
from trtsmith.converter.compile.triton_kernels.launch_expressions import (
    ExpressionError,
    LaunchScope,
    bare_name,
    condition,
    integers,
)
from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import by_name
from trtsmith.importers.triton_kernel import TritonKernel, Tuning

CONVOLUTION = by_name()["DeformableConvolution"]
"""An optional input, lists of integers."""
PARAMETERS = ("x", "offset", "weight", "bias", "output", "pixels", "across", "BLOCK")


def declared(**parts: Any) -> TritonKernel:
    whole: dict[str, Any] = {
        "kernel": None,
        "grid": "ceil_div(pixels, BLOCK), x.shape[0]",
        "arguments": {"pixels": "output.size", "across": "stride[1]"},
        "constants": {"BLOCK": 128},
        "multiples_of_16": ("pixels",),
    }
    return TritonKernel(**{**whole, **parts})


def plan(op: OpDef = CONVOLUTION, parameters: tuple[str, ...] = PARAMETERS, **parts: Any) -> KernelPlan:
    return plan_kernel(op, declared(**parts), parameters, parts.pop("annotations", {}))


def test_every_parameter_has_a_source() -> None:
    found = {argument.name: argument for argument in plan().arguments}
    assert list(found) == ["x", "offset", "weight", "bias", "output", "pixels", "across"]
    assert found["bias"] == Argument("bias", "pointer", port=3, optional=True)
    assert found["pixels"] == Argument("pixels", "int32", "elements(t.out[0])", often16=True)
    assert found["across"] == Argument("across", "int32", "int64_t{p.stride[1]}")


def test_annotations_and_offsets_decide_how_wide_integers_are() -> None:
    kinds = {argument.name: argument.kind for argument in plan(offsets="int64").arguments}
    assert kinds["pixels"] == kinds["across"] == "int64"
    annotated = plan_kernel(CONVOLUTION, declared(), PARAMETERS, {"pixels": "i64"})
    assert {a.name: a.kind for a in annotated.arguments}["pixels"] == "int64"


def test_variants_are_types_inputs_tunings_and_alignments() -> None:
    tunings = (
        Tuning({"BLOCK": 64}, when="pixels < 64"),
        Tuning({"BLOCK": 256}, dtypes=("float16",), since=90),
        Tuning({"BLOCK": 128}),
        Tuning({"BLOCK": 32}),
    )
    found = list(plan(tunings=tunings).variants(targets_of((86, 90))))
    assert len(found) == len({str((v.target, v.types, v.nb_inputs, v.tuning, v.aligned)) for v in found})
    taken = {
        (v.target.capability, v.types["T"]): sorted(
            {w.tuning for w in found if (w.target, w.types) == (v.target, v.types)}
        )
        for v in found
    }
    assert taken[86, "float16"] == [0, 2] and taken[90, "float32"] == [0, 2]
    assert taken[90, "float16"] == [0, 1], "nothing is taken behind the first that always holds"
    assert {v.nb_inputs for v in found} == {3, 4}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"arguments": {"across": "1"}}, "nothing says what the kernel's parameter 'pixels' gets"),
        ({"arguments": {"pixels": "1", "across": "1", "rows": "1"}}, "the kernel has no parameter 'rows'"),
        (
            {"arguments": {"pixels": "1", "across": "1", "BLOCK": "1"}},
            "'BLOCK' is an argument and a constant",
        ),
        ({"arguments": {"pixels": 1, "across": "1"}}, "it is of type int, not text"),
        ({"constants": {"BLOCK": [1]}}, "constant 'BLOCK' is a list"),
        ({"num_warps": 5}, "num_warps is 5"),
        ({"offsets": "int16"}, "offsets is 'int16'"),
        ({"tunings": (Tuning(dtypes=("float64",)),)}, "a tuning is for float64"),
        ({"tunings": (Tuning(when="BLOCK"),)}, "tunings[0].when is not an expression that can be computed"),
        ({"grid": "1, 2, 3, 4"}, "it has 4 parts"),
        ({"grid": "x"}, "'x' is a tensor"),
    ],
)
def test_what_does_not_fit(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        plan(**parts)
    assert words in refused.value.what
    assert refused.value.where and refused.value.expected and refused.value.fix


def test_types_that_a_plugin_cannot_pass() -> None:
    with pytest.raises(DeclarationError, match="'pixels' is of type fp64"):
        plan_kernel(CONVOLUTION, declared(), PARAMETERS, {"pixels": "fp64"})
    with pytest.raises(DeclarationError, match="outputs whose sizes depend on values"):
        plan(by_name()["NonZeroPositions"])


def bound(op: OpDef, folder: Path, **parts: Any) -> str:
    """The binding of an operator, with binaries that are none."""
    made = plan(op, **parts)
    targets = targets_of((86, 90))
    data = folder / 'with "quotes" and \\.bin'
    data.write_bytes(bytes(4096))
    images = [Compiled(v, "kernel", 64 * i, 4, 1024) for i, v in enumerate(made.variants(targets))]
    return binding_source(made, trace_rules(op), targets, images, data)


@pytest.mark.parametrize("interface", ["V3", "V2"])
@pytest.mark.parametrize("offsets", ["int32", "int64"])
def test_a_binding_compiles_without_a_warning(tmp_path: Path, interface: str, offsets: str) -> None:
    op = replace(CONVOLUTION, name="Bound")
    tunings = (Tuning({"BLOCK": 64}, when="not (pixels < 64 or BLOCK == 3)"), Tuning({"BLOCK": 128}))
    (tmp_path / "bound.cpp").write_text(bound(op, tmp_path, tunings=tunings, offsets=offsets))
    flags = "-std=c++20 -Wall -Wextra -Werror -Wno-deprecated-declarations -Wno-restrict -c"
    command = [
        os.environ.get("CXX", "g++"),
        *flags.split(),
        str(tmp_path / "bound.cpp"),
        "-o",
        str(tmp_path / "o"),
    ]
    command += [
        f"-I{ROOT / 'plugins_cpp'}",
        f"-isystem{cuda_root() / 'include'}",
        f"-isystem{tensorrt_include()}",
    ]
    command += ["-DTRTSMITH_PLUGIN_V2"] if interface == "V2" else []
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


SCOPE_OF = by_name()["DeformableConvolution"]
"""With inputs x, offset and weight of rank 4, an optional bias, and lists of integers as fields."""


def scope() -> LaunchScope:
    parameters = {
        "rows": "x.shape[0] * columns",
        "columns": "x.shape[-1]",
        "round": "again",
        "again": "round",
    }
    return LaunchScope(SCOPE_OF, parameters, frozenset({"BLOCK", "WIDTH"}))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("7", "int64_t{7}"),
        ("-2", "subtract(0, int64_t{2})"),
        ("x.shape[1] + 1", 'add(dimension(t.in[0], 1, "x"), int64_t{1})'),
        ("x.size // 2 % 3", "modulo(floorDivide(elements(t.in[0]), int64_t{2}), int64_t{3})"),
        ("min(BLOCK, 4) - max(WIDTH, BLOCK)", None),
        ("columns", 'dimension(t.in[0], -1, "x")'),
        ("rows", 'multiply(dimension(t.in[0], 0, "x"), dimension(t.in[0], -1, "x"))'),
        ("stride[1]", "int64_t{p.stride[1]}"),
        ("output.shape[0]", 'dimension(t.out[0], 0, "output")'),
        ("ceil_div(x.size, BLOCK)", "ceilDivide(elements(t.in[0]), constants[0])"),
    ],
)
def test_integers(text: str, written: str | None) -> None:
    (found,) = integers(text, scope())
    assert found == (written or "subtract(least(constants[0], int64_t{4}), most(constants[1], constants[0]))")


def test_a_grid_has_up_to_three_parts() -> None:
    assert integers("1, 2", scope(), (1, 3)) == ("int64_t{1}", "int64_t{2}")
    with pytest.raises(ExpressionError, match="it has 4 parts, not 1 to 3"):
        integers("1, 2, 3, 4", scope(), (1, 3))


def test_conditions() -> None:
    assert condition("", scope()) == "true"
    assert condition("1 < BLOCK <= 3", scope()) == "(int64_t{1} < constants[0] && constants[0] <= int64_t{3})"
    assert condition("not (1 == 2 or 3 != 4)", scope()) == (
        "!((int64_t{1} == int64_t{2}) || (int64_t{3} != int64_t{4}))"
    )


def test_names_with_an_index() -> None:
    assert bare_name("x") == ("x", None)
    assert bare_name(" stride[1] ") == ("stride", 1)
    assert bare_name("x.size") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__import__('os')", "is none of what an expression may hold"),
        ("(lambda: 1)()", "is none of what an expression may hold"),
        ("x.__class__", "is none of what an expression may hold"),
        ("x.shape", "is none of what an expression may hold"),
        ("x[0]", "'x' is no field that is a list of integers"),
        ("2 ** 9", "is none of what an expression may hold"),
        ("1.5", "is none of what an expression may hold"),
        ("True", "is none of what an expression may hold"),
        ("1 / 2", "is none of what an expression may hold"),
        ("min(1)", "min takes two arguments"),
        ("x", "'x' is a tensor; its sizes are x.shape"),
        ("nothing", "nothing is called 'nothing'"),
        ("nothing.shape[0]", "no input or output is called 'nothing'"),
        ("bias.shape[0]", "'bias' is optional"),
        ("x.shape[4]", "'x' has 4 dimensions; there is no x.shape[4]"),
        ("x.shape[BLOCK]", "`BLOCK` is not a whole number"),
        ("stride[2]", "field 'stride' has 2 numbers; there is no stride[2]"),
        ("stride", "field 'stride' is not one integer"),
        ("round", "round -> again -> round goes round in a circle"),
        ("9223372036854775808", "does not fit into 64 bits"),
        ("1 +", "it is not an expression"),
        ("a = 1", "it is not an expression"),
        ("", "it is not an expression"),
        ("(" * 40 + "1" + ")" * 40 + "+1" * 40, "it is nested too deeply"),
        ("1" + "+1" * 600, "it has more than 1000 characters"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        integers(text, scope())
    assert words in str(refused.value)


def test_a_condition_is_a_comparison() -> None:
    with pytest.raises(ExpressionError, match="`BLOCK` is not a comparison"):
        condition("BLOCK", scope())
    with pytest.raises(ExpressionError, match="is not a comparison"):
        condition("1 in 2", scope())
