"""Bad input: a message in four parts, exit code 1 or 2, nothing written, nothing of the user's touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.models import convolution, inverse, relu, save, value

EVIL = "evil\x1b]0;title\x07\nerror: fake\x9b2J\r\u202e"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "o.plan").write_bytes(b"older engine")
    (tmp_path / "o.manifest.json").write_bytes(b"older manifest")
    relu(tmp_path / "relu.onnx")
    relu(tmp_path / "dynamic.onnx", ("n", 3))
    inverse(tmp_path / "inverse.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((1, 3), np.float32))
    return tmp_path


def external(location: str) -> Path:
    tensor = onnx.TensorProto(
        name="w", dims=[400], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    path = save(Path("m.onnx"), [oh.make_node("Add", ["x", "w"], ["y"])], [value("x", (400,))], [value("y", (400,))],
                {"w": np.zeros(1, np.float32)})  # fmt: skip
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(tensor)
    path.write_bytes(model.SerializeToString())
    return path


def written(data: bytes) -> Path:
    Path("m.onnx").write_bytes(data)
    return Path("m.onnx")


def one_node(op: str, domain: str = "", shape: tuple[int, ...] = (2, 2), **attributes: object) -> Path:
    node = oh.make_node(op, ["x"], ["y"], name="n", domain=domain, **attributes)
    return save(Path("m.onnx"), [node], [value("x", shape)], [value("y", None)])


def sequence() -> Path:
    s = oh.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [1])
    nodes = [oh.make_node("SequenceAt", ["s", "i"], ["y"], name="at")]
    return save(Path("m.onnx"), nodes, [s, value("i", (), TensorProto.INT64)], [value("y", (1,))])


def typed(op: str, *inputs: str) -> Path:
    """A node in a branch that reads x (float32) and i (int64)."""
    branch = oh.make_graph([oh.make_node(op, inputs, ["b"], name="n")], "branch", [], [value("b", None)])
    node = oh.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=branch)
    ins = [value("c", (), TensorProto.BOOL), value("x", (2,)), value("i", (2,), TensorProto.INT64)]
    return save(Path("m.onnx"), [node], ins, [value("y", None)])


def circle() -> Path:
    nodes = [oh.make_node("Add", ["x", "b"], ["a"], name="n1"), oh.make_node("Relu", ["a"], ["b"], name="n2")]
    return save(Path("m.onnx"), nodes, [value("x", (1,))], [value("b", (1,))])


MODELS: dict[str, tuple[Callable[[], object], int, str]] = {
    "missing": (lambda: "none.onnx", 2, "does not exist"),
    "folder": (lambda: "folder", 2, "is a folder"),
    "text": (lambda: written(b"a text"), 2, "is not an ONNX model"),
    "empty": (lambda: written(b""), 2, "is empty"),
    "truncated": (lambda: written(Path("relu.onnx").read_bytes()[:-9]), 2, "is truncated"),
    "data missing": (lambda: external("none.bin"), 2, "none.bin"),
    "data outside": (lambda: external("../../etc/passwd"), 2, "leaves the model's folder"),
    "long name": (lambda: "a" * 300, 2, "too long"),
    "operator nobody has": (lambda: one_node("Inverze", "com.microsoft"), 1, "did you mean 'Inverse', which"),
    "unknown attribute": (lambda: convolution(Path("m.onnx"), foo=1), 1, "unknown attribute 'foo' = 1"),
    "wrong attribute": (lambda: convolution(Path("m.onnx"), stride="a"), 1, "attribute 'stride' is 'a'"),
    "wrong rank": (lambda: convolution(Path("m.onnx"), rank=3), 1, "input 'x' has rank 3"),
    "wrong channels": (lambda: convolution(Path("m.onnx"), channels=5), 1, "weight[1] = 4, not 5"),
    "missing attribute": (
        lambda: one_node("DeformableConvolution", "trtsmith", stride=[1, 1]), 1, "is not connected"),
    "attribute of another kind": (
        lambda: one_node("DeformableConvolution", "trtsmith", stride=1), 1, "DeformableConvolution"),
    "not square": (lambda: one_node("Inverse", "com.microsoft", (2, 3)), 1, "not square: 2 x 3"),
    "sequence": (sequence, 1, "input 's' is not a tensor"),
    "strings": (lambda: save(Path("m.onnx"), [oh.make_node("Identity", ["x"], ["y"])],
                             [value("x", (1,), TensorProto.STRING)], [value("y", (1,), TensorProto.STRING)]),
                1, "input 'x' has strings"),
    "circle": (circle, 2, "The graph has a circle."),
    "no output": (lambda: save(Path("m.onnx"), [], [], []), 2, "has no output"),
    "output twice": (lambda: save(Path("m.onnx"), [oh.make_node("Relu", ["x"], ["y"])], [value("x", (1,))],
                                  [value("y", (1,))] * 2), 2, "2 outputs are called 'y'"),
    "missing initializer": (lambda: save(Path("m.onnx"), [oh.make_node("Add", ["x", "w"], ["y"], name="n")],
                                         [value("x", (1,))], [value("y", (1,))]), 2, "Nothing makes the value 'w'"),
    "unknown opset": (lambda: save(Path("m.onnx"), [oh.make_node("Relu", ["x"], ["y"])], [value("x", (1,))],
                                   [value("y", (1,))], opset=999), 2, "imports ONNX opset 999"),
    "two types": (lambda: typed("Add", "x", "i"), 2, "input 'i' (number 1) is int64, and input 'x' is float32"),
    "wrong type": (lambda: typed("Conv", "i", "i"), 2, "input 'i' (number 0) is int64"),
    "too many inputs": (lambda: typed("Neg", "x", "x"), 2, "the node has 2 inputs"),
    "control characters": (lambda: save(Path("m.onnx"), [oh.make_node(EVIL, ["x"], [EVIL], name=EVIL, domain=EVIL)],
                                        [value("x", (1,))], [value(EVIL, None)]), 1, r"\x1b]0;title\x07"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["check", "convert", "rewrite"])
@pytest.mark.parametrize("case", MODELS)
def test_models(case: str, command: str, cli: Cli, folder: Path) -> None:
    make, code, words = MODELS[case]
    model = make()
    before = snapshot(folder)
    arguments = [] if command == "check" else ["-o", "o.plan"]
    if command == "rewrite" and code == 1:
        return  # it writes a graph with what nobody has, and warns
    refused(cli(command, model, *arguments), code, words)
    assert snapshot(folder) == before


FLAGS: dict[str, tuple[list[str], int, str]] = {
    "output is a folder": (["relu.onnx", "-o", "folder"], 2, "the output is a folder"),
    "no output folder": (["relu.onnx", "-o", "none/o.plan"], 2, "mkdir -p none"),
    "output is the model": (["relu.onnx", "-o", "relu.onnx"], 2, "the output is the model itself"),
    "output cannot be written": (["relu.onnx", "-o", "/proc/o.plan"], 2, "cannot be written"),
    "output has a long name": (["relu.onnx", "-o", "a" * 300], 2, "File name too long"),
    "output is the library": (["inverse.onnx", "-o", "libtrtsmith_plugins.so"], 2, "two of the files"),
    "no shapes": (["dynamic.onnx", "-o", "o.plan"], 2, "--shapes x=1x3:1x3:8x3"),
    "malformed shapes": (["dynamic.onnx", "-o", "o.plan", "--shapes", "x=1x"], 2, "'x=1x' is not a shape"),
    "shapes of no input": (["dynamic.onnx", "-o", "o.plan", "--shapes", "z=1x3"], 2, "no input 'z'"),
    "shapes of a fixed input": (["relu.onnx", "-o", "o.plan", "--shapes", "x=2x3"], 2, "has the fixed shape"),
    "shapes of another rank": (["dynamic.onnx", "-o", "o.plan", "--shapes", "x=1"], 2, "rank 1, but"),
    "huge shapes": (["dynamic.onnx", "-o", "o.plan", "--shapes", "x=999999999999x3"], 2, "too large"),
    "min twice": (["dynamic.onnx", "-o", "o.plan", "--minShapes", "x:1x3,x:2x3"], 2, "given twice"),
    "control characters": (["dynamic.onnx", "-o", "o.plan", "--shapes", "\x1b[31m\x07"], 2, r"\x1b[31m\x07"),
    "no inputs": (["relu.onnx", "-o", "o.plan", "--inputs", "none.npz"], 2, "--inputs none.npz"),
    "inputs are a model": (["relu.onnx", "-o", "o.plan", "--inputs", "relu.onnx"], 2, "cannot be read"),
    "inputs of another model": (["inverse.onnx", "-o", "o.plan", "--inputs", "x.npz"], 2, "float32[2, 4, 4]"),
    "expected of another": (["relu.onnx", "-o", "o.plan", "--expected", "x.npz"], 2, "no array for output 'y'"),
    "rtol": (["relu.onnx", "-o", "o.plan", "--rtol", "abc"], 2, "'abc' is not a tolerance"),
    "rtol of no output": (["relu.onnx", "-o", "o.plan", "--rtol", "z:1"], 2, "the model has no output 'z'"),
    "target": (["relu.onnx", "-o", "o.plan", "--target", "foo"], 2, "'foo' is not a list of GPU targets"),
    "GPU of nobody": (["relu.onnx", "-o", "o.plan", "--target", "rtx4091"], 2, "did you mean RTX 4090 (sm89)"),
    "GPU of the data centre": (["relu.onnx", "-o", "o.plan", "--target", "H100"], 2, "An engine for sm90 (H100"),
    "no target": (["relu.onnx", "-o", "o.plan", "--target", ","], 2, "is not a list of GPU targets"),
    "target of nobody": (["relu.onnx", "-o", "o.plan", "--target", "sm1"], 2, "cannot build for sm1"),
    "plugins are no library": (["relu.onnx", "-o", "o.plan", "--plugins", "x.npz"], 2, "x.npz"),
    "no plugins": (["relu.onnx", "-o", "o.plan", "--plugins", "none.so"], 2, "there is no such file"),
    "report in no folder": (["relu.onnx", "-o", "o.plan", "--report", "none/r"], 2, "the report cannot be"),
    "report is a folder": (["relu.onnx", "-o", "o.plan", "--report", "folder"], 2, "the report is a folder"),
    "report is the model": (["relu.onnx", "-o", "o.plan", "--report", "relu.onnx"], 2, "would replace relu.onnx"),
    "report is the engine": (["relu.onnx", "-o", "o.plan", "--report", "o.plan"], 2, "would replace o.plan"),
    "report is the inputs": (
        ["relu.onnx", "-o", "o.plan", "--inputs", "x.npz", "--report", "x.npz"], 2, "would replace x.npz"),
    "timing cache is the model": (
        ["relu.onnx", "-o", "o.plan", "--timing-cache", "relu.onnx"], 2, "timing cache would replace relu.onnx"),
    "timing cache": (["relu.onnx", "-o", "o.plan", "--timing-cache", "folder"], 2, "cache is a folder"),
    "workspace": (["relu.onnx", "-o", "o.plan", "--workspace", "9" * 20], 2, "not a whole number from 1"),
    "workspace text": (["relu.onnx", "-o", "o.plan", "--workspace", "a"], 2, "'a' is not a whole number"),
    "timeout": (["relu.onnx", "-o", "o.plan", "--timeout", "nan"], 2, "'nan' is not a positive number"),
    "flavour": (["relu.onnx", "-o", "o.plan", "--flavour", "tensorrt"], 2, "tensorrt is not installed"),
    "unknown flag": (["relu.onnx", "-o", "o.plan", "--bogus"], 2, "unknown flag --bogus"),
    "abbreviated flag": (["relu.onnx", "-o", "o.plan", "--shape", "x=1"], 2, "did you mean --shapes?"),
    "no model": (["-o", "o.plan"], 2, "required: MODEL"),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAGS)
def test_flags_of_convert(case: str, cli: Cli, folder: Path) -> None:
    arguments, code, words = FLAGS[case]
    before = snapshot(folder)
    refused(cli("convert", *arguments), code, words)
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rewrite", "relu.onnx", "-o", "relu.onnx"], "own file relu.onnx"),
        (["rewrite", "relu.onnx", "-o", "folder"], "is a folder"),
        (["rewrite", "relu.onnx", "-o", "none/m.onnx"], "does not exist"),
        (["rewrite", "relu.onnx", "-o", "/proc/m.onnx"], "cannot be written"),
        (["rewrite", "relu.onnx", "-o", "m.onnx", "--expand", "--plugin-v2"], "not allowed with"),
        (["check", "relu.onnx", "--report", "relu.onnx"], "would replace relu.onnx"),
        (["check", "relu.onnx", "--plugins", "folder"], "folder"),
        (["plugin", "list", "none.so"], "there is no such file"),
        (["plugin", "inspect", "relu.onnx"], "relu.onnx"),
        (["plugin", "test", "x.npz"], "x.npz"),
        (["plugin", "test", "x.npz", "--timeout", "-1"], "not a positive number"),
        (["plugin"], "ACTION"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["-q"], "COMMAND"),
        (["ops", "-q", "-v"], "not allowed with"),
    ],
)
def test_other_commands(arguments: list[str], words: str, cli: Cli, folder: Path) -> None:
    before = snapshot(folder)
    refused(cli(*arguments), 2, words)
    assert snapshot(folder) == before


def test_all_problems_at_once(cli: Cli) -> None:
    nodes = [
        oh.make_node("Inverze", ["x"], ["a"], name="n1", domain="com.microsoft"),
        oh.make_node("Foo", ["a"], ["b"], domain="bar"),
        oh.make_node("MMCVDeformConv2d", ["b"], ["c"], name="", domain="mmcv"),
        oh.make_node("Inverse", ["x"], ["y"], name="n4", domain="com.microsoft"),
    ]
    save(
        Path("m.onnx"),
        nodes,
        [value("x", (2, 3)), value("s", (1,), TensorProto.STRING)],
        [value("y", None), value("c", None)],
    )
    for command in (["check", "m.onnx"], ["convert", "m.onnx", "-o", "o.plan"]):
        ran = cli(*command)
        refused(ran, 1, "'n1'", "bar::Foo", "'MMCVDeformConv2d_2'", "'n4'", "input 's' has strings")
        assert ran.err.count("error: ") == 5


def test_a_library_that_is_not_there(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_LIBRARY_DIR", str(folder / "folder"))
    before = snapshot(folder)
    refused(cli("convert inverse.onnx -o o.plan"), 2, "libtrtsmith_plugins.so is not there")
    refused(cli("plugin path"), 2, "pip install .")
    assert snapshot(folder) == before
    ran = cli("doctor")
    assert ran.code == 2 and "missing  trtsmith_host" in ran.out and "absent   trtsmith_plugins_v2" in ran.out


def test_what_tensorrt_refuses_is_said_of_the_users_file(cli: Cli, folder: Path) -> None:
    save(Path("m.onnx"), [oh.make_node("Relu", ["x"], ["y"], name="r", alpha="a")], [value("x", (2**20, 2**20, 2**20))],
         [value("y", None)])  # fmt: skip
    ran = cli("convert m.onnx -o o.plan --no-verify -q")
    refused(ran, 2, "m.onnx")
    assert "/trtsmith-" not in ran.err
    assert snapshot(folder)["o.plan"] == b"older engine"
