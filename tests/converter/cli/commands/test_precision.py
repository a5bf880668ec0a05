"""--precision on the command line: messages, files, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import trtsmith
from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.models import written
from tests.converter.rewrite.precision.networks import normal


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """(float[N,8] x) => (float[N,8] y) {
        [first] a = MatMul (x, w) [soft] b = Softmax <axis = 0> (a) [second] y = MatMul (b, w) }"""
    return written(tmp_path / "m.onnx", text, {"w": normal(8, 8)})


@pytest.mark.parametrize(("flag", "name"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_convert_builds_reports_and_proves(
    model: Path, tmp_path: Path, cli: Cli, flag: str, name: str
) -> None:
    engine, report = tmp_path / "m.plan", tmp_path / "r.json"
    arguments = ["--precision", flag, "--shapes", "x=2x8", "--report", report, "--flavour", "tensorrt_rtx"]
    ran = cli("convert -q", model, "-o", engine, *arguments, "--target", "sm86")
    assert ran.code == 0, ran.err
    assert f"precision: 2 nodes in {name}, 1 kept in float32 (1 × its result grows exponentially)" in ran.out
    assert f"in {flag} against the original" in ran.out
    manifest = json.loads((tmp_path / "m.manifest.json").read_text())
    kept = [{"node": "soft", "op_type": "Softmax", "reason": "its result grows exponentially"}]
    assert manifest["precision"] == flag
    assert manifest["precision_report"]["kept"] == kept
    assert json.loads(report.read_text())["precision"]["kept"] == kept
    assert [t["dtype"] for t in (*manifest["inputs"], *manifest["outputs"])] == ["float32", "float32"]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("half", "float16"),
        ("float16", "float16"),
        ("FP16", "float16"),
        ("bfloat16", "bfloat16"),
        ("BF16", "bfloat16"),
    ],
)
def test_a_precision_by_another_name(model: Path, cli: Cli, alias: str, name: str) -> None:
    ran = cli("check", model, "--precision", alias)
    assert ran.code == 0 and f"precision: 2 nodes in {name}" in ran.out
    report = trtsmith.check(model, precision=alias).rewritten.precision  # type: ignore[arg-type]
    assert report is not None and report.precision == name


def test_verbose_lists_the_nodes_that_stay_in_float32(model: Path, tmp_path: Path, cli: Cli) -> None:
    ran = cli("convert -v", model, "-o", tmp_path / "m.plan", "--precision", "fp16", "--shapes", "x=2x8")
    assert ran.code == 0 and "soft (Softmax): its result grows exponentially" in ran.out


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        ("fp16", "no node in float16: the model has no matrix product and no convolution"),
        ("fp32", "every node is in float32 already"),
    ],
)
def test_a_precision_that_changes_nothing_says_why(
    precision: str, said: str, tmp_path: Path, cli: Cli
) -> None:
    model = written(tmp_path / "p.onnx", "(float[2,8] x) => (float[2,8] y) { h = Relu (x) y = Tanh (h) }", {})
    ran = cli("convert -q", model, "-o", tmp_path / "e.plan", "--precision", precision)
    assert ran.code == 0 and f"precision: {said}" in ran.out


def test_a_network_that_overflows_is_not_said_to_be_in_float16(tmp_path: Path, cli: Cli) -> None:
    """One warning names the value; the flag that it offers reaches both products."""
    text = "(float[1,8] x) => (float[1,8] y) { [first] h = MatMul (x, w) [last] y = MatMul (h, v) }"
    weights = {"w": normal(8, 8, scale=1e6), "v": normal(8, 8, scale=1e-6)}
    model = written(tmp_path / "over.onnx", text, weights)
    arguments = ["-o", tmp_path / "e.plan", "--flavour", "tensorrt_rtx", "--target", "sm86", "--force"]
    ran = cli("convert -q", model, *arguments, "--precision", "fp16")
    said = [line for line in ran.err.splitlines() if "matrix products and convolutions" in line]
    assert ran.code == 0 and len(said) == 1 and said[0].startswith("warning: 0 of 2 matrix products"), ran.err
    assert "'h' reached " in said[0] and "float16 ends at 65504 (first); --precision bf16" in said[0]
    assert "precision: 0 nodes in float16" in ran.out and "in fp16" not in ran.out
    ran = cli("convert -q", model, *arguments, "--precision", "bf16")
    assert ran.code == 0 and "matrix products" not in ran.err and "in bf16 against the original: " in ran.out


def test_a_half_file_that_overflows_is_right_in_float32(tmp_path: Path, cli: Cli) -> None:
    """The graph in float32 is compared, not the one in the file's own types, which has infinities."""
    text = "(float16[2,8] x) => (float16[2,8] y) { h = MatMul (x, w) p = Mul (h, h) y = Div (p, c) }"
    weights = {"w": normal(8, 8, scale=300).astype(np.float16), "c": np.array(3e4, np.float16)}
    model = written(tmp_path / "half.onnx", text, weights)
    arguments = ["-o", tmp_path / "e.plan", "--flavour", "tensorrt_rtx", "--target", "sm86", "--force"]
    own = cli("convert -q", model, *arguments)
    assert own.code == 4 and "not comparable" in own.out and "--precision fp16 or fp32" in own.out, own.out
    ran = cli("convert -q", model, *arguments, "--precision", "fp32")
    assert ran.code == 0 and "verdict: agree (graph only)" in ran.out, ran.out


