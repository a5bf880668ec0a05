"""Rewrites state space operators of TensorRT-Edge-LLM and onnxruntime as products and a Scan. Mamba's scan is a plugin.

Sources:
- NVIDIA/TensorRT-Edge-LLM, cpp/plugins/mamba_plugin and cpp/kernels/mamba: a convolution over the last tokens and a state
  for each head, of one token or of many. In first releases the convolution of many tokens takes the tokens before them for
  zeros, which its runtime's state then holds; later ones read the state.
- onnxruntime, docs/ContribOperators.md: LinearAttention and CausalConvWithState. TensorRT's parser takes them for a plugin
  that no release has.

One decay for all of a head's state makes a scan a product with all tokens at once, as in Dao and Gu, arXiv 2405.21060.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import silu
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    fixed_sizes,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)
from trtsmith.importers.builder import TO_END

_OPSET = 13
"""The first one with bfloat16, to which nobody brings a graph once it has a Loop. GatherND knows batches from 12 on."""


def _groups(node: NodeView, of: int, groups: int) -> int:
    """The number of channels or heads per group. Raises RefusedError if the groups are uneven."""
    if groups < 1 or of % groups:
        reason = f"{of} channels or heads, and {groups} groups"
        raise RefusedError(Refusal(reason, "groups of one size", "correct the operands where they are made"))
    return of // groups


def _optional(w: Writer, index: int, shape: Sequence[int] = ()) -> Value | None:
    if not w.node.input(index):
        return None
    return w.Reshape(wide(w, index), shape=list(shape)) if shape else wide(w, index)


def _step_sizes(w: Writer, given: Value, bias: Value | None, soft: object) -> Value:
    shifted = given if bias is None else w.Add(given, bias)
    return w.Softplus(shifted) if soft else shifted


def _counts(w: Writer, lengths: Value, tokens: Value) -> Value:
    """The number of valid tokens, [N, 1]. A call with one token gets the total length so far."""
    return w.Unsqueeze(w.Min(w.Cast(lengths, to="int64"), tokens), axes=[1])


def _edge_convolution(w: Writer, dtype: str) -> Replacement:
    """Convolves x [N, S, C] behind the state of the last K tokens; each output reads the last K of them."""
    node = w.node
    given = settings(node, stride=1, padding=int, dilation=1, groups=0)
    channels, width = fixed_sizes(node, 1, 3, 0, 2)
    wanted = {"stride": (1,), "padding": (width - 1,), "dilation": (1,), "groups": (0, channels)}
    for name, values in wanted.items():
        if given[name] not in values:
            reason = f"{name} is {given[name]}, and its state has the last {width} tokens"
            fix = "export the convolution as it is in Mamba"
            raise RefusedError(Refusal(reason, f"{name} = {values[-1]}", fix))
    require_opset(node, _OPSET, "GatherND with batches")
    x, state = wide(w, 0), wide(w, 3)
    tokens = w.size(x, 1)
    rows = w.Concat(w.Transpose(state, perm=[0, 2, 1]), x, axis=1)
    past = w.Transpose(w.slice(rows, [1], [TO_END], [1]), perm=[0, 2, 1])
    result = w.Transpose(w.Conv(past, wide(w, 1), wide(w, 2), group=channels), perm=[0, 2, 1])
    count = _counts(w, w.x[4], tokens)
    used = w.Unsqueeze(w.Less(w.arange(tokens), count), axes=[2])
    kept = w.Unsqueeze(w.Add(count, np.arange(width)), axes=[2])
    left = w.Transpose(w.GatherND(rows, kept, batch_dims=1), perm=[0, 2, 1])
    made = narrow(w, w.Where(used, result, 0.0), dtype), narrow(w, left, str(node.dtype(3)))
    return Replacement(w.finish(*made), "Conv over the state and the tokens", _BEFORE)


def _edge_state(w: Writer, dtype: str) -> Replacement:
    """Updates the state for all tokens at once: G groups of B and C, R heads in each, S tokens, P numbers of a head, K state
    columns.
    """
    node = w.node
    given = settings(node, dt_softplus=0, ngroups=int)
    heads, groups = fixed_sizes(node, 1, 1, 0)[0], given["ngroups"]
    each, single = _groups(node, heads, groups), node.rank(0) == 3
    fixed_sizes(node, 0, 3 if single else 4)
    x, b, c, dt = (w.Unsqueeze(wide(w, i), axes=[1]) if single else wide(w, i) for i in (0, 2, 3, 5))
    tokens = w.size(x, 1)
    used = w.Less(w.arange(tokens), _counts(w, w.x[8], tokens))
    step = _step_sizes(w, dt, wide(w, 6), given["dt_softplus"])
    step = w.Where(w.Unsqueeze(used, axes=[2]), step, 0.0)
    by_head = w.Transpose(w.Reshape(step, shape=[0, 0, groups, each]), perm=[0, 2, 3, 1])  # [N, G, R, S]
    fall = w.CumSum(w.Mul(by_head, w.Reshape(wide(w, 1), shape=[groups, each, 1])), 3)
    numbers = w.Transpose(w.Reshape(x, shape=[0, 0, groups, each, -1]), perm=[0, 2, 3, 1, 4])
    b, c = (w.Unsqueeze(w.Transpose(part, perm=[0, 2, 1, 3]), axes=[2]) for part in (b, c))  # [N, G, 1, S, K]
    state = w.Reshape(wide(w, 7), w.Concat(w.size(x, 0), [groups, each, -1], w.size(w.x[7], 3), axis=0))
    column, row = w.Unsqueeze(fall, axes=[4]), w.Unsqueeze(fall, axes=[3])
    places = w.arange(tokens)
    later = w.Less(w.Unsqueeze(places, axes=[1]), places)
    decay = w.Where(later, 0.0, w.Exp(w.Sub(column, row)))
    shares = w.Mul(w.MatMul(c, w.Transpose(b, perm=[0, 1, 2, 4, 3])), decay)
    result = w.MatMul(w.Mul(shares, w.Unsqueeze(by_head, axes=[3])), numbers)
    result = w.Add(result, w.Mul(w.Exp(column), w.MatMul(c, w.Transpose(state, perm=[0, 1, 2, 4, 3]))))
    result = w.Add(result, w.Mul(w.Reshape(wide(w, 4), shape=[groups, each, 1, 1]), numbers))
    result = w.Reshape(w.Transpose(result, perm=[0, 3, 1, 2, 4]), shape=w.shape(x))
    result = w.Where(w.Unsqueeze(used, axes=[2, 3]), result, 0.0)
    last = w.slice(column, [-1], [TO_END], [3])
    weights = w.Mul(w.Exp(w.Sub(last, column)), w.Unsqueeze(by_head, axes=[4]))
    added = w.MatMul(w.Transpose(w.Mul(numbers, weights), perm=[0, 1, 2, 4, 3]), b)
    left = w.Reshape(w.Add(w.Mul(w.Exp(last), state), added), shape=w.shape(w.x[7]))
    result = w.Squeeze(result, axes=[1]) if single else result
    made = narrow(w, result, dtype), narrow(w, left, str(node.dtype(7)))
    return Replacement(w.finish(*made), "products of all tokens and decays", _SQUARE)


def _no_window(node: NodeView, given: dict[str, object]) -> None:
    if given["state_window"]:
        reason = f"state_window is {given['state_window']}"
        fix = "export the model without speculative decoding"
        raise RefusedError(Refusal(reason, "state_window = 0", fix))


def _linear_attention(w: Writer, dtype: str) -> Replacement | Refusal:
    """Linear attention token by token, as defined by onnxruntime: H heads of keys and values, R heads of queries each."""
    node = w.node
    names = {"update_rule": "gated_delta", "scale": 0.0, "chunk_size": 64, "state_window": 0}
    given = settings(node, q_num_heads=int, kv_num_heads=int, **names)
    _no_window(node, given)
    heads, rule = given["kv_num_heads"], given["update_rule"]
    each = _groups(node, given["q_num_heads"], heads)
    gated, delta = "gated" in str(rule), "delta" in str(rule)
    lacks = (gated and not node.input(4)) or (delta and not node.input(5))
    if lacks or rule not in ("linear", "gated", "delta", "gated_delta"):
        return Refusal(
            f"update_rule is {rule!r}, and it has {sum(map(bool, node.inputs))} operands",
            "'linear', 'gated' with a decay, 'delta' with a beta, or 'gated_delta' with both",
            "correct the node where the model is exported",
        )
    width = _groups(node, fixed_sizes(node, 0, 3, 2)[0], given["q_num_heads"])

    def by_token(index: int, *axes: int) -> Value:
        return w.Transpose(
            w.Reshape(wide(w, index), shape=[0, 0, *axes]), perm=[1, 0, *range(2, 2 + len(axes))]
        )

    query = w.Mul(by_token(0, heads, each, width), float(given["scale"]) or width**-0.5)
    parts = [query, by_token(1, heads, width, 1), by_token(2, heads, 1, -1)]
    parts += [w.Exp(by_token(4, heads, -1, 1))] if gated else []
    parts += [by_token(5, -1, 1, 1)] if delta else []
    start = _optional(w, 3)
    if start is None:
        start = w.Expand(0.0, [w.size(w.x[0], 0), heads, width, w.Div(w.size(w.x[2], 2), [heads])])

    def step(state: Value, query: Value, key: Value, value: Value, *more: Value) -> list[Value]:
        state = w.Mul(state, more[0]) if gated else state
        if delta:
            known = w.MatMul(w.Transpose(key, perm=[0, 1, 3, 2]), state)
            value = w.Mul(w.Sub(value, known), more[-1])
        state = w.Add(state, w.Mul(key, value))
        return [state, w.MatMul(query, state)]

    operands = ", ".join(f"float[N, a{i}, b{i}, c{i}] x{i}" for i in range(len(parts)))
    body = w.graph(f"(float[N, h, k, v] s, {operands}) => (float[N, h, k, v] t, float[N, h, q, v] y)", step)
    left, rows = w.Scan(start, *parts, body=body, num_scan_inputs=len(parts), outputs=2)
    result = w.Reshape(w.Transpose(rows, perm=[1, 0, 2, 3, 4]), shape=[0, 0, -1])
    kind = str(node.dtype(3)) if node.input(3) else dtype
    return Replacement(w.finish(narrow(w, result, dtype), narrow(w, left, kind)), "a Scan of tokens", _SLOW)


def _causal_convolution(w: Writer, dtype: str) -> Replacement | Refusal:
    """Causal convolution of [N, C, L], or of [N, L, C] with channels_last; zeros before the first token without a state."""
    node = w.node
    given = settings(node, activation="none", dilation=1, ndim=1, channels_last=0, state_window=0)
    _no_window(node, given)
    if given["ndim"] != 1 or given["activation"] not in ("none", "silu", "swish") or given["dilation"] < 1:
        shown = ", ".join(f"{name} = {given[name]}" for name in ("ndim", "activation", "dilation"))
        return Refusal(shown, "ndim = 1, 'silu', 'swish' or 'none', and 1 or more", "correct its attributes")
    channels, width = fixed_sizes(node, 1, 3, 0, 2)
    fixed_sizes(node, 0, 3)
    behind = (width - 1) * given["dilation"]

    def turned(data: Value) -> Value:
        return w.Transpose(data, perm=[0, 2, 1]) if given["channels_last"] else data

    x = turned(wide(w, 0))
    state = _optional(w, 3)
    whole = w.Concat(turned(state), x, axis=2) if state is not None else w.pad(x, [0, 0, behind, 0, 0, 0])
    filters = [wide(w, 1), *([wide(w, 2)] if node.input(2) else [])]
    result = w.Conv(whole, *filters, group=channels, dilations=[given["dilation"]])
    result = result if given["activation"] == "none" else silu(w, result)
    left = w.slice(whole, [-behind], [TO_END], [2]) if behind else w.slice(whole, [0], [0], [2])
    made = [narrow(w, turned(data), dtype) for data in (result, left)]
    return Replacement(w.finish(*made), "Conv behind the state")


_SQUARE = ("shares of all pairs of tokens: memory grows with the square of their number",)
_BEFORE = ("tokens before the first are those of the state; the plugin's first releases took zeros for them",)
_SLOW = ("one step a token, one after the other: slow for many tokens in one run",)

_SPACES = {
    "causal_conv1d": PluginForm(_edge_convolution, least=5, floats=(0, 1, 3), results=2),
    "update_ssm_state": PluginForm(_edge_state, least=9, floats=(0, 1, 2, 3, 5, 7), results=2),
    "LinearAttention": PluginForm(_linear_attention, least=3, most=6, floats=(0, 1, 2), results=2),
    "CausalConvWithState": PluginForm(_causal_convolution, least=2, most=4, floats=(0, 1), results=2),
}

STOCK_STATE_SPACES = NodeRule(
    "stock-state-spaces",
    "convolutions and states of Mamba's, and onnxruntime's linear attention, become products and a Scan",
    (
        *kinds("causal_conv1d", "update_ssm_state", domains=("trt_edgellm",)),
        "com.microsoft::LinearAttention",
        "com.microsoft::CausalConvWithState",
    ),
    rewriter(_SPACES),
    opset=_OPSET,
)
