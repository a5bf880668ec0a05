"""--trtsmith-rewrite and --trtsmith-reference: `polygraphy run` without a GPU."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.models import relu, written
from tests.converter.polygraphy_extension.polygraphy_runs import (
    CLOSE,
    SIZES,
    Polygraphy,
    deformed,
    passed,
    problem,
    script_of,
    strange,
)


def test_the_reference_agrees_with_onnxruntime_on_a_model_of_standard_operators(
    polygraphy: Polygraphy,
) -> None:
    model = relu(Path("r.onnx"), (2, 3))
    assert passed(polygraphy("run", model, "--trtsmith-reference", "--onnxrt", "--val-range", "[-1,1]"))


def test_the_reference_runs_what_onnxruntime_has_itself(
    polygraphy: Polygraphy, model: Path, inputs: Path
) -> None:
    ran = polygraphy("run", model, "--trtsmith-reference", "--onnxrt", "--load-inputs", inputs)
    assert passed(ran) and "2/2 iterations" in ran.out


def test_the_rewritten_graph_is_compared_with_the_original_on_a_custom_operator(
    polygraphy: Polygraphy,
) -> None:
    ran = polygraphy(
        "run", deformed(Path("t.onnx")), "--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt", *SIZES
    )
    assert passed(ran) and "dtype=float32, shape=(2, 5, 6, 7)" in ran.out


def test_a_wrong_rewriting_would_be_seen(polygraphy: Polygraphy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two runners run different graphs: an error in one of them fails the comparison."""
    from trtsmith.converter.rewrite import rewrite as module

    expand = module.expand

    def without_sigmoid(model):  # type: ignore[no-untyped-def]
        expanded = expand(model)
        proto = onnx.ModelProto()
        proto.CopyFrom(expanded.proto)
        for node in proto.graph.node:
            node.op_type = "Identity" if node.name == "sigmoid" else node.op_type
        return expanded.with_proto(proto)

    path = deformed(Path("t.onnx"))
    polygraphy("run", path, "--trtsmith-reference", *SIZES, "--save-outputs", "out.json")
    monkeypatch.setattr(module, "expand", without_sigmoid)
    ran = polygraphy("run", path, "--trtsmith-rewrite", "--onnxrt", *SIZES, "--load-outputs", "out.json")
    assert ran.code == 1 and "FAILED | Output: 'y'" in ran.out


def test_runners_before_the_option_get_the_model_as_it_is(polygraphy: Polygraphy, model: Path) -> None:
    script = script_of(polygraphy, model, "--onnxrt", "--trtsmith-rewrite", "--onnxrt")
    before, after = re.findall(r"^build_onnxrt_session\w* = SessionFromOnnx\((\w+)\)", script, re.M)
    loaders = dict(re.findall(r"^(\w+) = (.*)$", script, re.M))
    assert loaders[before] == "BytesFromOnnx(load_onnx)"
    assert loaders[after] == "BytesFromOnnx(expand_plugin_nodes)"
    assert loaders["expand_plugin_nodes"] == "ExpandPluginNodes(rewrite_for_tensorrt)"


def test_the_original_and_the_rewritten_graph_in_polygraphys_own_runner(
    polygraphy: Polygraphy, model: Path, inputs: Path
) -> None:
    ran = polygraphy("run", model, "--onnxrt", "--trtsmith-rewrite", "--onnxrt", "--load-inputs", inputs,
                     *CLOSE)  # fmt: skip
    assert passed(ran) and "All runners run the rewritten graph" not in ran.out


@pytest.mark.parametrize(
    ("runners", "words"),
    [
        (("--trtsmith-rewrite", "--onnxrt", "--trt"), "All runners run the rewritten graph"),
        (("--trtsmith-reference", "--onnxrt", "--trtsmith-rewrite"), "--trtsmith-rewrite has no effect"),
        (("--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt"), ""),
        (("--trtsmith-rewrite", "--onnxrt"), ""),
    ],
)
def test_a_comparison_that_says_nothing_is_warned_of(
    runners: tuple[str, ...], words: str, polygraphy: Polygraphy, model: Path
) -> None:
    ran = polygraphy("run", model, *runners, "--gen-script", "g.py")
    warned = [line for line in ran.out.splitlines() if line.startswith("[W]") and "rewr" in line]
    assert [words in line for line in warned] == ([True] if words else [])