def test_all_commands_try_the_range_on_generated_inputs(tmp_path: Path, cli: Cli) -> None:
    """check, rewrite and convert choose the same nodes, without a comparison, too."""
    text = "(float[N,8] x) => (float[N,8] y) { [first] h = MatMul (x, w) [last] y = MatMul (h, v) }"
    weights = {"w": normal(8, 8, scale=3e4), "v": normal(8, 8, scale=1e-4)}
    flags = (written(tmp_path / "m.onnx", text, weights), "--shapes", "x=2x8", "--precision", "fp16")
    told = "(MatMul): 'h' reached "
    for command in ("check -v", "rewrite -v", "convert -v --dry-run"):
        ran = cli(command, *flags, *(["-o", tmp_path / "out.onnx"] if command == "rewrite -v" else []))
        assert ran.code == 0 and f"in float32: first {told}" in ran.out + ran.err, ran
    types = {t.name: t.data_type for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert set(types.values()) == {onnx.TensorProto.FLOAT}
    engine = ["-o", tmp_path / "m.plan", "--flavour", "tensorrt_rtx", "--target", "sm86", "--no-verify"]
    assert cli("convert -q", *flags, *engine).code == 0
    kept = json.loads((tmp_path / "m.manifest.json").read_text())["precision_report"]["kept"]
    assert [one["node"] for one in kept] == ["first", "last"]


def test_one_warning_names_the_generated_values_that_float16_was_tried_on(tmp_path: Path, cli: Cli) -> None:
    """A convolution reads 0 to 1, and overflows on pixels up to 255: the flag that is offered finds it."""
    text = "(float[1,3,32,32] images, int64[1] k, float[N,8] more) => (float[1,4,32,32] y, int64[1] j, float[N,8] m) {"
    text += " [conv] y = Conv (images, w) [next] j = Add (k, k) [neg] m = Neg (more) }"
    model = written(tmp_path / "m.onnx", text, {"w": np.full((4, 3, 1, 1), 100, np.float32)})
    flags = (model, "--precision", "fp16", "--shapes", "more=2x8")
    engine = ("-o", tmp_path / "m.plan", "--flavour", "tensorrt_rtx", "--target", "sm86", "--force")
    for command, more in (("check", ()), ("rewrite", engine[:2]), ("convert -q", engine)):
        ran = cli(command, *flags, *more)
        told = [line for line in (ran.out + ran.err).splitlines() if "generated inputs only" in line]
        assert len(told) == 1 and told[0].startswith("warning: "), ran
        assert re.search(
            r"\('images' from 0\.\d+ to 0\.\d+, 'more' from -\S+ to \S+\): .*--inputs FILE.npz", told[0]
        )
        assert "in float32: conv" not in ran.out + ran.err
    drawn = json.loads((tmp_path / "m.manifest.json").read_text())["precision_report"]["drawn"]
    assert set(drawn) == {"images", "more"} and drawn["images"][1] <= 1
    assert "generated" not in cli("check", model, "--precision", "bf16", "--shapes", "more=2x8").out
    pixels = np.full((1, 3, 32, 32), 255, np.float32)
    np.savez(tmp_path / "in.npz", images=pixels, k=np.ones(1, np.int64), more=normal(2, 8))
    ran = cli("check -v", *flags, "--inputs", tmp_path / "in.npz")
    assert "in float32: conv (Conv): 'y' reached" in ran.out and "generated" not in ran.out


def test_a_range_that_was_not_tried_is_told(model: Path, tmp_path: Path, cli: Cli) -> None:
    line = "ranges: whether values fit float16 was not tried: the sizes of the inputs are not known; give --shapes"
    ran = cli("check", model, "--precision", "fp16")
    assert ran.code == 0 and f"{line} or --inputs" in ran.out.splitlines()
    assert "ranges:" not in cli("check", model, "--precision", "bf16").out
    assert "ranges:" not in cli("check", model, "--precision", "fp16", "--shapes", "x=2x8").out
    np.savez(tmp_path / "in.npz", x=normal(2, 8))
    assert "ranges:" not in cli("check", model, "--precision", "fp16", "--inputs", tmp_path / "in.npz").out


def test_the_interface_s_types_reach_the_manifest(model: Path, tmp_path: Path, cli: Cli) -> None:
    arguments = ["--precision", "fp16", "--io-precision", "--shapes", "x=2x8", "--flavour", "tensorrt_rtx"]
    ran = cli("convert -q", model, "-o", tmp_path / "m.plan", *arguments, "--target", "sm86")
    assert ran.code == 0, ran.err
    manifest = json.loads((tmp_path / "m.manifest.json").read_text())
    assert [t["dtype"] for t in (*manifest["inputs"], *manifest["outputs"])] == ["float16", "float16"]
    assert {io["name"]: (io["before"], io["after"]) for io in manifest["io_types"]} == {
        "x": ("float32", "float16"), "y": ("float32", "float16"),
    }  # fmt: skip
    assert "'x' is float16 in the engine" in ran.err


def test_check_and_rewrite_say_the_same(model: Path, tmp_path: Path, cli: Cli) -> None:
    line = "precision: 2 nodes in float16, 1 kept in float32 (1 × its result grows exponentially), 4 Casts inserted"
    ran = cli("check", model, "--precision", "fp16", "-v")
    assert ran.code == 0 and line in ran.out
    assert "in float32: soft (Softmax): its result grows exponentially" in ran.out
    asked = cli("check", model, "--precision", "fp16", "--json")
    assert json.loads(asked.out)["precision"]["reduced"] == 2
    written = cli("rewrite", model, "-o", tmp_path / "out.onnx", "--precision", "fp16")
    assert written.code == 0 and line in written.err
    types = {t.name: t.data_type for t in onnx.load(tmp_path / "out.onnx").graph.initializer}
    assert set(types.values()) == {onnx.TensorProto.FLOAT16}
    plain = cli("check", model)
    assert "precision" not in plain.out


def test_long_sums_stay_in_float32_where_tensorrt_rtx_gets_the_graph(tmp_path: Path, cli: Cli) -> None:
    text = "(float[2,512] x) => (float[2,8] y) { [wide] y = MatMul (x, w) }"
    path = written(tmp_path / "m.onnx", text, {"w": normal(512, 8)})
    told = "in float32: wide (MatMul): a sum of many products, for which TensorRT-RTX has float16 and no more"
    for flags, kept in (
        ("--flavour tensorrt_rtx", False),
        ("--flavour tensorrt_rtx --accumulate fp32", True),
        ("--flavour tensorrt_rtx --accumulate fp16", False),
        ("--flavour tensorrt", False),
    ):
        ran = cli(f"check {path} --precision fp16 -v {flags}")
        assert ran.code == 0 and (told in ran.out) is kept
    flags = "--precision fp16 --accumulate fp32 --flavour tensorrt_rtx --target sm86"
    ran = cli(f"convert -q {path} -o {tmp_path / 'm.plan'} {flags}")
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "m.manifest.json").read_text())["precision_report"]
    assert [kept["node"] for kept in report["kept"]] == ["wide"]


