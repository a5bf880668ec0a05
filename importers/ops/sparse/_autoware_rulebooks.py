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
            f"transpose = {a['transpose']}: the rulebook of a transposed convolution is not made",
            "transpose = 0",
            "use a sparse convolution and dense upsampling behind it",
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


def _masks(node: AliasedNode) -> str:
    """pair_mask and mask_argsort of `pairs`, and the number of rows, int32 `ag_rows`. Bit k of a mask is tap k below 32."""
    z, y, x = node.attrs["ksize"]
    halves = [
        f"{1 << tap if tap < _HALF else 0}, {1 << (tap - _HALF) if _HALF <= tap < 2 * _HALF else 0}"
        for tap in range(z * y * x)
    ]
    return f"""
ag_bits = Constant <value = float[{len(halves)}, 2] {{{", ".join(halves)}}}> ()
ag_zero = Constant <value = int32 {{0}}> ()
ag_one = Constant <value = int32 {{1}}> ()
ag_high = Constant <value = int32 {{{1 << _HALF}}}> ()
ag_i0 = Constant <value = int64[1] {{0}}> ()
ag_i1 = Constant <value = int64[1] {{1}}> ()
ag_i2 = Constant <value = int64[1] {{2}}> ()
ag_none = Less (pairs, ag_zero)
ag_some = Not (ag_none)
ag_flags = Cast <to = 1> (ag_some)
ag_columns = Transpose <perm = [1, 0]> (ag_flags)
ag_sums = MatMul (ag_columns, ag_bits)
ag_numbers = Cast <to = 6> (ag_sums)
ag_lower = Slice (ag_numbers, ag_i0, ag_i1, ag_i1)
ag_upper = Slice (ag_numbers, ag_i1, ag_i2, ag_i1)
ag_moved = Mul (ag_upper, ag_high)
pair_mask = Add (ag_moved, ag_lower)
ag_shape = Shape (pairs)
ag_size = Slice (ag_shape, ag_i1, ag_i2)
ag_length = Squeeze (ag_size)
ag_rows = Cast <to = 6> (ag_length)
mask_argsort = Range (ag_zero, ag_rows, ag_one)
"""


def _submanifold_outputs(node: AliasedNode) -> str:
    return f"{_masks(node)}out_indices = Identity (indices)\nnum_act_out = Identity (ag_rows)\n"


def _strided_outputs(node: AliasedNode) -> str:
    return f"{_masks(node)}out_indices = Identity (output_indices)\nnum_act_out = Identity (count)\n"


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
            "subm = 0: Autoware's plugin of spconv's Native algorithm computes submanifold convolutions alone",
            "subm = 1",
            "export with algo=ConvAlgo.MaskImplicitGemm",
        )
    return _rulebook_guard(node, _NATIVE)


_NATIVE_OUTPUTS = """
ag_zero = Constant <value = int32 {0}> ()
ag_one = Constant <value = int32 {1}> ()
ag_minus_one = Constant <value = int32 {-1}> ()
ag_i0 = Constant <value = int64[1] {0}> ()
ag_i1 = Constant <value = int64[1] {1}> ()
ag_i2 = Constant <value = int64[1] {2}> ()
ag_shape = Shape (pairs)
ag_size = Slice (ag_shape, ag_i1, ag_i2)
ag_length = Squeeze (ag_size)
num_act_out = Cast <to = 6> (ag_length)
ag_numbers = Range (ag_zero, num_act_out, ag_one)
ag_none = Less (pairs, ag_zero)
ag_outputs = Where (ag_none, ag_minus_one, ag_numbers)
ag_both_shape = Concat <axis = 0> (ag_i1, ag_shape)
ag_inputs_plane = Reshape (pairs, ag_both_shape)
ag_outputs_plane = Reshape (ag_outputs, ag_both_shape)
indice_pairs = Concat <axis = 0> (ag_inputs_plane, ag_outputs_plane)
ag_some = Not (ag_none)
ag_flags = Cast <to = 1> (ag_some)
ag_unit = Constant <value = float[1] {1}> ()
ag_units_shape = Concat <axis = 0> (ag_size, ag_i1)
ag_units = Expand (ag_unit, ag_units_shape)
ag_counts = MatMul (ag_flags, ag_units)
ag_taps = Slice (ag_shape, ag_i0, ag_i1)
ag_counts_flat = Reshape (ag_counts, ag_taps)
indice_pair_num = Cast <to = 6> (ag_counts_flat)
out_indices = Identity (indices)
"""

_NATIVE_RULEBOOK = Alias(
    op_type="GetIndicePairs",
    domains=("autoware",),
    inputs=("indices",),
    attributes=tuple(a for a in _attributes(subm=True) if a.name not in ("is_train", "do_sort")),
    outputs=("out_indices", "indice_pairs", "indice_pair_num", "num_act_out"),
    guard=_native_guard,
    fields=_submanifold_fields,
    epilogue=_NATIVE_OUTPUTS,
    source="Autoware, autoware_tensorrt_plugins (get_indices_pairs_plugin); AWML, sparse_functional.py",
)

SUBMANIFOLD = (_rulebook(subm=True), _NATIVE_RULEBOOK)
STRIDED = (_rulebook(subm=False),)
