"""Inputs that become constants, and shape tensors: stdout, stderr, exit code, and what the engine then has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import Cli, refused, snapshot

AXES = """<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x, int64[1] axes) => (float[a,b] y)
    { y = ReduceMax (x, axes) }"""
VIA = """<ir_version: 8, opset_import: ["" : 18]> g (float[2,3] x, int32 k) => (float[a,b] y) <int64[1] m = {-1}>
    { i = Reshape (k, m)  j = Cast <to = 7> (i)  y = ReduceMax (x, j) }"""
RESHAPE = '<ir_version: 8, opset_import: ["" : 18]> g (float[4,6] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }'
KINDS = """<ir_version: 8, opset_import: ["" : 18]> g (bool b, float16 h, uint8[2] u, float[20] f) => (float[20] y)
    { c = Cast <to = 1> (b)  d = Cast <to = 1> (h)  e = Cast <to = 1> (u)  m = ReduceMax (e)  n = Add (c, d)
      o = Add (n, m)  y = Add (o, f) }"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("axes", AXES), ("via", VIA), ("reshape", RESHAPE), ("kinds", KINDS)):
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{name}.onnx")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "axes.npz", x=x, axes=np.array([1]))
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "wrong.npz", x=x, axes=np.array([1], np.int32))
    np.savez(tmp_path / "reshape.npz", x=np.arange(24, dtype=np.float32).reshape(4, 6), s=np.array([3, 8]))
    np.save(tmp_path / "a.npy", np.array([0]))
    return tmp_path


CHECKED = """\
nodes  operator   route   how
1      ReduceMax  native  imported by TensorRT's ONNX parser
warning: input 'axes' is frozen to [1]: the engine holds for this value only
1 native; every node has a route; building was not tried (--build)
"""


@pytest.mark.parametrize("flags", [["--freeze", "axes=[1]"], ["--inputs", "axes.npz"]])
def test_check_says_what_is_frozen(flags: list[str], cli: Cli) -> None:
    ran = cli("check axes.onnx", *flags)
    assert (ran.code, ran.out, ran.err) == (0, CHECKED, "")
    document = json.loads(cli("check axes.onnx", *flags, "--json").out)
    assert document["frozen"] == [{"input": "axes", "dtype": "int64", "shape": [1], "value": "[1]"}]


@pytest.mark.parametrize(("model", "flag"), [("axes", "'axes=[0]'"), ("via", "k=0")])
@pytest.mark.parametrize("command", ["check", "convert", "rewrite"])
def test_without_a_value_the_flag_is_ready_made(command: str, model: str, flag: str, cli: Cli) -> None:
    output = [] if command == "check" else ["-o", "o.onnx"]
    ran = cli(command, f"{model}.onnx", *output)
    refused(ran, 1, f"--freeze {flag}", "at run time")
    done = cli(f"check {model}.onnx --freeze", flag.strip("'"))
    assert done.code == 0 and "every node has a route" in done.out


def test_rewrite_writes_a_graph_without_the_input(cli: Cli) -> None:
    ran = cli("rewrite via.onnx -o o.onnx -q --freeze k=1")
    assert (ran.code, ran.out) == (0, "o.onnx: 1 node rewritten\n")
    assert ran.err == "warning: input 'k' is frozen to 1: the engine holds for this value only\n"
    assert [value.name for value in onnx.load("o.onnx").graph.input] == ["x"]


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (["--freeze", "axes=[-1]"], "[-1]"),
        (["--freeze", "axes=@a.npy"], "[0]"),
        (["--inputs", "axes.npz"], "[1]"),
    ],
)
def test_convert_compares_with_the_original_fed_the_frozen_values(
    flags: list[str], value: str, cli: Cli
) -> None:
    ran = cli("convert axes.onnx -o e.plan -q", *flags)
    assert ran.code == 0 and "verdict: agree" in ran.out
    assert f"input 'axes' is frozen to {value}: " in ran.err
    manifest = json.loads(Path("e.manifest.json").read_text())
    assert [tensor["name"] for tensor in manifest["inputs"]] == ["x"]
    assert any("frozen" in warning for warning in manifest["warnings"])