def test_inputs_show_what_float16_does_not_hold(model: Path, tmp_path: Path, cli: Cli) -> None:
    np.savez(tmp_path / "in.npz", x=normal(2, 8) * np.float32(1e5))
    ran = cli("check", model, "--precision", "fp16", "--inputs", tmp_path / "in.npz", "-v")
    assert "in float32: first (MatMul): 'x' reached" in ran.out and "65504" in ran.out
    assert "second" not in "".join(line for line in ran.out.splitlines() if line.startswith("in float32"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--keep-fp32", "Conv"], 2, ["--keep-fp32 has no effect without --precision"]),
        (["--io-precision"], 2, ["--io-precision has no effect without --precision"]),
        (["--precision", "fp32", "--keep-fp32", "first"], 2, ["with --precision fp32"]),
        (["--precision", "bf16", "--accumulate", "fp16"], 2, ["add --precision fp16, or remove"]),
        (
            ["--precision", "fp16", "--calibration", "c.npz"],
            2,
            ["add --precision int8, or remove --calibration"],
        ),
        (["--precision", "fp16", "--keep-fp32", "frist"], 2, ["'frist'", "did you mean 'first'?"]),
        (["--precision", "int8"], 2, ["int8 needs samples for its calibration", "--calibration samples.npz"]),
        (["--precision", "fp64"], 2, ["invalid choice"]),
    ],
)
def test_refusals(
    model: Path,
    tmp_path: Path,
    cli: Cli,
    arguments: list[str],
    code: int,
    words: list[str],
) -> None:
    before = snapshot(tmp_path)
    refused(cli("check", model, *arguments), code, *words)
    converted = cli("convert", model, "-o", tmp_path / "m.plan", "--shapes", "x=2x8", *arguments)
    refused(converted, code, *words)
    assert snapshot(tmp_path) == before


