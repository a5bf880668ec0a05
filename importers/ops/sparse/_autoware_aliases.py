"""Lists the forms in which Autoware's exporter (AWML, projects/SparseConvolution) writes sparse convolution with spconv.

One node makes the rulebook, `GetIndicePairsImplicitGemm`, and those of all layers that share it read it. What passes between
them: pairs as ours are, [K, M]; pair_mask [M, 1], of each row the bits of the taps that it has; mask_argsort [M], an order
of rows that groups equal masks. spconv's order is one of many and only makes it faster: here it is that of the rows, and the
convolution does not read it. With strides, spconv's rows of the output come in an order that changes from run to run.
"""

from __future__ import annotations

from trtsmith.importers.opdef import Alias, AliasedNode, Attr, Fields, Kind, Refusal

_RULEBOOK_SOURCE = (
    "Autoware, autoware_tensorrt_plugins (get_indices_pairs_implicit_gemm_plugin); AWML, sparse_functional.py"
)
_CONVOLUTION_SOURCE = "Autoware, autoware_tensorrt_plugins (implicit_gemm_plugin); AWML, sparse_functional.py"

LIMIT = 256_000
"""Rows of an output, at most: out_indices_num_limit_ of Autoware's plugin, which fails beyond."""

_MASK_IMPLICIT_GEMM = 1
"""spconv's ConvAlgo.MaskImplicitGemm; 0 is Native and 2 MaskSplitImplicitGemm."""

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


def _rulebook_guard(node: AliasedNode) -> Refusal | None:
    a = node.attrs
    if a["subm"] not in (0, 1):
        return Refusal(f"subm = {a['subm']}", "0 or 1", "export the model again")
    if a["transpose"] != 0:
        return Refusal(
            f"transpose = {a['transpose']}: the rulebook of a transposed convolution is not made",
            "transpose = 0",
            "use a sparse convolution and dense upsampling behind it",
        )
    if a["algo"] != _MASK_IMPLICIT_GEMM:
        return Refusal(
            f"algo = {a['algo']}",
            f"{_MASK_IMPLICIT_GEMM}, spconv's MaskImplicitGemm, with one mask",
            "export with algo=ConvAlgo.MaskImplicitGemm, as AWML does",
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


SUBMANIFOLD = (_rulebook(subm=True),)
STRIDED = (_rulebook(subm=False),)

_LEAKY_RELU = 3
"""Of cumm's Activation: none, ReLU, sigmoid, leaky ReLU."""


def _convolution_guard(node: AliasedNode) -> Refusal | None:
    a = node.attrs
    if not 0 <= a["act_type"] <= _LEAKY_RELU:
        return Refusal(
            f"act_type = {a['act_type']}", "0 to 3: none, ReLU, sigmoid, leaky ReLU", "export again"
        )
    slope = a["act_alpha"] if a["act_type"] == _LEAKY_RELU else 0.0
    for name, allowed in (("act_alpha", max(slope, 0.0)), ("act_beta", 0.0), ("output_scale", 1.0)):
        if a[name] != allowed:
            return Refusal(
                f"{name} = {a[name]} with act_type = {a['act_type']}",
                f"{name} = {allowed}, all that Autoware's plugin computes",
                "export the model again, in floating point",
            )
    if a["output_add_scale"] not in (0.0, 1.0):
        return Refusal(
            f"output_add_scale = {a['output_add_scale']}, of a sum that the node has no input for",
            "output_add_scale = 0.0",
            "export the model again, in floating point",
        )
    return None


_CONVOLUTION = Alias(
    op_type="ImplicitGemm",
    domains=("autoware",),
    inputs=("features", "weights", "pairs", "pair_mask", "mask_argsort", "bias?"),
    attributes=(
        Attr("is_train", Kind.INT, 0, ignored=True),
        Attr("is_subm", Kind.INT, 0, ignored=True),
        Attr("fp32_accum", Kind.INT, 1, ignored=True),
        Attr("act_type", Kind.INT, 0),
        Attr("act_alpha", Kind.FLOAT, 0.0),
        Attr("act_beta", Kind.FLOAT, 0.0),
        Attr("output_scale", Kind.FLOAT, 1.0),
        Attr("output_add_scale", Kind.FLOAT, 0.0),
    ),
    guard=_convolution_guard,
    fields=lambda node: {"activation": node.attrs["act_type"], "slope": node.attrs["act_alpha"]},
    source=_CONVOLUTION_SOURCE,
)

CONVOLUTION = (_CONVOLUTION,)
