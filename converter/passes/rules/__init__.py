"""The rules for standard operators, in the order in which a node is offered to them: an explicit tuple."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.axes import AXES
from converter.passes.rules.batch_statistics import BATCH_STATISTICS
from converter.passes.rules.col2im import COL2IM
from converter.passes.rules.constant_if import CONSTANT_IF
from converter.passes.rules.conv_transpose import CONV_TRANSPOSE
from converter.passes.rules.determinant import DETERMINANT
from converter.passes.rules.dft import DFT
from converter.passes.rules.eye_like import EYE_LIKE
from converter.passes.rules.functions import FUNCTIONS
from converter.passes.rules.grid_sample_types import GRID_SAMPLE_TYPES
from converter.passes.rules.lrn import LRN
from converter.passes.rules.max_pool_indices import MAX_POOL_INDICES
from converter.passes.rules.max_unpool import MAX_UNPOOL
from converter.passes.rules.mel_weights import MEL_WEIGHTS
from converter.passes.rules.non_max_suppression import NON_MAX_SUPPRESSION
from converter.passes.rules.pooling import POOLING
from converter.passes.rules.recurrent import RECURRENT
from converter.passes.rules.resize import RESIZE
from converter.passes.rules.roi_align import ROI_ALIGN
from converter.passes.rules.stft import STFT

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    AXES,
    FUNCTIONS,
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
    DETERMINANT,
    NON_MAX_SUPPRESSION,
    EYE_LIKE,
)
