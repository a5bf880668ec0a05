"""Models that the rule unrolled-scan takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.rule_examples.example import Example

TOKENS = 4
"""As many as states, so that an axis taken for another is of the right size."""

SIZES = {"dt": "[2, 3, 4]", "a": "[1, 3, 1, 4]", "b": "[2, 4, 4]", "c": "[2, 4, 4]", "u": "[2, 3, 4]"}


def model(
    before: str, token: str, result: str = "float[2, 3, 4]", kind: str = "float", axis: int = -1, **sizes: str
) -> str:
    """A recurrence over the tokens T after P in the lines of `token`, each of which gives a part pT of the result."""
    signature = ", ".join(f"{kind}{shape} {name}" for name, shape in {**SIZES, **sizes}.items())
    numbers = ", ".join(f"int64 i{t} = {{{t}}}" for t in range(TOKENS))
    axes = ", ".join(f"int64[1] axis{t} = {{{t}}}" for t in range(5))
    lines = "\n".join(
        line.replace("{T}", str(t)).replace("{N}", str(t + 1)).replace("{P}", f"x{t - 1}" if t else "zero")
        for t in range(TOKENS)
        for line in token.strip().splitlines()
    )
    parts = ", ".join(f"p{t}" for t in range(TOKENS))
    return f"""<ir_version: 9, opset_import: ["" : 18]>
    g ({signature}) => ({result.replace("float", kind)} y)
    <{numbers}, {axes}, int64[3] sizes = {{2, 3, 4}}, int64[1] end = {{-1}}, float limit = {{20}}> {{
        {before.strip()}
        {lines}
        y = Concat <axis = {axis}> ({parts})
    }}"""


TRANSFORMERS = (
    """
        soft = Softplus (dt)
        above = Greater (dt, limit)
        steps = Where (above, dt, soft)
        wide = Unsqueeze (steps, axis3)
        scaled = Mul (a, wide)
        decay = Exp (scaled)
        keys = Unsqueeze (b, axis1)
        left = Mul (wide, keys)
        right = Unsqueeze (u, axis3)
        added = Mul (left, right)
        zeros = ConstantOfShape <value = float[1] {0}> (sizes)
        zero = CastLike (zeros, u)
    """,
    """
        d{T} = Gather <axis = 2> (decay, i{T})
        k{T} = Mul (d{T}, {P})
        e{T} = Gather <axis = 2> (added, i{T})
        x{T} = Add (k{T}, e{T})
        c{T} = Gather <axis = 1> (c, i{T})
        v{T} = Unsqueeze (c{T}, end)
        m{T} = MatMul (x{T}, v{T})
        y{T} = Gather <axis = 2> (m{T}, i0)
        p{T} = Unsqueeze (y{T}, end)
    """,
)
"""As PyTorch exports transformers' loop: b is [images, tokens, states], and so is c."""


def gated(text: str) -> str:
    """The same with + D u and * silu(z) behind the scan, as transformers and selective_scan_ref have it."""
    kind = "float16" if "float16[2, 3, 4] u" in text else "float"
    return (
        text.replace(") => (", f", {kind}[3, 1] d, {kind}[2, 3, 4] z) => (")
        .replace(
            "y = Concat",
            """skip = Mul (u, d)
        shut = Sigmoid (z)
        gate = Mul (z, shut)
        sums = Concat""",
        )
        .removesuffix("}")
        + """    added_skip = Add (sums, skip)
        y = Mul (added_skip, gate)
    }"""
    )


_EINSUM = (
    """
        scaled = Einsum <equation = "bdl,dn->bdln"> (dt, a)
        decay = Exp (scaled)
        added = Einsum <equation = "bdl,bnl,bdl->bdln"> (dt, b, u)
        zero = ConstantOfShape (sizes)
    """,
    """
        d{T} = Gather <axis = 2> (decay, i{T})
        k{T} = Mul (d{T}, {P})
        e{T} = Gather <axis = 2> (added, i{T})
        x{T} = Add (k{T}, e{T})
        c{T} = Gather <axis = 2> (c, i{T})
        y{T} = Einsum <equation = "bdn,bn->bd"> (x{T}, c{T})
        p{T} = Unsqueeze (y{T}, axis2)
    """,
)
"""selective_scan_ref of mamba_ssm."""

