"""onnxruntime's operators: those without a CPU kernel against their definitions, and models that onnxruntime saved."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxcoverage.examples import example_feeds, expected_outputs
from tests.converter.rewrite.rules.transformer_models import HEADS, HIDDEN, encoder, encoder_inputs
from tests.converter.rewrite.running import (
    assert_close,
    dynamic_inputs,
    engine_size,
    fixed,
    loaded,
    problems_of,
)
from tests.converter.verify.judging import judged_graph
from tests.rule_examples import examples_of
from tests.rule_examples.example import Example
from tests.rule_examples.stock.pytorch_oracle import by_torch
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run
from trtsmith.converter.model.ort_kernels import without_kernel
from trtsmith.converter.rewrite.rewrite import expand, reference, rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.verify.sensitivity import with_own_definitions

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def group_norm(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray, groups: int, epsilon: float
) -> np.ndarray:
    """Channels last."""
    first = x.transpose(0, 3, 1, 2)
    made = by_torch("group_norm", first, num_groups=groups, weight=scale, bias=shift, eps=epsilon)
    return made.transpose(0, 2, 3, 1)


def softmax(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


X, S, B = random(2, 3, 8), random(2, 3, 8), random(8)
IMAGE, ROW, SCALE, SHIFT = random(2, 5, 3, 8), random(2, 8), random(8), random(8)
WEIGHTS, LAST = random(6, 2, 3, 2), random(1, 9, 7, 4)
WAVES, SPECTRUM = random(3, 10), random(3, 6, 2)


def convolved() -> np.ndarray:
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 9, 7] x, float[6, 2, 3, 2] w) => (float[] y) '
        "{ y = Conv <group = 2, pads = [1, 0, 1, 1], strides = [2, 1]> (x, w) }"
    )
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    return session.run(None, {"x": LAST.transpose(0, 3, 1, 2), "w": WEIGHTS})[0].transpose(0, 2, 3, 1)


def complex_spectrum() -> np.ndarray:
    return SPECTRUM[..., 0] + 1j * SPECTRUM[..., 1]


NORMAL = group_norm(IMAGE, SCALE, SHIFT, 4, 0.01)
TOTAL = IMAGE + ROW[:, None, None] + B
SKIPPED = group_norm(TOTAL, SCALE, SHIFT, 2, 1e-5)
RMS = 1 / np.sqrt((X**2).mean((1, 2), keepdims=True) + 0.01)
CONV = "<group = 2, pads = [1, 0, 1, 1], strides = [2, 1], kernel_shape = [3, 2]"

CASES = {
    "BiasAdd": ("y = com.microsoft.BiasAdd (x, b, s)", {"x": X, "b": B, "s": S}, {"y": X + B + S}),
    "BiasDropout": (
        "y, m = com.microsoft.BiasDropout (x, b, s)",
        {"x": X, "b": B, "s": S},
        {"y": X + B + S, "m": np.ones(X.shape, bool)},
    ),
    "BiasSoftmax": (
        "y = com.microsoft.BiasSoftmax <axis = 2, is_inner_broadcast = 1> (x, b)",
        {"x": X, "b": X[:, :1]},
        {"y": softmax(X + X[:, :1], 2)},
    ),
    "BiasSoftmax of two axes": (
        "y = com.microsoft.BiasSoftmax <axis = 1, is_inner_broadcast = 0> (x, b)",
        {"x": X, "b": S[:1]},
        {"y": softmax(X + S[:1], (1, 2))},
    ),
    "BiasSplitGelu": (
        "y = com.microsoft.BiasSplitGelu (x, b)",
        {"x": X, "b": B},
        {"y": (X + B)[..., :4] * by_torch("gelu", (X + B)[..., 4:])},
    ),
    "GroupNorm": (
        "y = com.microsoft.GroupNorm <groups = 4, epsilon = 0.01, activation = 1> (x, g, b)",
        {"x": IMAGE, "g": SCALE, "b": SHIFT},
        {"y": by_torch("silu", NORMAL)},
    ),
    "GroupNorm, channels first": (
        "y = com.microsoft.GroupNorm <groups = 4, epsilon = 0.01, activation = 0, channels_last = 0> (x, g, b)",
        {"x": IMAGE.transpose(0, 3, 1, 2), "g": SCALE, "b": SHIFT},
        {"y": NORMAL.transpose(0, 3, 1, 2)},
    ),
    "SkipGroupNorm": (
        "y, s = com.microsoft.SkipGroupNorm <groups = 2, activation = 0> (x, g, h, r, b)",
        {"x": IMAGE, "g": SCALE, "h": SHIFT, "r": ROW, "b": B},
        {"y": SKIPPED, "s": TOTAL},
    ),
    "NhwcConv": (f"y = com.microsoft.NhwcConv {CONV}> (x, w)", {"x": LAST, "w": WEIGHTS}, {"y": convolved()}),
    "NhwcFusedConv": (
        f'y = com.microsoft.NhwcFusedConv {CONV}, activation = "Relu"> (x, w)',
        {"x": LAST, "w": WEIGHTS},
        {"y": np.maximum(convolved(), 0)},
    ),
    "Rfft": (
        "y = com.microsoft.Rfft <signal_ndim = 1> (x)",
        {"x": WAVES},
        {"y": np.stack([(f := np.fft.rfft(WAVES)).real, f.imag], -1)},
    ),
    "Irfft": (
        "y = com.microsoft.Irfft <signal_ndim = 1> (x)",
        {"x": SPECTRUM},
        {"y": np.fft.irfft(complex_spectrum())},
    ),
    "SimplifiedLayerNormalization": (
        "y, d = SimplifiedLayerNormalization <axis = 1, epsilon = 0.01> (x, s)",
        {"x": X, "s": S[0]},
        {"y": X * RMS * S[0], "d": RMS},
    ),
    "Attention without a bias": (
        "y = com.microsoft.Attention <num_heads = 1> (x, w)",
        {"x": X, "w": np.eye(8, 24, 0, np.float32) + np.eye(8, 24, 8, np.float32) + np.eye(8, 24, 16, np.float32)},
        {"y": softmax(X @ X.transpose(0, 2, 1) / 8**0.5, 2) @ X},
    ),
    "MultiHeadAttention, packed": (
        "y = com.microsoft.MultiHeadAttention <num_heads = 1> (x)",
        {"x": np.stack([X, S, X], 2)[:, :, None]},
        {"y": softmax(X @ S.transpose(0, 2, 1) / 8**0.5, 2) @ X},
    ),
}  # fmt: skip


def opened(
    folder: Path, call: str, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray], opset: int
) -> Model:
    def listed(values: dict[str, np.ndarray]) -> str:
        types = {"float32": "float", "bool": "bool", "float64": "float"}
        return ", ".join(
            f"{types[str(v.dtype)]}[{', '.join(map(str, v.shape))}] {n}" for n, v in values.items()
        )

    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    g ({listed(inputs)}) => ({listed(outputs)}) {{ {call} }}"""
    return loaded(text, folder)


