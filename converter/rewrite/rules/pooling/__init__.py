"""Rewrites pooling, and what looks at windows as pooling does."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.pooling.lrn import LRN
from trtsmith.converter.rewrite.rules.pooling.max_pool_indices import MAX_POOL_INDICES
from trtsmith.converter.rewrite.rules.pooling.max_unpool import MAX_UNPOOL
from trtsmith.converter.rewrite.rules.pooling.pool_forms import POOLING
from trtsmith.converter.rewrite.rules.pooling.roi_align import ROI_ALIGN

RULES: tuple[NodeRule, ...] = (
    POOLING,
    MAX_POOL_INDICES,
    MAX_UNPOOL,
    ROI_ALIGN,
    LRN,
)
