"""Bad input gives a message in four parts and exit code 1 or 2; nothing is written or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.cli.commands.running import Cli, refused, refuses, snapshot
from tests.converter.models import convolution, inverse, relu, save, value, written

M = Path("m.onnx")
EVIL = "evil\x1b]0;title\x07\nerror: fake\x9b2J\r\u202e"


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    (here / "folder").mkdir()
    (here / "o.plan").write_bytes(b"older engine")
    (here / "o.manifest.json").write_bytes(b"older manifest")
    relu(here / "relu.onnx")
    relu(here / "dynamic.onnx", ("n", 3))
    inverse(here / "inverse.onnx")
    np.savez(here / "x.npz", x=np.ones((1, 3), np.float32))
    np.savez(here / "y.npz", y=np.ones((1, 3), np.int64))
    np.savez(here / "many.npz", x=np.ones((20, 3), np.float32))


def external(location: str) -> None:
    model = onnx.load(written(M, "(float[400] x) => (float[400] y) { y = Add (x, w) }"))
    tensor = onnx.TensorProto(
        name="w", dims=[400], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    model.graph.initializer.append(tensor)
    M.write_bytes(model.SerializeToString())


def evil() -> None:
    node = oh.make_node(EVIL, ["x"], [EVIL], name=EVIL, domain=EVIL)
    save(M, [node], [value("x", (1,))], [value(EVIL, None)])


def twice() -> None:
    save(M, [oh.make_node("Relu", ["x"], ["y"])], [value("x", (1,))], [value("y", (1,))] * 2)


def in_branches(node: str) -> str:
    """A node in both branches, which reads x (float32) and i (int64)."""
    branch = f"g () => (float[] b) {{ b = {node} }}"
    node = f"If (c) <then_branch = {branch}, else_branch = {branch}>"
    return f"(bool c, float[2] x, int64[2] i) => (float[] y) {{ y = {node} }}"


FILES = [
    ("none.onnx", "does not exist"),
    ("folder", "is a folder"),
    (b"a text", "The file is text"),
    (b"", "is empty"),
    (lambda: M.write_bytes(Path("relu.onnx").read_bytes()[:-9]), "is truncated"),
    (lambda: external("none.bin"), "none.bin"),
    (lambda: external("../../etc/passwd"), "leaves the model's folder"),
    ("a" * 300, "too long"),
    ("(float[1] x) => (float[1] b) { a = Add (x, b) b = Relu (a) }", "The graph has a cycle."),
    (lambda: save(M, [], [], []), "has no output"),
    (twice, "2 outputs are called 'y'"),
    ("(float[1] x) => (float[1] y) { y = Add (x, w) }", "No node computes the value 'w'"),
    (
        lambda: written(M, "(float[1] x) => (float[1] y) { y = Relu (x) }", opset=999),
        "imports ONNX opset 999",
    ),
    (in_branches("Add (x, i)"), "input 'i' (number 1) is int64, and input 'x' is float32"),
    (in_branches("Conv (i, i)"), "input 'i' (number 0) is int64"),
    (in_branches("Neg (x, x)"), "the node has 2 inputs"),
]
GRAPHS = [
    ("(float[2,2] x) => (float[] y) { y = com.microsoft.Inverze (x) }", "did you mean 'Inverse', which"),
    (lambda: convolution(M, foo=1), "unknown attribute 'foo' = 1"),
    (lambda: convolution(M, stride="a"), "attribute 'stride' is 'a'"),
    (lambda: convolution(M, rank=3), "input 'x' has rank 3"),
    (lambda: convolution(M, channels=5), "weight[1] = 4, not 5"),
    (
        "(float[2,2] x) => (float[] y) { y = trtsmith.DeformableConvolution <stride = [1, 1]> (x) }",
        "is not connected",
    ),
    (
        "(float[2,2] x) => (float[] y) { y = trtsmith.DeformableConvolution <stride = 1> (x) }",
        "DeformableConvolution",
    ),
    ("(float[2,3] x) => (float[] y) { y = com.microsoft.Inverse (x) }", "not square: 2 x 3"),
    ("(seq(float[1]) s, int64 i) => (float[1] y) { y = SequenceAt (s, i) }", "input 's' is not a tensor"),
    ("(string[1] x) => (string[1] y) { y = Identity (x) }", "input 'x' has strings"),
    (evil, r"\x1b]0;title\x07"),
]
CASES = [(make, 2, words) for make, words in FILES] + [(make, 1, words) for make, words in GRAPHS]


@pytest.mark.parametrize("command", ["check", "convert", "rewrite"])
@pytest.mark.parametrize(("make", "code", "words"), CASES)
def test_models(make: Any, code: int, words: str, command: str, cli: Cli) -> None:
    if command == "rewrite" and code == 1:
        return  # it writes a graph with what nobody has, and warns
    model = "m.onnx"
    if callable(make):
        make()
    elif isinstance(make, bytes):
        M.write_bytes(make)
    elif "=>" in make:
        written(M, make)
    else:
        model = make
    refuses(cli, code, f"{command} {model}" + " -o o.plan --force" * (command != "check"), words)


def test_constants_beyond_float16_give_no_warning_of_numpy(
    cli: Cli, recwarn: pytest.WarningsRecorder
) -> None:
    body = "{ a = MatMul (x, w) k = Abs (a) m = Mul (a, k) b = Div (m, c) d = MatMul (b, w) y = Tanh (d) }"
    weights = {"c": np.float32(1e8), "w": np.random.default_rng(0).random((64, 64), np.float32)}
    written(M, f"(float[4, 64] x) => (float[4, 64] y) {body}", weights)
    cli(f"convert {M} --precision fp16 --keep-only --keep-fp32 Tanh -o o.plan --force")
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("convert relu.onnx -o folder", "the output is a folder"),
        ("convert relu.onnx -o none/o.plan", "mkdir -p none"),
        ("convert relu.onnx -o relu.onnx", "the output is the model itself"),
        ("convert relu.onnx -o other.onnx", "-o other.plan"),
        ("convert relu.onnx -o /proc/o.plan", "cannot be written"),
        (f"convert relu.onnx -o {'a' * 300}", "File name too long"),
        ("convert inverse.onnx -o libtrtsmith_plugins.so", "two of the files"),
        ("convert dynamic.onnx -o o.plan --force", "--shapes x=1x3:1x3:8x3"),
        ("convert dynamic.onnx --shapes x=1x -o o.plan --force", "'x=1x' is not a shape"),
        ("convert dynamic.onnx --shapes z=1x3 -o o.plan --force", "no input 'z'"),
        ("convert relu.onnx --shapes x=2x3 -o o.plan --force", "has the fixed shape"),
        ("convert dynamic.onnx --shapes x=1 -o o.plan --force", "rank 1, but"),
        ("convert dynamic.onnx --shapes x=999999999999x3 -o o.plan --force", "too large"),
        ("convert dynamic.onnx --minShapes x:1x3,x:2x3 -o o.plan --force", "given twice"),
        ("convert dynamic.onnx -o o.plan --force --shapes \x1b[31m\x07", r"\x1b[31m\x07"),
        ("convert relu.onnx --inputs none.npz -o o.plan --force", "--inputs none.npz"),
        ("convert relu.onnx --inputs relu.onnx -o o.plan --force", "cannot be read"),
        ("convert inverse.onnx --inputs x.npz -o o.plan --force", "float32[2, 4, 4]"),
        ("convert relu.onnx --inputs x.npz --expected x.npz -o o.plan --force", "no array for output 'y'"),
        (
            "convert relu.onnx --inputs x.npz --expected x.npz -o o.plan --force",
            "these are the model's inputs",
        ),
        ("convert relu.onnx --expected y.npz -o o.plan --force", "outputs are given without their inputs"),
        (
            "convert relu.onnx --expected y.npz -o o.plan --force --no-verify",
            "outputs are given without their inputs",
        ),
        (
            "convert relu.onnx --inputs x.npz --expected y.npz -o o.plan --force",
            "is int64, and the model's is float32",
        ),
        (
            "convert dynamic.onnx --inputs many.npz --shapes x=1x3:2x3:4x3 -o o.plan --force",
            "--shapes x=1x3:2x3:20x3",
        ),
        ("convert relu.onnx --rtol abc -o o.plan --force", "'abc' is not a tolerance"),
        ("convert relu.onnx --rtol z:1 -o o.plan --force", "the model has no output 'z'"),
        ("convert relu.onnx --target foo -o o.plan --force", "'foo' is not a list of GPU targets"),
        ("convert relu.onnx --target rtx4091 -o o.plan --force", "did you mean RTX 4090 (sm89)"),
        ("convert relu.onnx --target gtx1080 -o o.plan --force", "TensorRT-RTX begins with Turing (sm75)"),
        ("convert relu.onnx --target H100 -o o.plan --force", "An engine for sm90 (H100"),
        ("convert relu.onnx --target , -o o.plan --force", "is not a list of GPU targets"),
        ("convert relu.onnx --target sm1 -o o.plan --force", "cannot build for sm1"),
        ("convert inverse.onnx --target v100 -o o.plan --force", "expected: GPUs from Turing (sm75) on"),
        ("convert relu.onnx --target v100 -o o.plan --force", "An engine for sm70 (V100"),
        ("convert relu.onnx --plugins x.npz -o o.plan --force", "x.npz"),
        ("convert relu.onnx --plugins none.so -o o.plan --force", "there is no such file"),
        ("convert relu.onnx --report none/r -o o.plan --force", "the report cannot be"),
        ("convert relu.onnx --report folder -o o.plan --force", "the report is a folder"),
        ("convert relu.onnx --report relu.onnx -o o.plan --force", "would replace relu.onnx"),
        ("convert relu.onnx -o o.plan --force --report o.plan", "would replace o.plan"),
        ("convert relu.onnx --inputs x.npz --report x.npz -o o.plan --force", "would replace x.npz"),
        (
            "convert relu.onnx --timing-cache relu.onnx -o o.plan --force",
            "timing cache would replace relu.onnx",
        ),
        ("convert relu.onnx --timing-cache folder -o o.plan --force", "cache is a folder"),
        ("convert relu.onnx --workspace 99999999999999999999 -o o.plan --force", "not a whole number from 1"),
        ("convert relu.onnx --workspace a -o o.plan --force", "'a' is not a whole number"),
        ("convert relu.onnx --workspace 4GiB -o o.plan --force", "did you mean 4096?"),
        ("convert relu.onnx --workspace 4G -o o.plan --force", "limit of TensorRT's workspace in MiB"),
        ("convert relu.onnx --target rtx9999 -o o.plan --force", "--query-gpu=compute_cap"),
        ("convert relu.onnx --target rtx9999 -o o.plan --force", "where:    --target rtx9999\n"),
        ("convert relu.onnx --timeout nan -o o.plan --force", "'nan' is not a positive number"),
        ("convert relu.onnx --flavour tensorrt -o o.plan --force", "tensorrt is not installed"),
        ("convert relu.onnx --bogus -o o.plan --force", "unknown flag --bogus"),
        ("convert relu.onnx --shape x=1 -o o.plan --force", "did you mean --shapes?"),
        ("convert -o o.plan --force", "required: MODEL"),
        ("rewrite relu.onnx -o relu.onnx", "would replace relu.onnx"),
        ("rewrite relu.onnx -o folder", "fix:      -o folder/rewritten.onnx\n"),
        ("rewrite relu.onnx -o none/m.onnx", "cannot be written: No such"),
        ("rewrite relu.onnx -o none/in/m.onnx", "fix:      mkdir -p none/in\n"),
        ("rewrite relu.onnx -o /proc/m.onnx", "cannot be written"),
        ("rewrite relu.onnx -o m.onnx --expand --plugin-v2", "not allowed with"),
        ("rewrite relu.onnx -o m.onnx --for openvino", "invalid choice: 'openvino'"),
        ("check relu.onnx --report relu.onnx", "would replace relu.onnx"),
        ("check relu.onnx --plugins folder", "folder"),
        ("convert folder", "`trtsmith batch folder` converts all models of a folder\n"),
        ("batch nope", "expected: a zoo's file: TOML in UTF-8; or a folder of models\n"),
        ("verify relu.plan relu.onnx", "fix:      write relu.onnx before relu.plan\n"),
        ("plugin list none.so", "there is no such file"),
        ("plugin inspect relu.onnx", "relu.onnx"),
        ("plugin test x.npz", "x.npz"),
        ("plugin test x.npz --timeout -1", "not a positive number"),
        ("plugin", "ACTION"),
        ("nonsense", "invalid choice: 'nonsense'"),
        ("-q", "COMMAND"),
        ("ops -q -v", "leave one of the two out"),
    ],
)
def test_flags(arguments: str, words: str, cli: Cli) -> None:
    refuses(cli, 2, arguments, words)


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ('"precision": "fp17"', ("'fp17' is not a value of precision", 'where:    r.json: precision="fp17"')),
        ('"optimization_level": 9', ("9 is not a value of optimization_level",)),
        ('"keep_only": true', ("r.json: keep_only=True", 'fix:      add precision="fp16"')),
        ('"precision": "fp16", "keep_fp32": ["gone"]', ("'gone'", "where:    r.json: keep_fp32 gone\n")),
        ('"keep-fp32": ["gone"]', ("did you mean 'keep_fp32'?",)),
        ('"precision": "fp16", "keep_fp32": "gone"', ("'gone'", "where:    r.json: keep_fp32 gone\n")),
        (
            '"keep_fp32": 3',
            ("at `choices.keep_fp32`", 'one such as {"choices": {"precision": "fp16", "keep_fp32": ['),
        ),
    ],
)
def test_mistakes_in_a_recipe_are_told_by_its_keys(
    choices: str, words: tuple[str, ...], dry: list[str], cli: Cli
) -> None:
    Path("r.json").write_text(f'{{"choices": {{{choices}}}}}')
    ran = cli("convert", "relu.onnx", "-o", "o.plan", "--force", "--recipe", "r.json", *dry)
    refused(ran, 2, *words)
    assert "--precision" not in ran.err and "--keep" not in ran.err


def test_a_dry_run_plans_by_the_recipe(cli: Cli) -> None:
    Path("r.json").write_text('{"choices": {"precision": "fp16"}}')
    ran = cli("convert relu.onnx --dry-run --recipe r.json")
    assert ran.code == 0 and "float16" in ran.out, ran
    Path("r.json").write_text('{"choices": {"precision": "fp16", "keep_fp32": "Relu"}}')
    assert (
        "1 kept in float32 (1 × --keep-fp32 Relu)" in cli("convert relu.onnx --dry-run --recipe r.json").out
    )


def test_all_problems_at_once(cli: Cli) -> None:
    graph = """(float[2,3] x, string[1] s) => (float[] y, float[] c) {
        [n1] a = com.microsoft.Inverze (x)  b = bar.Foo (a)  c = mmcv.MMCVDeformConv2d (b)
        [n4] y = com.microsoft.Inverse (x) }"""
    written(M, graph)
    for command in ("check m.onnx", "convert m.onnx -o o.plan --force"):
        ran = cli(command)
        refused(ran, 1, "'n1'", "bar::Foo", "'MMCVDeformConv2d_2'", "'n4'", "input 's' has strings")
        assert ran.err.count("error: ") == 5


def test_a_library_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_LIBRARY_DIR", str(Path("folder").absolute()))
    refuses(cli, 2, "convert inverse.onnx -o o.plan --force", "libtrtsmith_plugins.so is missing")
    refuses(cli, 2, "plugin path", "pip install .")
    ran = cli("doctor")
    assert ran.code == 2 and "missing  trtsmith_host" in ran.out and "absent   trtsmith_plugins_v2" in ran.out


def test_what_tensorrt_refuses_is_said_of_the_users_file(cli: Cli) -> None:
    written(M, '(float[1048576,1048576,1048576] x) => (float[] y) { y = Relu <alpha = "a"> (x) }')
    ran = cli("convert m.onnx -o o.plan --force --no-verify -q")
    refused(ran, 2, "m.onnx")
    assert "/trtsmith-" not in ran.err
    assert snapshot()["o.plan"] == b"older engine"