def test_example_inputs_reach_into_functions(cli: Cli) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18, "mine" : 1]> g (float[2,3] x, int64[1] axes) => (float[a,b] y)
        { y = mine.most (x, axes) }
        <domain: "mine", opset_import: ["" : 18]> most (data, over) => (result) { result = ReduceMax (data, over) }"""
    onnx.save(onnx.parser.parse_model(text), "function.onnx")
    refused(cli("check function.onnx"), 1, "--freeze 'axes=[0]'")
    ran = cli("check function.onnx --inputs axes.npz")
    assert ran.code == 0 and "input 'axes' is frozen to [1]" in ran.out


def test_values_of_every_kind(cli: Cli) -> None:
    flags = ["b=true", "h=-0.5", "u=[0,255]", f"f={list(range(20))}"]
    ran = cli("check kinds.onnx", *(part for flag in flags for part in ("--freeze", flag)))
    assert ran.code == 0
    for said in (
        "'b' is frozen to True",
        "'h' is frozen to -0.5",
        "'u' is frozen to [0, 255]",
        "of shape [20]",
    ):
        assert said in ran.out


def test_shape_tensors_get_a_profile(cli: Cli) -> None:
    flags = ["convert", "reshape.onnx", "-o", "e.plan", "-q"]
    refused(cli(*flags), 2, "--values 's=[1,1]:[1,1]:[8,8]'", "--freeze s=VALUE")
    ran = cli(*flags, "--values", "s=[4,1]:[4,6]:[24,6]")
    assert ran.code == 3 and "y       4x6 " in ran.out, "x has 24 elements"
    assert "at the smallest size, s=[4,1], the original fails at node (Reshape)" in ran.out
    (_, tensor) = json.loads(Path("e.manifest.json").read_text())["inputs"]
    assert tensor["name"] == "s" and tensor["is_shape_tensor"]
    ran = cli(*flags, "--inputs", "reshape.npz")
    assert ran.code == 0 and "y       3x8 " in ran.out
    assert "input 's' has the values [3, 8] of --inputs in the profile" in ran.err
    ran = cli(*flags, "--freeze", "s=[2,12]")
    assert ran.code == 0 and "y       2x12 " in ran.out


BAD: dict[str, tuple[list[str], str]] = {
    "unknown input": (["--freeze", "axis=[1]"], "no input 'axis'"),
    "no value": (["--freeze", "axes"], "'axes' names no value"),
    "empty value": (["--freeze", "axes="], "names no value"),
    "no name": (["--freeze", "=1"], "names no value"),
    "nonsense": (["--freeze", "axes=abc"], "'abc' is not a value"),
    "ragged": (["--freeze", "axes=[[1],[2,3]]"], "is not a value"),
    "code": (["--freeze", "axes=__import__('os')"], "is not a value"),
    "deep": (["--freeze", "axes=" + "[" * 5000], "is not a value"),
    "fraction": (["--freeze", "axes=[1.5]"], "[1.5] is not int64"),
    "boolean": (["--freeze", "axes=[true]"], "[true] is not int64"),
    "text": (["--freeze", 'axes=["a"]'], "is not int64"),
    "too large": (["--freeze", "axes=[9223372036854775808]"], "is not int64"),
    "far too large": (["--freeze", f"axes=[{'9' * 9000}]"], "is not int64"),
    "rank": (["--freeze", "axes=1"], "is a scalar"),
    "length": (["--freeze", "axes=[0,1]"], "has shape [2]"),
    "twice": (["--freeze", "axes=[0]", "--freeze", "axes=[1]"], "'axes' is frozen twice"),
    "no file": (["--freeze", "axes=@none.npy"], "cannot be read"),
    "archive": (["--freeze", "axes=@axes.npz"], "holds several arrays"),
    "model": (["--freeze", "axes=@axes.onnx"], "cannot be read"),
    "file of another type": (["--freeze", "x=@a.npy"], "the value of 'x' is int64"),
    "control characters": (["--freeze", "\x1b[31m=1"], r"\x1b[31m"),
    "no inputs": (["--inputs", "none.npz"], "--inputs none.npz"),
    "inputs of another type": (["--inputs", "wrong.npz"], "the value of 'axes' is int32"),
}


@pytest.mark.parametrize("command", ["check", "rewrite", "convert"])
@pytest.mark.parametrize("case", BAD)
def test_bad_values(case: str, command: str, cli: Cli, folder: Path) -> None:
    flags, words = BAD[case]
    output = [] if command == "check" else ["-o", "o"]
    before = snapshot(folder)
    refused(cli(command, "axes.onnx", *output, *flags), 2, words)
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["s"], "gives no values"),
        (["s=a"], "gives no values"),
        (["s=[1,1]:[2,2]"], "gives no values"),
        (["s=[1.5,1]"], "gives no values"),
        (["s=[2,2]:[1,1]:[8,8]"], "contradict"),
        (["s=[1]:[1,1]:[8,8]"], "contradict"),
        (["s=[1]"], "1 values are given for input 's'"),
        (["s=[4,6]", "s=[4,6]"], "given twice"),
        (["t=[4,6]"], "no input 't'"),
        (["x=[4,6]"], "input 'x' is float32"),
    ],
)
def test_bad_profile_values(flags: list[str], words: str, cli: Cli) -> None:
    given = (part for flag in flags for part in ("--values", flag))
    refused(cli("convert reshape.onnx -o o.plan", *given), 2, words)


def test_values_of_an_input_that_decides_no_shape(cli: Cli) -> None:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (int64[2] s) => (int64[2] y) { y = Add (s, s) }'
    onnx.save(onnx.parser.parse_model(text), "add.onnx")
    ran = cli("convert add.onnx -o o.plan --values s=[1,1] -q")
    refused(ran, ran.code, "decide no shape")
