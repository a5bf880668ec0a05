"""Models that the rule stock-state-spaces takes, with the recurrences, token by token in float64, as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(37)


def _draw(kind: str, *shape: int) -> np.ndarray:
    return _RNG.uniform(-1, 1, shape).astype(np.float16 if kind == "float16" else np.float32)


def _falls(*shape: int) -> np.ndarray:
    """Rates of decay: from -4 to -0.1, always float32."""
    return -_RNG.uniform(0.1, 4, shape).astype(np.float32)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def _example(
    name: str,
    text: str,
    expected: Callable[[Arrays], Arrays] | None,
    opset: int = 17,
    **feeds: np.ndarray,
) -> Example:
    half = any(array.dtype == np.float16 for array in feeds.values())
    domains = "".join(f', "{d}" : 1' for d in ("trt_edgellm", "com.microsoft"))
    return Example(
        name,
        f'<ir_version: 8, opset_import: ["" : {opset}{domains}]>\ng {text}',
        feeds=feeds,
        rtol=2e-3 if half else 2e-5,
        atol=2e-3 if half else 2e-6,
        expected=expected,
    )


def _convolved(feeds: Arrays) -> Arrays:
    """Edge-LLM's kernel for one token, one token after the other."""
    x, state = feeds["x"].astype(np.float64), feeds["s"].astype(np.float64)
    y, left = np.zeros(x.shape), state.copy()
    for n in range(len(x)):
        for t in range(min(int(feeds["l"][n]), x.shape[1])):
            left[n] = np.concatenate([left[n, :, 1:], x[n, t, :, None]], axis=1)
            y[n, t] = (left[n] * feeds["w"][:, 0].astype(np.float64)).sum(-1) + feeds["b"]
    return {"y": y.astype(feeds["x"].dtype), "o": left.astype(feeds["s"].dtype)}


def _updated(soft: bool, groups: int) -> Callable[[Arrays], Arrays]:
    """Edge-LLM's kernel of a state, one token and head after the other."""

    def expected(feeds: Arrays) -> Arrays:
        given = {name: array.astype(np.float64) for name, array in feeds.items()}
        single = given["x"].ndim == 3
        x, b, c, dt = (given[name][:, None] if single else given[name] for name in "xbct")
        dt = dt + given["r"]
        dt = _softplus(dt) if soft else dt
        y, left = np.zeros(x.shape), given["s"].copy()
        for n, h in np.ndindex(len(x), x.shape[2]):
            group = h // (x.shape[2] // groups)
            for t in range(min(int(feeds["l"][n]), x.shape[1])):
                step = dt[n, t, h]
                left[n, h] *= np.exp(given["a"][h] * step)
                left[n, h] += step * np.outer(x[n, t, h], b[n, t, group])
                y[n, t, h] = left[n, h] @ c[n, t, group] + given["d"][h] * x[n, t, h]
        y = y[:, 0] if single else y
        return {"y": y.astype(feeds["x"].dtype), "o": left.astype(feeds["s"].dtype)}

    return expected


def _state(name: str, kind: str, tokens: int, dims: str, soft: int, lengths: list[int]) -> Example:
    """dims: the tokens' axis as the model has it; none for a call of one token without the axis."""
    n, axis = len(lengths), [tokens] if dims else []
    inner = f"{dims}, " if dims else ""
    return _example(
        f"{name}, {kind}",
        f"({kind}[N, {inner}4, 5] x, float[4] a, {kind}[N, {inner}2, 3] b, {kind}[N, {inner}2, 3] c, {kind}[4] d,"
        f" {kind}[N, {inner}4] t, {kind}[4] r, {kind}[N, 4, 5, 3] s, int32[N] l)"
        f" => ({kind}[N, {inner}4, 5] y, {kind}[N, 4, 5, 3] o)"
        f" {{ y, o = trt_edgellm.update_ssm_state <dt_softplus = {soft}, ngroups = 2> (x, a, b, c, d, t, r, s, l) }}",
        _updated(bool(soft), 2),
        x=_draw(kind, n, *axis, 4, 5),
        a=_falls(4),
        b=_draw(kind, n, *axis, 2, 3),
        c=_draw(kind, n, *axis, 2, 3),
        d=_draw(kind, 4),
        t=abs(_draw(kind, n, *axis, 4)),
        r=abs(_draw(kind, 4)),
        s=_draw(kind, n, 4, 5, 3),
        l=np.array(lengths, np.int32),
    )


def _edge_convolution(name: str, kind: str, tokens: int, dims: str, lengths: list[int]) -> Example:
    n = len(lengths)
    return _example(
        f"{name}, {kind}",
        f"({kind}[N, {dims}, 3] x, {kind}[3, 1, 4] w, {kind}[3] b, {kind}[N, 3, 4] s, int32[N] l)"
        f" => ({kind}[N, {dims}, 3] y, {kind}[N, 3, 4] o) {{ y, o = trt_edgellm.causal_conv1d"
        " <stride = 1, padding = 3, dilation = 1, groups = 3> (x, w, b, s, l) }",
        _convolved,
        x=_draw(kind, n, tokens, 3),
        w=_draw(kind, 3, 1, 4),
        b=_draw(kind, 3),
        s=_draw(kind, n, 3, 4),
        l=np.array(lengths, np.int32),
    )