_TOKENS_FIRST = (
    """
        turned = Transpose <perm = [0, 2, 1]> (dt)
        biased = Add (turned, bias)
        steps = Softplus (biased)
        scaled = Einsum <equation = "bld,dn->bldn"> (steps, a)
        decay = Exp (scaled)
        input = Transpose <perm = [0, 2, 1]> (u)
        added = Einsum <equation = "bld,bln,bld->bldn"> (steps, b, input)
        none = Cast <to = 1> (i0)
        zero = Expand (none, sizes)
    """,
    _EINSUM[1]
    .replace("axis = 2> (decay", "axis = 1> (decay")
    .replace("axis = 2> (added", "axis = 1> (added")
    .replace("axis2", "axis1"),
)
_SLICES = (
    """
        wide = Unsqueeze (dt, axis3)
        rates = Unsqueeze (a, axis1)
        scaled = Mul (wide, rates)
        decay = Exp (scaled)
        mixed = Mul (u, dt)
        input = Unsqueeze (mixed, axis3)
        turned = Transpose <perm = [0, 2, 1]> (b)
        keys = Unsqueeze (turned, axis1)
        added = Mul (input, keys)
        d0, d1, d2, d3 = Split <axis = 2, num_outputs = 4> (decay)
        zero = ConstantOfShape (sizes)
    """,
    """
        f{T} = Squeeze (d{T}, axis2)
        k{T} = Mul ({P}, f{T})
        g{T} = Slice (added, axis{T}, axis{N}, axis2)
        e{T} = Squeeze (g{T}, axis2)
        x{T} = Add (e{T}, k{T})
        h{T} = Slice (c, axis{T}, axis{N}, axis2)
        c{T} = Squeeze (h{T}, axis2)
        v{T} = Unsqueeze (c{T}, axis1)
        w{T} = Mul (v{T}, x{T})
        p{T} = ReduceSum <keepdims = KEPT> (w{T}, end)
    """,
)


def _sliced(kept: int) -> Sequence[str]:
    """The sum keeps its axis, which Concat joins; or it does not, and gets one."""
    token = _SLICES[1].replace("KEPT", str(kept))
    return _SLICES[0], token if kept else token.replace(
        "p{T} = R", "y{T} = R"
    ) + "p{T} = Unsqueeze (y{T}, end)\n"


_HALF = model(
    TRANSFORMERS[0]
    .replace("above =", "half = Cast <to = 10> (limit)\nabove =")
    .replace("limit)\n        s", "half)\n        s"),
    TRANSFORMERS[1]
    .replace("(x{T}, v", "(h{T}, v")
    .replace("c{T} =", "h{T} = Cast <to = 10> (x{T})\n c{T} =", 1),
    kind="float16",
)
"""With casts, as of a module in half precision."""

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "unrolled-scan": (
        Example("transformers", model(*TRANSFORMERS)),
        Example(
            "transformers with casts, in half precision",
            _HALF,
            rtol=2e-3,
            atol=2e-3,
        ),
        Example(
            "whole numbers on the way",
            model(
                TRANSFORMERS[0]
                .replace("(b, axis1)", "(again, axis1)")
                .replace("keys =", "whole = Cast <to = 6> (b)\nagain = Cast <to = 1> (whole)\nkeys ="),
                TRANSFORMERS[1],
            ),
            feeds={"b": np.linspace(-3.5, 3.5, 32, dtype=np.float32).reshape(2, 4, 4)},
        ),
        Example(
            "fewer tokens than there are",
            model(*TRANSFORMERS, dt="[2, 3, 6]", b="[2, 6, 4]", c="[2, 6, 4]", u="[2, 3, 6]"),
            scale=0.5,  # states grow to millions otherwise, and sums of them cancel
        ),
        Example("selective_scan_ref", model(*_EINSUM, a="[3, 4]")),
        Example(
            "selective_scan_ref with maps of each channel",
            model(
                _EINSUM[0].replace("bnl", "bdnl"),
                _EINSUM[1].replace("2> (c,", "3> (c,").replace(",bn-", ",bdn-"),
                a="[3, 4]",
                b="[2, 3, 4, 4]",
                c="[2, 3, 4, 4]",
            ),
        ),
        Example(
            "tokens before channels, and a bias",
            model(*_TOKENS_FIRST, "float[2, 4, 3]", axis=1, a="[3, 4]", bias="[3]"),
        ),
        Example("slices, and a sum that keeps its axis", model(*_sliced(1), a="[3, 4]")),
        Example("slices, and a sum that does not", model(*_sliced(0), a="[3, 4]")),
        Example(
            "one image and one channel",
            model(
                TRANSFORMERS[0],
                TRANSFORMERS[1],
                "float[1, 1, 4]",
                dt="[1, 1, 4]",
                a="[1, 1, 1, 4]",
                b="[1, 4, 4]",
                c="[1, 4, 4]",
                u="[1, 1, 4]",
            ).replace("{2, 3, 4}", "{1, 1, 4}"),
        ),
    ),
    "scan-gate": (
        Example("transformers", gated(model(*TRANSFORMERS))),
        Example("selective_scan_ref", gated(model(*_EINSUM, a="[3, 4]"))),
        Example(
            "half precision",
            gated(_HALF),
            feeds={"a": -np.ones((1, 3, 1, 4), np.float16)},  # others grow beyond its range
            rtol=4e-3,
            atol=4e-2,  # sums of parts of up to 270, each rounded in the original
        ),
    ),
}
