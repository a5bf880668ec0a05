"""The rules for standard operators, in the order in which a node is offered to them: an explicit tuple."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.bits.bit_cast import BIT_CAST
from trtsmith.converter.rewrite.rules.bits.bit_shift import BIT_SHIFT
from trtsmith.converter.rewrite.rules.bits.bitwise import BITWISE
from trtsmith.converter.rewrite.rules.bits.byte_casts import BYTE_CASTS
from trtsmith.converter.rewrite.rules.contrib.activations import CONTRIB_ACTIVATIONS
from trtsmith.converter.rewrite.rules.contrib.arrays import CONTRIB_ARRAYS
from trtsmith.converter.rewrite.rules.contrib.attention import CONTRIB_ATTENTION
from trtsmith.converter.rewrite.rules.contrib.crop_and_resize import CONTRIB_CROP
from trtsmith.converter.rewrite.rules.contrib.embedding import CONTRIB_EMBEDDING
from trtsmith.converter.rewrite.rules.contrib.fourier import CONTRIB_FOURIER
from trtsmith.converter.rewrite.rules.contrib.fused_conv import CONTRIB_CONV
from trtsmith.converter.rewrite.rules.contrib.fused_matmul import CONTRIB_MATMUL
from trtsmith.converter.rewrite.rules.contrib.group_query import CONTRIB_GROUP_QUERY
from trtsmith.converter.rewrite.rules.contrib.multi_head import CONTRIB_MULTI_HEAD
from trtsmith.converter.rewrite.rules.contrib.norm import CONTRIB_NORM
from trtsmith.converter.rewrite.rules.contrib.refused import LAID_OUT
from trtsmith.converter.rewrite.rules.contrib.rotary import CONTRIB_ROTARY
from trtsmith.converter.rewrite.rules.control_flow.constant_if import CONSTANT_IF
from trtsmith.converter.rewrite.rules.control_flow.loops import LOOPS
from trtsmith.converter.rewrite.rules.control_flow.scans import SCANS
from trtsmith.converter.rewrite.rules.layout.col2im import COL2IM
from trtsmith.converter.rewrite.rules.layout.conv_transpose import CONV_TRANSPOSE
from trtsmith.converter.rewrite.rules.layout.space_to_depth import SPACE_TO_DEPTH
from trtsmith.converter.rewrite.rules.matrices.determinant import DETERMINANT
from trtsmith.converter.rewrite.rules.matrices.dynamic_eye import DYNAMIC_EYE
from trtsmith.converter.rewrite.rules.matrices.integer_products import INTEGER_PRODUCTS
from trtsmith.converter.rewrite.rules.matrices.upper_triangle import UPPER_TRIANGLE
from trtsmith.converter.rewrite.rules.matrices.vectors import VECTORS
from trtsmith.converter.rewrite.rules.pointwise.constant_logic import CONSTANT_LOGIC
from trtsmith.converter.rewrite.rules.pointwise.float_mod import FLOAT_MOD
from trtsmith.converter.rewrite.rules.pointwise.functions import FUNCTIONS
from trtsmith.converter.rewrite.rules.pointwise.half_gates import HALF_GATES
from trtsmith.converter.rewrite.rules.pointwise.half_range import HALF_RANGE
from trtsmith.converter.rewrite.rules.pointwise.wide_activations import WIDE_ACTIVATIONS
from trtsmith.converter.rewrite.rules.pooling.lrn import LRN
from trtsmith.converter.rewrite.rules.pooling.max_pool_indices import MAX_POOL_INDICES
from trtsmith.converter.rewrite.rules.pooling.max_unpool import MAX_UNPOOL
from trtsmith.converter.rewrite.rules.pooling.pool_forms import POOLING
from trtsmith.converter.rewrite.rules.pooling.roi_align import ROI_ALIGN
from trtsmith.converter.rewrite.rules.quantized import QUANTISED
from trtsmith.converter.rewrite.rules.random.random_values import RANDOM_VALUES
from trtsmith.converter.rewrite.rules.random.training_dropout import TRAINING_DROPOUT
from trtsmith.converter.rewrite.rules.recurrent.recurrent_forms import RECURRENT
from trtsmith.converter.rewrite.rules.reductions.axes import AXES
from trtsmith.converter.rewrite.rules.reductions.batch_statistics import BATCH_STATISTICS
from trtsmith.converter.rewrite.rules.reductions.bool_reduce import BOOL_REDUCE
from trtsmith.converter.rewrite.rules.reductions.cumulative_product import CUMULATIVE_PRODUCT
from trtsmith.converter.rewrite.rules.reductions.half_means import HALF_MEANS
from trtsmith.converter.rewrite.rules.reductions.log_sums import LOG_SUMS
from trtsmith.converter.rewrite.rules.reductions.short_reductions import SHORT_REDUCTIONS
from trtsmith.converter.rewrite.rules.resize.grid_sample_types import GRID_SAMPLE_TYPES
from trtsmith.converter.rewrite.rules.resize.resize_forms import RESIZE
from trtsmith.converter.rewrite.rules.scatter.scatter_elements import SCATTER_ELEMENTS
from trtsmith.converter.rewrite.rules.scatter.scatter_nd import SCATTER_ND
from trtsmith.converter.rewrite.rules.scatter.tensor_scatter import TENSOR_SCATTER
from trtsmith.converter.rewrite.rules.selection.compress import COMPRESS
from trtsmith.converter.rewrite.rules.selection.compress_plugin import COMPRESS_PLUGIN
from trtsmith.converter.rewrite.rules.selection.large_top_k import LARGE_TOP_K
from trtsmith.converter.rewrite.rules.selection.non_max_suppression import NON_MAX_SUPPRESSION
from trtsmith.converter.rewrite.rules.selection.non_max_suppression_plugin import NON_MAX_SUPPRESSION_PLUGIN
from trtsmith.converter.rewrite.rules.selection.non_zero import NON_ZERO
from trtsmith.converter.rewrite.rules.selection.non_zero_plugin import NON_ZERO_PLUGIN
from trtsmith.converter.rewrite.rules.selection.unique import UNIQUE
from trtsmith.converter.rewrite.rules.selection.unique_plugin import UNIQUE_PLUGIN
from trtsmith.converter.rewrite.rules.sequences.optionals import OPTIONALS
from trtsmith.converter.rewrite.rules.sequences.sequence_map import SEQUENCE_MAP
from trtsmith.converter.rewrite.rules.sequences.static_sequences import SEQUENCES
from trtsmith.converter.rewrite.rules.signal.dft import DFT
from trtsmith.converter.rewrite.rules.signal.mel_weights import MEL_WEIGHTS
from trtsmith.converter.rewrite.rules.signal.stft import STFT

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    AXES,
    FUNCTIONS,
    *QUANTISED,
    BITWISE,
    BIT_SHIFT,
    FLOAT_MOD,
    TENSOR_SCATTER,
    CUMULATIVE_PRODUCT,
    SCATTER_ELEMENTS,
    SCATTER_ND,
    DETERMINANT,
    RANDOM_VALUES,
    BIT_CAST,
    INTEGER_PRODUCTS,
    VECTORS,
    DYNAMIC_EYE,
    UPPER_TRIANGLE,
    SPACE_TO_DEPTH,
    LARGE_TOP_K,
    COMPRESS,
    COMPRESS_PLUGIN,
    NON_ZERO,
    UNIQUE,
    UNIQUE_PLUGIN,
    WIDE_ACTIVATIONS,
    TRAINING_DROPOUT,
    POOLING,
    MAX_POOL_INDICES,
    MAX_UNPOOL,
    COL2IM,
    ROI_ALIGN,
    DFT,
    STFT,
    MEL_WEIGHTS,
    RESIZE,
    BATCH_STATISTICS,
    LRN,
    CONV_TRANSPOSE,
    RECURRENT,
    GRID_SAMPLE_TYPES,
    NON_MAX_SUPPRESSION,
    CONTRIB_ACTIVATIONS,
    CONTRIB_MATMUL,
    CONTRIB_CONV,
    CONTRIB_NORM,
    CONTRIB_EMBEDDING,
    CONTRIB_ATTENTION,
    CONTRIB_MULTI_HEAD,
    CONTRIB_GROUP_QUERY,
    CONTRIB_ROTARY,
    CONTRIB_ARRAYS,
    CONTRIB_CROP,
    CONTRIB_FOURIER,
    LAID_OUT,
    LOOPS,
    SCANS,
    SEQUENCES,
    SEQUENCE_MAP,
    OPTIONALS,
    BOOL_REDUCE,
    HALF_RANGE,
)
"""The rules for every TensorRT."""

RTX_RULES: tuple[NodeRule, ...] = (
    *RULES,
    HALF_GATES,
    HALF_MEANS,
    BYTE_CASTS,
    CONSTANT_LOGIC,
    LOG_SUMS,
    SHORT_REDUCTIONS,
    NON_ZERO_PLUGIN,
    NON_MAX_SUPPRESSION_PLUGIN,
)
"""With those for what TensorRT has a layer for and TensorRT-RTX has none, or one that fails or is wrong."""


def rules_for(flavour: str) -> tuple[NodeRule, ...]:
    """The rules for a flavour, "tensorrt" or "tensorrt_rtx"."""
    return RTX_RULES if flavour == "tensorrt_rtx" else RULES