def _attention(rule: str, operands: str, decay: int = 4, scale: str = "") -> Example:
    """onnxruntime's own, which runs the original, too: two heads of keys for four of queries."""
    dims = {"q": 16, "k": 8, "v": 6, "d": decay, "e": 2}
    feeds = {name: _draw("float", 2, 5, dims[name]) for name in "qkv"}
    feeds |= {"s": _draw("float", 2, 2, 4, 3)} if "s" in operands else {}
    feeds |= {"d": _falls(2, 5, decay)} if "d" in operands else {}
    feeds |= {"e": abs(_draw("float", 2, 5, 2))} if "e" in operands else {}
    shapes = {
        name: "B, 2, 4, 3" if name == "s" else f"B, T, {array.shape[2]}" for name, array in feeds.items()
    }
    inputs = ", ".join(f"float[{shape}] {name}" for name, shape in shapes.items())
    return _example(
        f"onnxruntime's linear attention, {rule}, {decay} decays{' and a scale' * bool(scale)}",
        f"({inputs}) => (float[B, T, 12] y, float[B, 2, 4, 3] o) {{ y, o = com.microsoft.LinearAttention"
        f' <q_num_heads = 4, kv_num_heads = 2, update_rule = "{rule}"{scale}> ({operands}) }}',
        None,
        **feeds,
    )


def _ort_convolution(name: str, attributes: str, dims: str, state: int, **feeds: np.ndarray) -> Example:
    """state: of how many tokens its past is, 0 for none."""
    operands = "x, w, b, s" if state else "x, w"
    columns = "channels_last" in attributes
    past = f"float[B, {'S, 3' if columns else '3, S'}]"
    more = f", float[3] b, {past} s" if state else ""
    return _example(
        f"onnxruntime's causal convolution, {name}",
        f"(float[{dims}] x, float[3, 1, 4] w{more}) => (float[{dims}] y, {past} o)"
        f" {{ y, o = com.microsoft.CausalConvWithState <{attributes}> ({operands}) }}",
        None,
        w=_draw("float", 3, 1, 4),
        **feeds,
    )


_EXAMPLES = (
    _edge_convolution("tokens of three texts", "float", 6, "S", [6, 0, 2]),
    _edge_convolution("tokens of three texts", "float16", 3, "3", [1, 3, 2]),
    _edge_convolution("one token of a long text", "float16", 1, "1", [57, 2]),
    _state("states of three texts", "float", 6, "S", 1, [6, 0, 2]),
    _state("states of three texts", "float16", 5, "5", 0, [5, 1, 3]),
    _state("a state and one token", "float", 1, "", 1, [57, 2]),
    _attention("linear", "q, k, v"),
    _attention("gated", "q, k, v, s, d", decay=8),
    _attention("gated", "q, k, v, , d", decay=2, scale=", scale = 0.5"),
    _attention("delta", "q, k, v, s, , e"),
    _attention("gated_delta", "q, k, v, s, d, e", decay=2),
    _ort_convolution(
        "dilated", 'activation = "silu", dilation = 2', "B, 3, L", 6,
        x=_draw("float", 2, 3, 5), b=_draw("float", 3), s=_draw("float", 2, 3, 6),
    ),
    _ort_convolution("without a state", "dilation = 1", "2, 3, 7", 0, x=_draw("float", 2, 3, 7)),
    _ort_convolution(
        "of rows", "channels_last = 1", "B, L, 3", 3,
        x=_draw("float", 2, 2, 3), b=_draw("float", 3), s=_draw("float", 2, 3, 3),
    ),
)  # fmt: skip

EXAMPLES = {"stock-state-spaces": _EXAMPLES}


def _refused(text: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17, "trt_edgellm" : 1, "com.microsoft" : 1]>\ng {text}"""


_TOKENS = "float[2, 5, 8] q, float[2, 5, 8] k, float[2, 5, 6] v"
REFUSED: dict[str, tuple[str, ...]] = {
    "stock-state-spaces": (
        _refused(
            "(float[2, 5, 3] x, float[3, 1, 4] w, float[3] b, float[2, 3, 4] s, int32[2] l) => (float[2, 5, 3] y,"
            " float[2, 3, 4] o) { y, o = trt_edgellm.causal_conv1d <padding = 6, dilation = 2> (x, w, b, s, l) }"
        ),
        _refused(
            f"({_TOKENS}) => (float[2, 5, 6] y, float[2, 2, 4, 3] o)"
            " { y, o = com.microsoft.LinearAttention <q_num_heads = 2, kv_num_heads = 2> (q, k, v) }"
        ),
        _refused(
            f"({_TOKENS}) => (float[2, 5, 6] y, float[4, 2, 2, 4, 3] o) {{ y, o = com.microsoft.LinearAttention"
            ' <q_num_heads = 2, kv_num_heads = 2, update_rule = "linear", state_window = 4> (q, k, v) }'
        ),
        _refused(
            "(float[2, 3, 4, 5] x, float[3, 1, 1, 4] w) => (float[2, 3, 4, 5] y, float[2, 3, 4, 3] o)"
            " { y, o = com.microsoft.CausalConvWithState <ndim = 2> (x, w) }"
        ),
    ),
}
