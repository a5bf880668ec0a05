"""Models that the rule stock-fused-attention takes, with the formula in float64 as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(2)


def _attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | float = 0) -> Arrays:
    """q [..., S, D], k and v [..., T, D], mask [..., S, T]: the result and the weights."""
    wide = [array.astype(np.float64) for array in (q, k, v)]
    powers = np.exp(wide[0] @ wide[1].swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask)
    weights = powers / powers.sum(-1, keepdims=True)
    return {"y": (weights @ wide[2]).astype(q.dtype), "w": weights.astype(q.dtype)}


def _batches(inputs: Arrays) -> Arrays:
    return _attended(inputs["q"], inputs["k"], inputs["v"], inputs["m"])


def _heads(*parts: np.ndarray) -> Arrays:
    """All [B, S, H, D]."""
    return {"y": _attended(*(part.swapaxes(1, 2) for part in parts))["y"].swapaxes(1, 2)}


def _random(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


_EXAMPLES = (
    Example(
        "mmdeploy's with a mask for all, an old opset, unknown sizes",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float[B, S, 4] q, float[B, T, 4] k, float[B, T, 4] v, float[S, T] m)
            => (float[B, S, 4] y, float[B, S, T] w) {
            y, w = mmdeploy.ScaledDotProductAttentionTRT (q, k, v, m)
        }""",
        feeds={"q": _random(2, 3, 4), "k": _random(2, 5, 4), "v": _random(2, 5, 4), "m": _random(3, 5)},
        rtol=1e-4,
        expected=_batches,
    ),
    Example(
        "a mask for each",
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float[2, 3, 4] q, float[2, 5, 4] k, float[2, 5, 4] v, float[2, 3, 5] m)
            => (float[2, 3, 4] y, float[2, 3, 5] w) {
            y, w = mmdeploy.ScaledDotProductAttentionTRT (q, k, v, m)
        }""",
        rtol=1e-4,
        expected=_batches,
    ),
    Example(
        "BEVFormer_tensorrt's",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[B, S, 4] q, float[B, T, 4] k, float[B, T, 4] v) => (float[B, S, 4] y) { y = QKVTRT (q, k, v) }""",
        feeds={"q": _random(2, 3, 4), "k": _random(2, 5, 4), "v": _random(2, 5, 4)},
        rtol=1e-4,
        expected=lambda inputs: {"y": _attended(inputs["q"], inputs["k"], inputs["v"])["y"]},
    ),
    Example(
        "Q, K and V in one, float16",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float16[2, 5, 3, 3, 8] x) => (float16[2, 5, 3, 8] y) { y = fMHA_V2 (x) }""",
        feeds={"x": _random(2, 5, 3, 3, 8).astype(np.float16)},
        rtol=1e-2,
        atol=5e-3,
        expected=lambda inputs: _heads(*(inputs["x"][:, :, :, part] for part in range(3))),
    ),
    Example(
        "K and V in one",
        """<ir_version: 8, opset_import: ["" : 13, "trt.plugins" : 1]>
        g (float[B, S, 2, 4] q, float[B, T, 2, 2, 4] x) => (float[B, S, 2, 4] y) { y = trt.plugins.fMHCA (q, x) }""",
        feeds={"q": _random(2, 5, 2, 4), "x": _random(2, 7, 2, 2, 4)},
        rtol=1e-4,
        atol=1e-5,
        expected=lambda inputs: _heads(inputs["q"], inputs["x"][:, :, :, 0], inputs["x"][:, :, :, 1]),
    ),
)


def _by_image(scale: float) -> Callable[[Arrays], Arrays]:
    """One image after the other; the second of them has no tokens."""

    def expected(inputs: Arrays) -> Arrays:
        q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
        y = np.zeros(q.shape)
        for first, last in zip(inputs["c"], inputs["c"][1:], strict=False):
            for head in range(q.shape[1] if first < last else 0):
                scores = q[first:last, head] @ k[first:last, head].T * scale
                shares = np.exp(scores - scores.max(-1, keepdims=True))
                y[first:last, head] = shares / shares.sum(-1, keepdims=True) @ v[first:last, head]
        return {"y": y.astype(inputs["q"].dtype)}

    return expected


def _images(kind: str, domain: str, scale: str, factor: float) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    three = ", ".join(f"{kind}[S, 2, 4] {name}" for name in "qkv")
    return Example(
        f"images of {domain or 'no domain'}, one without tokens, {kind}",
        f"""<ir_version: 8, opset_import: ["" : 17, "trt_edgellm" : 1]>
        g ({three}, int32[4] c, int32[M] m) => ({kind}[S, 2, 4] y) {{
            y = {domain}ViTAttentionPlugin <num_heads = 2, head_size = 4{scale}> (q, k, v, c, m)
        }}""",
        feeds={
            **{name: _random(7, 2, 4).astype(dtype) for name in "qkv"},
            "c": np.array([0, 3, 3, 7], np.int32),
            "m": np.zeros(4, np.int32),
        },
        rtol=1e-2 if kind == "float16" else 1e-4,
        atol=5e-3 if kind == "float16" else 1e-5,
        expected=_by_image(factor),
    )


_IMAGES = (
    _images("float", "trt_edgellm.", "", 0.5),
    _images("float16", "", ", attention_scale = 0.25", 0.25),
)

EXAMPLES = {"stock-fused-attention": (*_EXAMPLES, *_IMAGES)}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-fused-attention": (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[S, 2, 4] q, int32[3] c, int32[M] m) => (float[S, 2, 4] y) {
            y = ViTAttentionPlugin <num_heads = 4, head_size = 2> (q, q, q, c, m)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float16[2, 5, 2, 4] q, float[2, 7, 2, 2, 4] x) => (float16[2, 5, 2, 4] y) {
            y = trt.plugins.fMHCA (q, x)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float[2, 5, 3, 3, D] x) => (float[2, 5, 3, D] y) { y = trt.plugins.fMHA_V2 (x) }""",
    ),
}