def test_tensorrt_gets_plugin_nodes_and_our_library(polygraphy: Polygraphy, model: Path) -> None:
    script = script_of(polygraphy, model, "--trtsmith-rewrite", "--trt")
    assert "load_trtsmith_plugins = LoadTrtsmithPlugins(rewrite_for_tensorrt)" in script
    assert "NetworkFromOnnxBytes(serialize_onnx" in script


def test_the_rewritten_graph_is_what_save_onnx_saves(
    polygraphy: Polygraphy, model: Path, inputs: Path
) -> None:
    ran = polygraphy("run", model, "--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt", "--save-onnx", "s.onnx",
                     "--load-inputs", inputs, *CLOSE)  # fmt: skip
    assert passed(ran)
    assert [(n.domain, n.op_type) for n in onnx.load("s.onnx").graph.node][1] == ("trtsmith", "MatrixInverse")
    ran = polygraphy("run", model, "--trtsmith-reference", "--save-onnx", "o.onnx", "--load-inputs", inputs)
    assert ran.code == 0 and onnx.load("o.onnx").graph.node[1].op_type == "Inverse"


def test_more_outputs_are_marked_before_the_rewriting(
    polygraphy: Polygraphy, model: Path, inputs: Path
) -> None:
    ran = polygraphy("run", model, "--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt", "--load-inputs", inputs,
                     "--onnx-outputs", "n", "y", *CLOSE)  # fmt: skip
    assert passed(ran) and "Outputs: ['n', 'y']" in ran.out


