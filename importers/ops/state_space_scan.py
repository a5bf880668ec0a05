"""The selective scan of a state space (Gu and Dao, Mamba, arXiv 2312.00752, algorithm 2), as in mamba_ssm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trtsmith.importers.builder import TO_END, Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
)
from trtsmith.importers.ops._shared import flag, size_faults, size_of

MOST_STATES = 1024
MOST_TOKENS = 2**30


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, channels, length = shapes["u"]
    return {"output": (batch, channels, length), "last": (batch, channels, shapes["a"][1])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Images, channels, states and tokens must agree."""
    batch, channels, length = shapes.get("u", (None,) * 3)
    states, groups = size_of(shapes, "a", 1), size_of(shapes, "b", 1)
    table = {
        "delta": (batch, channels, length),
        "z": (batch, channels, length),
        "a": (channels,),
        "b": (batch, None, states, length),
        "c": (batch, None, states, length),
        "d": (channels,),
        "delta_bias": (channels,),
    }
    rules = ((name, axis, right) for name, wanted in table.items() for axis, right in enumerate(wanted))
    faults = size_faults(shapes, *rules, ("c", 1, groups, "b[1]"))
    if groups is not None and channels is not None and (groups == 0 or channels % groups):
        faults.append(f"u[1] = {channels}, which {groups} groups do not divide")
    if states is not None and states > MOST_STATES:
        faults.append(f"a[1] = {states}, more than {MOST_STATES} states")
    if length is not None and length > MOST_TOKENS:
        faults.append(f"u[2] = {length}, more than 2^30 tokens")
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One token after the other."""
    given = {name: array.astype(np.float64) for name, array in inputs.items()}
    u, a = given["u"], given["a"]
    groups = np.arange(u.shape[1]) // (u.shape[1] // given["b"].shape[1])
    steps = given["delta"] + given["delta_bias"][:, None]
    if fields["delta_softplus"]:
        steps = np.logaddexp(0, steps)
    output, last = given["d"][:, None] * u, np.zeros((*u.shape[:2], a.shape[1]))
    with np.errstate(all="ignore"):
        for t in range(u.shape[2]):
            step = steps[:, :, t, None]
            last = np.exp(step * a) * last + step * u[:, :, t, None] * given["b"][..., t][:, groups]
            output[:, :, t] += np.einsum("nds,nds->nd", last, given["c"][..., t][:, groups])
        if "z" in given:
            output *= given["z"] / (1 + np.exp(-given["z"]))
    return {"output": output, "last": last}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """All channels at once, one token after the other. Half precision is widened to float32."""
    import torch
    from torch.nn import functional

    kind = torch.promote_types(inputs["u"].dtype, torch.float32)
    x = {name: tensor.to(kind) for name, tensor in inputs.items()}
    u, step = x["u"], x["delta"]
    each = u.shape[1] // x["b"].shape[1]
    b, c = (x[name].repeat_interleave(each, 1) for name in ("b", "c"))
    step = step + x["delta_bias"][:, None]
    step = functional.softplus(step) if fields["delta_softplus"] else step
    state = u.new_zeros(*u.shape[:2], x["a"].shape[1])
    output = torch.zeros_like(u)
    for t in range(u.shape[2]):
        now = step[..., t, None]
        state = torch.exp(now * x["a"]) * state + now * u[..., t, None] * b[..., t]
        output[..., t] = (state * c[..., t]).sum(-1)
    output = output + x["d"][:, None] * u
    output = output * functional.silu(x["z"]) if "z" in x else output
    return output.to(inputs["u"].dtype), state


def _expand(expansion: Expansion) -> list[Value]:
    """A prefix sum: after step i each token has the sum of the 2^i tokens before it, and the decay over them."""
    g = Builder(expansion.opset)
    u, step, a = g.inputs("u", "delta", "a")
    step = step + g.Unsqueeze("delta_bias", axes=[1])
    if expansion.fields["delta_softplus"]:
        step = g.Softplus(step)
    sizes = g.Shape("u")

    def maps(name: str) -> Value:
        """[N, d, S, L]: of each channel those of its group."""
        each = g.Div(sizes[1:2], g.Shape(name)[1:2])
        return g.Gather(name, g.Div(g.arange(sizes[1:2]), each), axis=1)

    decay = g.Exp(g.Unsqueeze(step, axes=[2]) * g.Unsqueeze(a, axes=[2]))
    added = g.Unsqueeze(step * u, axes=[2]) * maps("b")
    count = sizes[2:3]
    places = g.arange(count)
    doublings = g.ReduceSum(g.Cast(g.Less(2 ** np.arange(31), count), to="int64"), keepdims=0)

    def double(_k: Value, go: Value, apart: Value, decay: Value, added: Value) -> list[Value]:
        source = places - apart
        inside = g.Not(g.Less(source, 0))
        at = g.Where(inside, source, 0)
        before, past = (g.Where(inside, g.Gather(x, at, axis=3), 0.0) for x in (added, decay))
        return [go, apart * 2, decay * past, added + decay * before]

    body = g.graph(
        "(int64 k, bool go, int64 apart, float[N, C, S, L] decay, float[N, C, S, L] sums)"
        " => (bool go_on, int64 next, float[N, C, S, L] decays, float[N, C, S, L] added)",
        double,
    )
    states = g.Loop(doublings, True, 1, decay, added, body=body, outputs=3)[2]
    result = g.write("ReduceSum", states * maps("c"), axes=[2], keepdims=0)
    result = result + g.Unsqueeze("d", axes=[1]) * u
    result = result * ("z" * g.Sigmoid("z")) if "z" in expansion.present else result
    last = g.write("ReduceSum", g.Slice(states, [-1], [TO_END], [3]), axes=[3], keepdims=0)
    return [result, last]


def _case(
    name: str,
    n: int,
    d: int,
    s: int,
    length: int,
    groups: int = 1,
    gate: bool = True,
    soft: int = 1,
    large: bool = False,
) -> Case:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        inputs = {
            "u": rng.normal(size=(n, d, length)),
            "delta": rng.uniform(-5, 1, (n, d, length)) if soft else rng.uniform(0.1, 0.5, (n, d, length)),
            "a": -rng.uniform(0.05, 6, (d, s)),
            "b": rng.normal(size=(n, groups, s, length)),
            "c": rng.normal(size=(n, groups, s, length)),
            "d": rng.normal(size=d),
            "delta_bias": rng.uniform(-0.1, 0.1, d),
        }
        return {**inputs, "z": rng.normal(size=(n, d, length))} if gate else inputs

    return Case(name, {"delta_softplus": soft}, make, large=large)


def _spoilt(length: int) -> Case:
    """Steps of no size at all, and gates that are shut or wide open."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        inputs = _case("", 2, 5, 3, length).inputs(rng)
        inputs["delta"][0, 1:3, 5 : length - 2] = -np.inf
        inputs["z"][1, 0, ::2], inputs["z"][1, 0, 1::2] = -6e4, 600
        return inputs

    return Case(f"strange_numbers_of_{length}_tokens", {"delta_softplus": 1}, make)