@pytest.mark.parametrize("opset", [12, 20])
@pytest.mark.parametrize("name", CASES)
def test_what_only_other_providers_run(name: str, opset: int, tmp_path: Path) -> None:
    call, inputs, outputs = CASES[name]
    result = rewrite(opened(tmp_path, call, inputs, outputs, opset))
    assert plan(result).convertible
    assert not any(node.domain for node in result.model.proto.graph.node)
    assert_close(run(expand(result.model), inputs), outputs, rtol=1e-4, atol=1e-5)
    if opset == 20:
        assert engine_size(result, tmp_path) > 0


def op_type_of(call: str) -> str:
    return call.split("= ")[1].split()[0].removeprefix("com.microsoft.")


@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if without_kernel("com.microsoft", op_type_of(c[0]))]
)
def test_our_definition_is_the_reference_and_is_said_to_be(name: str, tmp_path: Path) -> None:
    """The session cannot be created, and the verdict was "not comparable"."""
    call, inputs, outputs = CASES[name]
    model = opened(tmp_path, call, inputs, outputs, 17)
    with pytest.raises(ConversionError):
        open_session(model)
    assert_close(run(reference(model), inputs), outputs, rtol=1e-4, atol=1e-5)
    verdict = judged_graph(model, rewrite(model).model, inputs)
    assert verdict.passed and verdict.references == ()
    told = with_own_definitions(model, verdict).reason
    assert (
        f"; onnxruntime has no com.microsoft::{op_type_of(call)}: both sides use trtsmith's definition"
        in told
    )


def test_operators_that_onnxruntime_runs_stay_in_the_reference(tmp_path: Path) -> None:
    """One rule writes GroupNorm and SkipLayerNormalization: only the first has no kernel."""
    norm = "n = com.microsoft.GroupNorm <activation = 0, groups = 4, channels_last = 1> (x, g, b)"
    call = f"{norm}  y = com.microsoft.QuickGelu (n)"
    inputs = {"x": IMAGE, "g": SCALE, "b": SHIFT}
    model = opened(tmp_path, call, inputs, {"y": IMAGE}, 17)
    kinds = {node.op_type for node in reference(model).proto.graph.node}
    assert "QuickGelu" in kinds and "GroupNorm" not in kinds


def saved_by_onnxruntime(path: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path.with_suffix(".saved.onnx"))
    onnxruntime.InferenceSession(str(path), options)
    return path.with_suffix(".saved.onnx")