def test_the_script_that_is_generated_runs(
    polygraphy: Polygraphy, model: Path, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt", "--load-inputs", inputs, *CLOSE)
    script_of(polygraphy, model, *words)
    runpy.run_path("g.py", run_name="__main__")
    assert "Pass Rate: 100.00%" in capsys.readouterr().out


def test_types_that_change_at_the_edges_are_told(polygraphy: Polygraphy) -> None:
    path = written(Path("d.onnx"), "(double[2,3] x) => (double[2,3] y) { y = Neg (x) }")
    ran = polygraphy("run", path, "--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt")
    assert ran.code == 0 and "'x' is float32 in the engine, float64 in the model" in ran.out


def test_the_model_runs_in_bfloat16_inputs_that_numpy_has_not() -> None:
    """Polygraphy is told of float32, and the values are those of the type."""
    import ml_dtypes
    from polygraphy.datatype import DataType

    from trtsmith.converter.polygraphy_extension.whole_models import metadata_of, to_polygraphy, to_types

    inputs = {"x": ("bfloat16", (None, 2)), "i": ("int64", (1,)), "b": ("bool", ())}
    assert [kind for kind, _ in metadata_of(inputs).values()] == [
        DataType.FLOAT32,
        DataType.INT64,
        DataType.BOOL,
    ]
    given = to_types({"x": np.full((1, 2), 1.01, np.float32)}, inputs)
    assert given["x"].dtype == ml_dtypes.bfloat16
    (back,) = to_polygraphy(given, {}).values()
    assert back.dtype == np.float32 and float(back[0, 0]) == float(ml_dtypes.bfloat16(1.01))


def test_tensors_of_pytorch_come_back_as_such(polygraphy: Polygraphy) -> None:
    ran = polygraphy("run", relu(Path("r.onnx"), (2, 3)), "--trtsmith-reference", "--onnxrt",
                     "--data-loader-backend-module", "torch")  # fmt: skip
    assert passed(ran)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.onnx", "--trtsmith-reference"), "The model file does not exist"),
        (("junk.onnx", "--trtsmith-reference"), "not an ONNX model"),
        (("junk.onnx", "--trtsmith-rewrite", "--onnxrt"), "not an ONNX model"),
        (("e.plan", "--trtsmith-reference"), "is not an ONNX model, but engine"),
        (("unknown.onnx", "--trtsmith-reference"), "it does not know nobody:Strange"),
        (("unknown.onnx", "--trtsmith-rewrite", "--onnxrt"), "onnxruntime does not know nobody::Strange"),
        (("m.onnx", "--trtsmith-rewrite", "--onnxrt", "--fp16", "--bf16"), "several precisions"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str, polygraphy: Polygraphy, model: Path) -> None:
    Path("junk.onnx").write_bytes(b"junk" * 9)
    strange(Path("unknown.onnx"), "s\x1b[31m")
    ran = polygraphy("run", *arguments)
    problem(ran, words)
    assert "\x1b" not in ran.out + ran.err


def test_inputs_that_do_not_fit_are_refused_by_polygraphy(polygraphy: Polygraphy, model: Path) -> None:
    from polygraphy.json import save_json

    save_json([{"x": np.zeros((2, 5), np.float32)}], "bad.json")
    ran = polygraphy("run", model, "--trtsmith-reference", "--load-inputs", "bad.json")
    assert ran.code == 1 and "Traceback" not in ran.err and "Cannot reuse input data" in ran.err


def test_what_tensorrt_will_not_import_is_warned_of(
    polygraphy: Polygraphy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless plugin libraries of the user's are named, which may have it."""
    from trtsmith.converter.polygraphy_extension.onnx_loaders import RewriteForTensorrt

    del polygraphy  # whose folder it is
    path = strange(Path("u.onnx"))
    for plugins, warned in ((None, True), (["mine.so"], False)):
        assert RewriteForTensorrt(str(path), plugins=plugins)().graph.node[0].op_type == "Strange"
        said = capsys.readouterr().out
        assert ("TensorRT will not import this" in said and "node 's' (nobody::Strange)" in said) is warned


def test_inputs_that_tensorrt_wants_constant_are_frozen(polygraphy: Polygraphy) -> None:
    words = ("--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt")
    text = "(float[2,3,4] x, int64[1] axes) => (float[2,4] y) { y = ReduceMean <keepdims = 0> (x, axes) }"
    written(Path("mean.onnx"), text, opset=18)
    ran = polygraphy("run", "mean.onnx", *words)
    problem(ran, "the axes ('axes') are fed at run time", "--trtsmith-freeze 'axes=[0]'")
    ran = polygraphy("run", "mean.onnx", *words, "--trtsmith-freeze", "axes=[1]", "--save-inputs", "in.json")
    assert passed(ran)
    from polygraphy.json import load_json

    assert [list(one) for one in load_json("in.json")] == [["x"]]
    ran = polygraphy("run", "mean.onnx", "--trtsmith-reference", "--trtsmith-freeze", "axes=[0.5]")
    problem(ran, "is not int64", "--trtsmith-freeze axes=[0.5]")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("--freeze 'axes=[0]'", "--trtsmith-freeze 'axes=[0]'"),
        (
            "--shapes x=1x4:2x4:8x4.",
            "--trt-min-shapes x:[1,4] --trt-opt-shapes x:[2,4] --trt-max-shapes x:[8,4].",
        ),
        (
            "--values s=[1,2]:[3,4]:[5,6]",
            "--trt-min-shapes s:[1,2] --trt-opt-shapes s:[3,4] --trt-max-shapes s:[5,6]",
        ),
        ("--precision fp16, --flavour tensorrt", "--fp16, --trtsmith-flavour tensorrt"),
        ("--plugins a.so --inputs x.npz", "--plugins a.so --inputs x.npz"),
    ],
)
def test_messages_name_the_options_of_polygraphy_run(ours: str, theirs: str) -> None:
    from trtsmith.converter.polygraphy_extension.polygraphy_log import with_polygraphys_flags

    assert with_polygraphys_flags(ours) == theirs


OPERATORS = """from tests.outside.mixing import CHANNEL_MIXING

OPERATORS = (CHANNEL_MIXING,)
"""


def test_operators_from_outside_are_known(polygraphy: Polygraphy) -> None:
    Path("mine.py").write_text(OPERATORS)
    weights = {"w": np.random.default_rng(2).standard_normal((3, 4, 1, 1)).astype(np.float32)}
    text = "(float[1,4,5,5] x) => (float[1,3,5,5] y) { [mix] y = trtsmith.ChannelMixing <gain = 2.0> (x, w) }"
    path = written(Path("m.onnx"), text, weights)
    words = ("run", path, "--trtsmith-reference", "--trtsmith-rewrite", "--onnxrt")
    problem(polygraphy(*words), "ChannelMixing")
    assert passed(polygraphy(*words, "--trtsmith-ops", "mine.py"))
    problem(polygraphy(*words, "--trtsmith-ops", "none.py"), "--trtsmith-ops none.py")
    script = script_of(
        polygraphy, *words[1:], "--trtsmith-ops", "mine.py", "--trtsmith-no-plugins-from-packages"
    )
    assert script.count("ops=['mine.py'], packages=False") == 3
