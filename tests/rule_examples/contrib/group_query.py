"""Models that the rule contrib-group-query takes or refuses."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _example(
    name: str, attributes: str, tokens: int, room: int, last: list[int], total: int, *,
    packed: bool = False, tables: int = 0, opset: int = 17, size: int = 16,
) -> Example:  # fmt: skip
    batch = len(last)
    inputs = [f"float[{batch}, {tokens}, {8 * size if packed else 4 * size}] q"]
    call = ["q", "", ""] if packed else ["q", "k", "v"]
    if not packed:
        inputs += [f"float[{batch}, {tokens}, {2 * size}] {kv}" for kv in "kv"]
    if room:
        inputs += [f"float[{batch}, 2, {room}, {size}] {kv}" for kv in ("pk", "pv")]
    call += ["pk", "pv"] if room else ["", ""]
    inputs.append(f"int32[{batch}] last")
    call += ["last", "total"]
    if tables:
        inputs += [f"float[16, {tables}] {table}" for table in ("c", "s")]
        call += ["c", "s"]
    slots = max(room, total)
    caches = ", ".join(f"float[{batch}, 2, {slots}, {size}] {kv}" for kv in ("nk", "nv"))
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g ({", ".join(inputs)}) => (float[{batch}, {tokens}, {4 * size}] y, {caches}) <int32[1] total = {{{total}}}> {{
            y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2{attributes}> ({", ".join(call)})
        }}""",
        feeds={"last": np.array(last, np.int32)},
        scale=0.4,
        rtol=1e-4,
        atol=1e-5,
    )


_ROTARY = ", do_rotary = 1"


_EXAMPLES = (
    _example("a prompt", "", 5, 0, [4, 4], 5),
    _example("a token behind a full past", ", scale = 0.3", 1, 6, [6, 6], 7),
    _example("a token, rows of other lengths, room left", ", softcap = 2.0", 1, 9, [6, 3], 7, opset=13),
    _example("several tokens behind a past", _ROTARY, 3, 4, [6], 7, tables=8),
    _example(
        "a prompt, packed, turned in part",
        _ROTARY + ", rotary_interleaved = 1",
        4,
        0,
        [3, 3],
        4,
        packed=True,
        tables=8,
        size=32,
    ),
    _example("a token, packed, turned", _ROTARY, 1, 8, [5, 7], 8, packed=True, tables=8, opset=12),
    _example("a prompt with a window", ", local_window_size = 2", 5, 0, [4, 4], 5),
    _example("a token with a window", ", local_window_size = 3", 1, 9, [6, 3], 7, opset=13),
    _example("a prompt into an empty cache", _ROTARY, 4, 8, [3, 3], 4, tables=8),
)


EXAMPLES = {"contrib-group-query": _EXAMPLES}


REFUSED: dict[str, tuple[str, ...]] = {
    "contrib-group-query": (
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[1, 3, 16] q, float[1, 3, 8] k, float[1, 3, 8] v, int32[1] last, int32[1] total) => (float[1, 3, 16] y) {
            y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, smooth_softmax = 1>
                (q, k, v, , , last, total)
        }""",
    ),
}
