"""Lists the forms in which Autoware's exporter (AWML, projects/SparseConvolution) writes sparse convolution with spconv.

One node makes the rulebook, and those of all layers that share it read it.

`GetIndicePairsImplicitGemm` and `ImplicitGemm`: pairs as ours are, [K, M]; pair_mask [M, 1], of each row the bits of the
taps that it has; mask_argsort [M], an order of rows that groups equal masks. spconv's order is one of many and only makes it
faster: here it is that of the rows, and the convolution does not read it. With strides, spconv's rows of the output come
in an order that changes from run to run; here they are sorted.

`GetIndicePairs` and `IndiceConv` (spconv's Native): indice_pairs [2, K, N], of each tap the rows of the input, then those of
the output, in any order and with -1 for no pair; indice_pair_num [K], how many there are. spconv puts pairs first and lets
-1 follow; here a pair is where its row of the output is. The convolution takes both.
"""

from __future__ import annotations

from math import prod

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal

_RULEBOOK_SOURCE = (
    "Autoware, autoware_tensorrt_plugins (get_indices_pairs_implicit_gemm_plugin); AWML, sparse_functional.py"
)

LIMIT = 256_000
"""Rows of an output, at most: out_indices_num_limit_ of Autoware's plugin, which fails beyond."""

_NATIVE, _MASK_IMPLICIT_GEMM = 0, 1
"""spconv's ConvAlgo; 2 is MaskSplitImplicitGemm, with two masks."""

_HALF = 16
"""Bits that float32 adds up exactly, and half of a mask."""

OUTPUTS = ("out_indices", "pairs", "pair_mask", "mask_argsort", "num_act_out")


def _three(name: str, *, ignored: bool = False) -> Attr:
    return Attr(name, Kind.INTS, lengths=(3,), ignored=ignored)


def _attributes(subm: bool) -> tuple[Attr, ...]:
    """spconv moves a submanifold kernel by half its size, whatever stride and padding say."""
    return (
        Attr("batch_size", Kind.INT),
        _three("spatial_shape"),
        Attr("algo", Kind.INT),
        _three("ksize"),
        _three("stride", ignored=subm),
        _three("padding", ignored=subm),
        _three("dilation"),
        _three("out_padding", ignored=True),  # of transposed convolutions
        Attr("subm", Kind.INT),
        Attr("transpose", Kind.INT),
        Attr("is_train", Kind.INT, ignored=True),  # the plugin passes 0
        Attr("do_sort", Kind.INT, 1, ignored=True),
    )


def _rulebook_guard(node: AliasedNode, algo: int = _MASK_IMPLICIT_GEMM) -> Refusal | None:
    a = node.attrs
    if a["subm"] not in (0, 1):
        return Refusal(f"subm = {a['subm']}", "0 or 1", "export the model again")
    if a["transpose"] != 0:
        return Refusal(
            f"transpose = {a['transpose']}: trtsmith makes no rulebook of a transposed convolution",
            "transpose = 0",
            "use a sparse convolution, and dense upsampling after it",
        )
    if a["algo"] != algo:
        return Refusal(
            f"algo = {a['algo']}",
            f"{algo}, the one of spconv's algorithms that this node stands for",
            "export with algo=ConvAlgo.MaskImplicitGemm or ConvAlgo.Native, as AWML does",
        )
    if a["subm"] and any(size % 2 == 0 for size in a["ksize"]):
        return Refusal(
            f"ksize = {list(a['ksize'])} of a submanifold convolution",
            "odd sizes, all that spconv computes",
            "export the model again with an odd kernel",
        )
    return None


def _submanifold_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "batch_size": a["batch_size"],
        "spatial_shape": a["spatial_shape"],
        "kernel_size": a["ksize"],
        "dilation": a["dilation"],
    }


def _strided_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {**_submanifold_fields(node), "stride": a["stride"], "padding": a["padding"], "limit": LIMIT}