def saved_by_its_transformers(path: Path) -> Path:
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    found = optimizer.optimize_model(str(path), "bert", HEADS, HIDDEN, opt_level=0)
    found.save_model_to_file(str(path.with_suffix(".fused.onnx")))
    return path.with_suffix(".fused.onnx")


@pytest.mark.parametrize(
    ("optimise", "opset"),
    [
        *((saved_by_onnxruntime, opset) for opset in (11, 13, 18)),
        *((saved_by_its_transformers, opset) for opset in (11, 18)),
    ],
)
def test_an_encoder_that_was_optimised_converts(optimise: object, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "encoder.onnx"
    onnx.save(encoder(opset=opset), path)
    expected = run(load_model(path), encoder_inputs())["states"]
    optimised = optimise(path)  # type: ignore[operator]
    fused = {node.op_type for node in onnx.load(optimised).graph.node if node.domain == "com.microsoft"}
    assert "BiasGelu" in fused
    result = rewrite(load_model(optimised))
    assert plan(result).convertible
    assert not any(node.domain == "com.microsoft" for node in result.model.proto.graph.node)
    for inputs in (encoder_inputs(), encoder_inputs(1, 9)):
        expected = run(load_model(path), inputs)["states"]
        got = run(expand(result.model), inputs)["states"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    profile = dict.fromkeys(("ids", "kinds", "mask"), Profile((1, 2), (2, 5), (4, 12)))
    assert engine_size(result, tmp_path, profile) > 0


DECODER = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[B, S, 64] q, float[B, S, 32] k, float[B, S, 32] v, float[B, 2, P, 16] pk, float[B, 2, P, 16] pv, int64[B, T] mask,
   float[32, 8] c, float[32, 8] s) => (float[B, S, 64] y, float[B, 2, T, 16] nk, float[B, 2, T, 16] nv) {
    axes = Constant <value = int64[1] {1}> ()
    one = Constant <value = int64[1] {1}> ()
    counted = ReduceSum <keepdims = 0> (mask, axes)
    last_wide = Sub (counted, one)
    last = Cast <to = 6> (last_wide)
    shape = Shape (mask)
    total_wide = Gather (shape, one)
    total = Cast <to = 6> (total_wide)
    y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
        (q, k, v, pk, pv, last, total, c, s)
}"""


def decoder_inputs(batch: int, tokens: int, past: int, padding: int = 0) -> dict[str, np.ndarray]:
    mask = np.ones((batch, past + tokens), np.int64)
    mask[-1, mask.shape[1] - padding :] = 0
    return {
        "q": random(batch, tokens, 64), "k": random(batch, tokens, 32), "v": random(batch, tokens, 32),
        "pk": random(batch, 2, past, 16), "pv": random(batch, 2, past, 16), "mask": mask,
        "c": random(32, 8), "s": random(32, 8),
    }  # fmt: skip


@pytest.mark.parametrize("sizes", [(2, 1, 6), (1, 3, 4), (2, 5, 0), (2, 4, 0, 2)])
def test_one_decoder_for_prompts_and_tokens(sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Lengths come from the mask, as decoders have them; of a prompt's padding only the cache is defined."""
    model = loaded(DECODER, tmp_path)
    result = rewrite(model)
    assert plan(result).convertible
    inputs = decoder_inputs(*sizes)
    expected, got = run(model, inputs), run(expand(result.model), inputs)
    if len(sizes) > 3:
        expected["y"][-1, -sizes[3] :] = got["y"][-1, -sizes[3] :]
    assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_tensorrt_builds_the_decoder_for_every_length(tmp_path: Path) -> None:
    shapes = [
        {n: a.shape for n, a in decoder_inputs(*sizes).items()}
        for sizes in ((1, 1, 1), (1, 1, 8), (2, 8, 16))
    ]
    profiles = {n: Profile(*(s[n] for s in shapes)) for n in shapes[0] if n not in "cs"}
    assert engine_size(rewrite(loaded(DECODER, tmp_path)), tmp_path, profiles) > 0


def test_a_long_stack_takes_few_rounds(tmp_path: Path) -> None:
    """Types go through the fused operators, so that no layer waits for the one before it."""
    text = "\n".join(f"x{i + 1} = com.microsoft.QuickGelu (x{i})" for i in range(40))
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[2, 3] x0) => (float[2, 3] x40) {{ {text} }}"""
    result = rewrite(loaded(text, tmp_path))
    assert len(result.rewrites) == 40 and plan(result).convertible


def test_blocked_layouts_are_refused_without_further_complaints(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "com.microsoft.nchwc" : 1]>
    g (float[1, 8, 4, 4] x, float[8, 8, 1, 1] w) => (float[1, 8, 4, 4] y) {
        a = com.microsoft.nchwc.ReorderInput (x)
        b = com.microsoft.nchwc.Conv (a, w)
        c = com.microsoft.nchwc.ReorderOutput (b)
        d = com.microsoft.QuickGelu (c)
        y = com.microsoft.FusedMatMul <transA = 1> (d, d)
    }"""
    problems = problems_of(text, tmp_path)
    assert len(problems) == 3
    assert all("com.microsoft.nchwc" in p.what and "ORT_ENABLE_EXTENDED" in p.fix for p in problems)