# Mamba 130M on 2048 tokens, and on 197 of 8 images as vision's Mambas have them; VMamba's first stage, four directions.
_BENCHMARKS = (
    _case("mamba_130m", 1, 1536, 16, 2048, large=True),
    _case("vision_mamba", 8, 1536, 16, 197, large=True),
    _case("vmamba_four_ways", 8, 768, 1, 3136, 4, gate=False, large=True),
)

_CASES = (
    _case("one_of_each", 1, 1, 1, 1),
    _case("mamba", 2, 6, 16, 64),
    _case("without_options", 2, 5, 4, 33, gate=False, soft=0),
    _case("odd_length", 1, 130, 17, 71),
    _case("groups", 2, 12, 2, 40, 4),
    _case("group_of_each_channel", 1, 6, 3, 31, 6),
    _case("many_states", 1, 3, 256, 24),
    _case("many_channels", 2, 300, 1, 16),
    _case("chunks", 2, 6, 5, 300),
    _case("chunks_of_pairs", 3, 200, 6, 152),
    _case("chunks_of_odd_groups", 2, 12, 2, 259, 4, gate=False, soft=0),
    _case("chunks_of_many_states", 1, 4, 129, 130),
    _case("no_tokens", 2, 3, 4, 0),
    _case("no_states", 2, 3, 0, 5),
    _case("no_images", 0, 3, 4, 5),
    _spoilt(40),
    _spoilt(300),
    *_BENCHMARKS,
)