def test_an_old_opset_that_cannot_be_converted_is_refused(tmp_path: Path, cli: Cli) -> None:
    branch = "b () => (float[2,8] r) { r = Relu (x) }"
    node = f"[choose] y = If (c) <then_branch = {branch}, else_branch = {branch}>"
    path = written(tmp_path / "m.onnx", f"(float[2,8] x, bool c) => (float[2,8] y) {{ {node} }}", opset=11)
    refused(cli("check", path, "--precision", "bf16"), 1, "opset 11", "'choose' (If)", "opset 13")
    assert cli("check", path, "--precision", "fp16").code == 0


def test_a_model_s_own_q_and_dq_are_told_and_held_to_onnxruntime_exactly(tmp_path: Path, cli: Cli) -> None:
    weights = {"s": np.array(0.05, np.float32), "z": np.array(0, np.int8), "w": normal(8, 8)}
    text = """(float[2,8] x) => (float[2,8] y) {
        [q] q = QuantizeLinear (x, s, z) [d] d = DequantizeLinear (q, s, z) [m] y = MatMul (d, w) }"""
    path = written(tmp_path / "q.onnx", text, weights)
    arguments = ["--precision", "int8", "--flavour", "tensorrt_rtx", "--target", "sm86"]
    ran = cli("convert -q", path, "-o", tmp_path / "q.plan", *arguments)
    assert ran.code == 0, ran.err
    assert "precision: 1 node in int8, by the model's own QuantizeLinear and DequantizeLinear" in ran.out
    manifest = json.loads((tmp_path / "q.manifest.json").read_text())
    assert manifest["precision"] == "fp32" and manifest["precision_report"]["own"]
    verdict = manifest["verdict"]
    assert "allowed" not in verdict["reason"] and verdict["comparisons"][0]["relative"] < 1e-5


def test_a_graph_with_plugins_that_nobody_named_is_written_in_the_precision(tmp_path: Path, cli: Cli) -> None:
    text = "(float[8,8] x) => (float[8,8] y) { [product] c = MatMul (x, w) [theirs] y = their.Theirs (c) }"
    model = written(tmp_path / "m.onnx", text, {"w": normal(8, 8)})
    ran = cli("rewrite", model, "-o", tmp_path / "r.onnx", "--precision", "fp16")
    assert ran.code == 0 and "TensorRT will refuse the graph" in ran.err
    types = {tensor.data_type for tensor in onnx.load(tmp_path / "r.onnx").graph.initializer}
    assert types == {onnx.TensorProto.FLOAT16}


def test_an_output_beyond_float16_is_told_so_and_either_advice_helps(tmp_path: Path, cli: Cli) -> None:
    text = "(float[2, 8] x) => (float[2, 8] y) <float k = {2e5}> { y = Mul (x, k) }"
    words = ["convert -q", written(tmp_path / "big.onnx", text), "-o", tmp_path / "e.plan", "--force"]
    wrong = cli(*words, "--precision", "fp16", "--io-precision")
    assert wrong.code == 3
    assert (
        "\nnext: float16 ends at 65504: leave --io-precision out, or use --precision bf16 for 'y'\n"
        in wrong.out
    )
    assert cli(*words, "--precision", "fp16").code == 0
    assert cli(*words, "--precision", "bf16", "--io-precision").code == 0