ROTARY = """y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
    (q, "", "", "", "", last, total, c)"""


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("y = com.microsoft.BiasDropout (x, b, , , on)", "training_mode"),
        ("y = com.microsoft.Attention <num_heads = 2, do_rotary = 1> (x, w)", "do_rotary"),
        ("y, mean = com.microsoft.SkipLayerNormalization (x, x, b)", "'mean'"),
        ('y = com.microsoft.FusedMatMulActivation <activation = "Nobody"> (x, w)', "'Nobody'"),
        ("y = com.microsoft.Rfft <signal_ndim = 3> (x)", "signal_ndim = 3"),
        (
            "y = com.microsoft.PackedMultiHeadAttention <num_heads = 2> (x, x, x, b, on, on)",
            "without padding",
        ),
        (ROTARY, "do_rotary = 1 without the cos and sin tables"),
        (ROTARY, "sin_cache"),
        ("y = com.microsoft.CropAndResize (image, boxes, at, size)", "crop_size has the shape [1]"),
    ],
)
def test_refusals_name_the_culprit(call: str, word: str, tmp_path: Path) -> None:
    outputs = ", ".join(f"float[] {name.strip()}" for name in call.split("=")[0].split(","))
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[2, 3, 8] x, float[8, 24] w, float[8] b, bool on, float[2, 4, 256] q, int32[2] last, int32[1] total,
       float[16, 16] c, float[2, 3, 5, 7] image, float[4, 4] boxes, int32[4] at) => ({outputs})
    <int32[1] size = {{4}}> {{ {call} }}"""
    problems = problems_of(text, tmp_path)
    assert any(word in f"{problem.what}; {problem.expected}" for problem in problems)
    assert all(all(problem.to_json().values()) for problem in problems)


@pytest.mark.parametrize("rest", ["", ", , lengths"])
def test_an_attention_at_which_onnxruntime_crashes_can_be_compared(rest: str, tmp_path: Path) -> None:
    """Without a bias: the process would end with a segmentation fault."""
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[2, 3, 8] x, int32[2] lengths, float[8, 24] w) => (float[2, 3, 8] y) {{
        y = com.microsoft.Attention <num_heads = 2> (x, w{rest})
    }}"""
    model = loaded(text, tmp_path)
    inputs = {"x": X, "lengths": np.array([2, 3], np.int32), "w": random(8, 24)}
    verdict = judged_graph(model, rewrite(model).model, inputs)
    assert verdict.status == "agree"


HALVES = [
    pytest.param(example, dtype, id=f"{rule.name}-{example.name}-{dtype}")
    for rule in RULES
    if rule.name.startswith("contrib-")
    for example in examples_of(rule)
    if not re.search(r"float start|CropAndResize|float16\[", example.text)
    for dtype in ("float16", "bfloat16")
]


@pytest.mark.parametrize(("example", "dtype"), HALVES)
def test_small_types_stay_and_build(example: Example, dtype: str, tmp_path: Path) -> None:
    """The same graph in float16 and bfloat16: constants and masks are of that type, numbers of its precision."""
    model = loaded(example.text, tmp_path)
    inputs = example_feeds(model, example)
    expected = expected_outputs(model, example, inputs)
    result = rewrite(loaded(example.text.replace("float[", f"{dtype}["), tmp_path))
    assert plan(result).convertible
    types = {v.name: v.type.tensor_type.elem_type for v in result.model.proto.graph.output}
    assert {onnx.TensorProto.DataType.Name(t).lower() for t in types.values()} <= {dtype, "int32"}
    if dtype == "float16":
        narrow = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in inputs.items()}
        for name, array in run(expand(result.model), narrow).items():
            bound = 0.03 * max(1.0, float(np.abs(expected[name]).max()))
            assert array.dtype == (np.float16 if expected[name].dtype == np.float32 else expected[name].dtype)
            assert np.abs(array.astype(np.float64) - expected[name]).max() <= bound
    else:
        shapes = {name: inputs[name].shape for name in dynamic_inputs(result.model)}
        assert engine_size(result, tmp_path, fixed(shapes)) > 0
