"""The rules for standard operators, in the order in which a node is offered to them: an explicit tuple."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.axes import AXES
from converter.passes.rules.batch_statistics import BATCH_STATISTICS
from converter.passes.rules.bit_cast import BIT_CAST
from converter.passes.rules.bit_shift import BIT_SHIFT
from converter.passes.rules.bitwise import BITWISE
from converter.passes.rules.bool_reduce import BOOL_REDUCE
from converter.passes.rules.byte_casts import BYTE_CASTS
from converter.passes.rules.col2im import COL2IM
from converter.passes.rules.compress import COMPRESS
from converter.passes.rules.compress_plugin import COMPRESS_PLUGIN
from converter.passes.rules.constant_if import CONSTANT_IF
from converter.passes.rules.constant_logic import CONSTANT_LOGIC
from converter.passes.rules.contrib_activations import CONTRIB_ACTIVATIONS
from converter.passes.rules.contrib_arrays import CONTRIB_ARRAYS
from converter.passes.rules.contrib_attention import CONTRIB_ATTENTION
from converter.passes.rules.contrib_conv import CONTRIB_CONV
from converter.passes.rules.contrib_crop import CONTRIB_CROP
from converter.passes.rules.contrib_embedding import CONTRIB_EMBEDDING
from converter.passes.rules.contrib_fourier import CONTRIB_FOURIER
from converter.passes.rules.contrib_group_query import CONTRIB_GROUP_QUERY
from converter.passes.rules.contrib_matmul import CONTRIB_MATMUL
from converter.passes.rules.contrib_multi_head import CONTRIB_MULTI_HEAD
from converter.passes.rules.contrib_norm import CONTRIB_NORM
from converter.passes.rules.contrib_refused import LAID_OUT
from converter.passes.rules.contrib_rotary import CONTRIB_ROTARY
from converter.passes.rules.conv_transpose import CONV_TRANSPOSE
from converter.passes.rules.cumulative_product import CUMULATIVE_PRODUCT
from converter.passes.rules.determinant import DETERMINANT
from converter.passes.rules.dft import DFT
from converter.passes.rules.dynamic_eye import DYNAMIC_EYE
from converter.passes.rules.float_mod import FLOAT_MOD
from converter.passes.rules.functions import FUNCTIONS
from converter.passes.rules.grid_sample_types import GRID_SAMPLE_TYPES
from converter.passes.rules.half_gates import HALF_GATES
from converter.passes.rules.half_means import HALF_MEANS
from converter.passes.rules.half_range import HALF_RANGE
from converter.passes.rules.integer_products import INTEGER_PRODUCTS
from converter.passes.rules.large_top_k import LARGE_TOP_K
from converter.passes.rules.log_sums import LOG_SUMS
from converter.passes.rules.loops import LOOPS
from converter.passes.rules.lrn import LRN
from converter.passes.rules.max_pool_indices import MAX_POOL_INDICES
from converter.passes.rules.max_unpool import MAX_UNPOOL
from converter.passes.rules.mel_weights import MEL_WEIGHTS
from converter.passes.rules.non_max_suppression import NON_MAX_SUPPRESSION
from converter.passes.rules.non_max_suppression_plugin import NON_MAX_SUPPRESSION_PLUGIN
from converter.passes.rules.non_zero import NON_ZERO
from converter.passes.rules.non_zero_plugin import NON_ZERO_PLUGIN
from converter.passes.rules.optionals import OPTIONALS
from converter.passes.rules.pooling import POOLING
from converter.passes.rules.quantised import QUANTISED
from converter.passes.rules.random_values import RANDOM_VALUES
from converter.passes.rules.recurrent import RECURRENT
from converter.passes.rules.resize import RESIZE
from converter.passes.rules.roi_align import ROI_ALIGN
from converter.passes.rules.scans import SCANS
from converter.passes.rules.scatter_elements import SCATTER_ELEMENTS
from converter.passes.rules.scatter_nd import SCATTER_ND
from converter.passes.rules.sequence_map import SEQUENCE_MAP
from converter.passes.rules.sequences import SEQUENCES
from converter.passes.rules.short_reductions import SHORT_REDUCTIONS
from converter.passes.rules.space_to_depth import SPACE_TO_DEPTH
from converter.passes.rules.stft import STFT
from converter.passes.rules.tensor_scatter import TENSOR_SCATTER
from converter.passes.rules.training_dropout import TRAINING_DROPOUT
from converter.passes.rules.unique import UNIQUE
from converter.passes.rules.unique_plugin import UNIQUE_PLUGIN
from converter.passes.rules.upper_triangle import UPPER_TRIANGLE
from converter.passes.rules.vectors import VECTORS
from converter.passes.rules.wide_activations import WIDE_ACTIVATIONS

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