def _guard(node: AliasedNode) -> Refusal | None:
    for name in ("B", "C"):
        rank = len(node.shapes.get(name, (0, 0, 0)))
        if rank not in (2, 3, 4):
            return Refusal(
                f"{name} has {rank} dimensions",
                "[channels, states], [batch, states, length], or [batch, groups, states, length]",
                f"expand {name} to one of these where the model is exported",
            )
    return None


def _prologue(node: AliasedNode) -> dict[str, Value]:
    """The maps of groups, each channel a group where one map is the same for all tokens; zeros for what is left out."""
    g = node.builder()
    channels, states, length = g.Shape("a")[:1], g.Shape("a")[1:2], g.Shape("u")[2:3]
    ranks = {name: len(node.shapes.get(name, (0, 0, 0))) for name in ("B", "C")}
    whole = g.Concat(g.Shape("u")[:1], channels, states, length, axis=0)

    def maps(name: str) -> Value:
        if 2 not in ranks.values():
            return g.Reshape(name, [0, -1, states, length])
        if ranks[name] < 4:
            fixed = ranks[name] == 2
            one = g.Reshape(name, [1, channels, states, 1] if fixed else [0, 1, states, length])
            return g.Expand(one, whole)
        each = g.Div(channels, g.Shape(name)[1:2])
        return g.Gather(name, g.Div(g.arange(channels), each), axis=1)

    left_out = [name for name in ("d", "delta_bias") if name not in node.present]
    zeros = {name: g.Expand(0.0, channels) for name in left_out}
    return {name.lower(): maps(name) for name in ("B", "C")} | zeros


def _widened(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    return {"y": g.Cast("output", to="float32") if node.attrs["out_float"] else g.Identity("output")}


_MAMBA = Alias(
    op_type="SelectiveScan",
    domains=("mamba_ssm", "mamba"),
    inputs=("u", "delta", "a", "B", "C", "d?", "z?", "delta_bias?"),
    attributes=(
        Attr("delta_softplus", Kind.INT, 0),
        Attr("return_last_state", Kind.INT, 0, ignored=True),
    ),
    guard=_guard,
    fields=lambda node: {"delta_softplus": node.attrs["delta_softplus"]},
    prologue=_prologue,
    source="state-spaces/mamba, selective_scan_interface.py: users' own nodes, inputs in the order of forward",
)
_ALIASES = (
    _MAMBA,
    replace(
        _MAMBA,
        domains=("com.depthart",),
        inputs=("u", "delta", "a", "B", "C", "d?", "delta_bias?"),
        attributes=(*_MAMBA.attributes, Attr("out_float", Kind.INT, 0)),
        outputs=("y", "last"),
        epilogue=_widened,
        source="VMamba's exporter; its float32 output of half precision (out_float) has the rounding of half precision",
    ),
)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """For each state of a token its decay (a product and an exponential), two products and two sums with their products."""
    batch, channels, length = shapes["u"]
    return Work(flops=batch * channels * length * (7 * shapes["a"][1] + 20))


STATE_SPACE_SCAN = OpDef(
    name="StateSpaceScan",
    doc=(
        "The selective scan of a state space: x = exp(delta a) x + delta b u and y = c x for each token, from the state 0; "
        "then y + d u, times silu(z). States and sums are float32. Every channel has a state of its own, and the channels "
        "of a group share b and c."
    ),
    inputs=(
        Port("u", "T", 3, "[N, d, L]"),
        Port("delta", "T", 3, "[N, d, L]: step sizes, before delta_bias and softplus"),
        Port("a", "F", 2, f"[d, S]: rates, negative ones for a decay; finite, S at most {MOST_STATES}"),
        Port("b", "T", 4, "[N, G, S, L]: G divides d, and channel i is of group i // (d / G)"),
        Port("c", "T", 4, "[N, G, S, L]"),
        Port("d", "F", 1, "[d]: weight of u in the output"),
        Port("delta_bias", "F", 1, "[d]"),
        Port("z", "T", 3, "[N, d, L]: gates", optional=True),
    ),
    outputs=(
        Port("output", "T", 3, "[N, d, L]"),
        Port("last", "F", 3, "[N, d, S]: states after the last token"),
    ),
    fields=(flag("delta_softplus", "1: softplus of the step sizes"),),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=_ALIASES,
    cases=_CASES,
    tolerance={"float32": 3.4e-7, "float16": 4.5e-4, "bfloat16": 3.4e-3},
    benchmarks=_BENCHMARKS,
    work=_work,
    chain="unrolled-scan",
)
