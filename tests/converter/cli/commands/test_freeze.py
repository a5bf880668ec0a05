"""Frozen inputs and shape tensors: stdout, stderr, exit code, and the resulting engine's inputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refused, refuses
from tests.converter.models import written

AXES = "(float[2,3] x, int64[1] axes) => (float[a,b] y) { y = ReduceMax (x, axes) }"
VIA = """(float[2,3] x, int32 k) => (float[a,b] y) <int64[1] m = {-1}>
    { i = Reshape (k, m)  j = Cast <to = 7> (i)  y = ReduceMax (x, j) }"""
RESHAPE = "(float[4,6] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }"
KINDS = """(bool b, float16 h, uint8[2] u, float[20] f) => (float[20] y)
    { c = Cast <to = 1> (b)  d = Cast <to = 1> (h)  e = Cast <to = 1> (u)  m = ReduceMax (e)  n = Add (c, d)
      o = Add (n, m)  y = Add (o, f) }"""


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    for name, text in (("axes", AXES), ("via", VIA), ("reshape", RESHAPE), ("kinds", KINDS)):
        written(here / f"{name}.onnx", text, opset=18)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez("axes.npz", x=x, axes=np.array([1]))
    np.savez("x.npz", x=x)
    np.savez("wrong.npz", x=x, axes=np.array([1], np.int32))
    np.savez("reshape.npz", x=np.arange(24, dtype=np.float32).reshape(4, 6), s=np.array([3, 8]))
    np.save("a.npy", np.array([0]))


CHECKED = """\
nodes  operator   route   how
1      ReduceMax  native  imported by TensorRT's ONNX parser
warning: input 'axes' is frozen to [1]: the engine is valid only for this value
1 native; every node has a route; building was not tried (--build)
"""


@pytest.mark.parametrize("flags", ["--freeze axes=[1]", "--inputs axes.npz"])
def test_check_says_what_is_frozen(flags: str, cli: Cli) -> None:
    ran = cli(f"check axes.onnx {flags}")
    assert (ran.code, ran.out, ran.err) == (0, CHECKED, "")
    document = json.loads(cli(f"check axes.onnx {flags} --json").out)
    assert document["frozen"] == [{"input": "axes", "dtype": "int64", "shape": [1], "value": "[1]"}]


@pytest.mark.parametrize(("model", "flag"), [("axes", "'axes=[0]'"), ("via", "k=0")])
@pytest.mark.parametrize("command", ["check", "convert", "rewrite"])
def test_without_a_value_the_flag_is_ready_made(command: str, model: str, flag: str, cli: Cli) -> None:
    output = [] if command == "check" else ["-o", "o.plan" if command == "convert" else "o.onnx"]
    ran = cli(command, f"{model}.onnx", *output)
    refused(ran, 1, f"--freeze {flag}", "at run time")
    done = cli(f"check {model}.onnx --freeze", flag.strip("'"))
    assert done.code == 0 and "every node has a route" in done.out


def test_rewrite_writes_a_graph_without_the_input(cli: Cli) -> None:
    ran = cli("rewrite via.onnx -o o.onnx -q --freeze k=1")
    assert (ran.code, ran.out) == (0, "o.onnx: 1 node rewritten\n")
    assert ran.err == "warning: input 'k' is frozen to 1: the engine is valid only for this value\n"
    assert [value.name for value in onnx.load("o.onnx").graph.input] == ["x"]


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        ("--freeze axes=[-1]", "[-1]"),
        ("--freeze axes=@a.npy", "[0]"),
        ("--inputs axes.npz", "[1]"),
    ],
)
def test_convert_compares_with_the_original_fed_the_frozen_values(flags: str, value: str, cli: Cli) -> None:
    ran = cli(f"convert axes.onnx -o e.plan -q {flags}")
    assert ran.code == 0 and "verdict: agree" in ran.out
    assert f"input 'axes' is frozen to {value}: " in ran.err
    manifest = json.loads(Path("e.manifest.json").read_text())
    assert [tensor["name"] for tensor in manifest["inputs"]] == ["x"]
    assert any("frozen" in warning for warning in manifest["warnings"])


def test_example_inputs_reach_into_functions(cli: Cli) -> None:
    text = """(float[2,3] x, int64[1] axes) => (float[a,b] y) { y = mine.most (x, axes) }
        <domain: "mine", opset_import: ["" : 18]> most (data, over) => (result) { result = ReduceMax (data, over) }"""
    written(Path("function.onnx"), text, opset=18)
    refused(cli("check function.onnx"), 1, "--freeze 'axes=[0]'")
    ran = cli("check function.onnx --inputs axes.npz")
    assert ran.code == 0 and "input 'axes' is frozen to [1]" in ran.out


def test_values_of_every_kind(cli: Cli) -> None:
    flags = ["b=true", "h=-0.5", "u=[0,255]", f"f={list(range(20))}"]
    ran = cli("check kinds.onnx", *(part for flag in flags for part in ("--freeze", flag)))
    assert ran.code == 0
    said = ("'b' is frozen to True", "'h' is frozen to -0.5", "'u' is frozen to [0, 255]", "of shape [20]")
    assert all(text in ran.out for text in said)


def test_shape_tensors_get_a_profile(cli: Cli) -> None:
    convert = "convert reshape.onnx -o e.plan -q"
    refused(cli(convert), 2, "--values 's=[1,1]:[1,1]:[8,8]'", "--freeze s=VALUE")
    ran = cli(f"{convert} --values s=[4,1]:[4,6]:[24,6]")
    assert ran.code == 4 and "y       4x6 " in ran.out, "x has 24 elements"
    assert "at the smallest size, s=[4,1], the original fails at node (Reshape)" in ran.out
    (_, tensor) = json.loads(Path("e.manifest.json").read_text())["inputs"]
    assert tensor["name"] == "s" and tensor["is_shape_tensor"]
    ran = cli(f"{convert} --inputs reshape.npz")
    assert ran.code == 0 and "y       3x8 " in ran.out
    assert "input 's' has the values [3, 8] of --inputs in the profile" in ran.err
    ran = cli(f"{convert} --freeze s=[2,12]")
    assert ran.code == 0 and "y       2x12 " in ran.out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--freeze axis=[1]", "no input 'axis'"),
        ("--freeze axes", "'axes' names no value"),
        ("--freeze axes=", "names no value"),
        ("--freeze =1", "names no value"),
        ("--freeze axes=abc", "'abc' is not a value"),
        ("--freeze axes=[[1],[2,3]]", "is not a value"),
        ("--freeze axes=__import__('os')", "is not a value"),
        (f"--freeze axes={'[' * 5000}", "is not a value"),
        ("--freeze axes=[1.5]", "[1.5] is not int64"),
        ("--freeze axes=[true]", "[true] is not int64"),
        ('--freeze axes=["a"]', "is not int64"),
        ("--freeze axes=[9223372036854775808]", "is not int64"),
        (f"--freeze axes=[{'9' * 9000}]", "is not int64"),
        ("--freeze axes=1", "is a scalar"),
        ("--freeze axes=[0,1]", "has shape [2]"),
        ("--freeze axes=[0] --freeze axes=[1]", "'axes' is frozen twice"),
        ("--freeze axes=@none.npy", "cannot be read"),
        ("--freeze axes=@axes.npz", "holds several arrays"),
        ("--freeze axes=@axes.onnx", "cannot be read"),
        ("--freeze x=@a.npy", "the value of 'x' is int64"),
        ("--freeze \x1b[31m=1", r"\x1b[31m"),
        ("--inputs none.npz", "--inputs none.npz"),
        ("--inputs wrong.npz", "the value of 'axes' is int32"),
    ],
)
def test_bad_values(flags: str, words: str, cli: Cli) -> None:
    refuses(cli, 2, f"convert axes.onnx -o o {flags}", words)


@pytest.mark.parametrize("command", ["check axes.onnx", "rewrite axes.onnx -o o"])
def test_every_command_refuses_bad_values(command: str, cli: Cli) -> None:
    refuses(cli, 2, f"{command} --freeze axes=[1.5]", "[1.5] is not int64")
    refuses(cli, 2, f"{command} --inputs wrong.npz", "the value of 'axes' is int32")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("s", "has values that are not whole numbers"),
        ("s=a", "has values that are not whole numbers"),
        ("s=[1,1]:[2,2]", "has values that are not whole numbers"),
        ("s=[1.5,1]", "has values that are not whole numbers"),
        ("s=[2,2]:[1,1]:[8,8]", "contradict"),
        ("s=[1]:[1,1]:[8,8]", "contradict"),
        ("s=[1]", "1 value given for input 's'"),
        ("s=[4,6] s=[4,6]", "given twice"),
        ("t=[4,6]", "no input 't'"),
        ("x=[4,6]", "input 'x' is float32"),
    ],
)
def test_bad_profile_values(flags: str, words: str, cli: Cli) -> None:
    given = " ".join(f"--values {flag}" for flag in flags.split())
    refused(cli(f"convert reshape.onnx -o o.plan {given}"), 2, words)


def test_values_of_an_input_that_decides_no_shape(cli: Cli) -> None:
    written(Path("add.onnx"), "(int64[2] s) => (int64[2] y) { y = Add (s, s) }")
    ran = cli("convert add.onnx -o o.plan --values s=[1,1] -q")
    refused(ran, ran.code, "decide no shape", "widen its range")