def _masks(g: Builder, node: AliasedNode, rows: Value) -> dict[str, Value]:
    """pair_mask and mask_argsort of `pairs`. Bit k of a mask is tap k below 32."""
    taps = range(prod(node.attrs["ksize"]))
    halves = [
        [1 << tap if tap < _HALF else 0, 1 << (tap - _HALF) if _HALF <= tap < 2 * _HALF else 0]
        for tap in taps
    ]
    flags = g.Cast(~g.Less("pairs", np.int32(0)), to="float32")
    numbers = g.Cast(g.MatMul(g.Transpose(flags, perm=[1, 0]), np.array(halves, np.float32)), to="int32")
    lower, upper = g.Slice(numbers, [0], [1], [1]), g.Slice(numbers, [1], [2], [1])
    return {
        "pair_mask": upper * np.int32(1 << _HALF) + lower,
        "mask_argsort": g.Range(np.int32(0), rows, np.int32(1)),
    }


def _rows(g: Builder) -> Value:
    """How many rows of the output `pairs` have, int32."""
    return g.Cast(g.Squeeze(g.Shape("pairs")[1:2]), to="int32")


def _submanifold_outputs(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    rows = _rows(g)
    return {**_masks(g, node, rows), "out_indices": Value(g, "indices"), "num_act_out": rows}


def _strided_outputs(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    indices, count = g.inputs("output_indices", "count")
    return {**_masks(g, node, _rows(g)), "out_indices": indices, "num_act_out": count}


def _rulebook(subm: bool) -> Alias:
    return Alias(
        op_type="GetIndicePairsImplicitGemm",
        domains=("autoware",),
        inputs=("indices",),
        attributes=_attributes(subm),
        outputs=OUTPUTS,
        when=lambda node: (node.attrs["subm"] != 0) == subm,
        guard=_rulebook_guard,
        fields=_submanifold_fields if subm else _strided_fields,
        epilogue=_submanifold_outputs if subm else _strided_outputs,
        source=_RULEBOOK_SOURCE,
    )


def _native_guard(node: AliasedNode) -> Refusal | None:
    if node.attrs["subm"] == 0:
        return Refusal(
            "subm = 0: Autoware's plugin of spconv's Native algorithm computes only submanifold convolutions",
            "subm = 1",
            "export with algo=ConvAlgo.MaskImplicitGemm",
        )
    return _rulebook_guard(node, _NATIVE)


def _native_outputs(node: AliasedNode) -> dict[str, Value]:
    g = node.builder()
    (pairs,) = g.inputs("pairs")
    shape = g.Shape(pairs)
    taps, size, both = shape[:1], shape[1:2], g.vector(1, shape)
    rows = g.Cast(g.Squeeze(size), to="int32")
    none = pairs < np.int32(0)
    outputs = g.Where(none, np.int32(-1), g.Range(np.int32(0), rows, np.int32(1)))
    counts = g.MatMul(g.Cast(~none, to="float32"), g.Expand(np.array([1], np.float32), [size, 1]))
    return {
        "indice_pairs": g.Concat(g.Reshape(pairs, both), g.Reshape(outputs, both), axis=0),
        "indice_pair_num": g.Cast(g.Reshape(counts, taps), to="int32"),
        "out_indices": Value(g, "indices"),
        "num_act_out": rows,
    }


_NATIVE_RULEBOOK = Alias(
    op_type="GetIndicePairs",
    domains=("autoware",),
    inputs=("indices",),
    attributes=tuple(a for a in _attributes(subm=True) if a.name not in ("is_train", "do_sort")),
    outputs=("out_indices", "indice_pairs", "indice_pair_num", "num_act_out"),
    guard=_native_guard,
    fields=_submanifold_fields,
    epilogue=_native_outputs,
    source="Autoware, autoware_tensorrt_plugins (get_indices_pairs_plugin); AWML, sparse_functional.py",
)

SUBMANIFOLD = (_rulebook(subm=True), _NATIVE_RULEBOOK)
STRIDED = (_rulebook(subm=False),)
