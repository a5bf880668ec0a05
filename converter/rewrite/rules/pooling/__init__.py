"""Rewrites pooling and other operators on windows."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.pooling.lrn import lrn_rule
from trtsmith.converter.rewrite.rules.pooling.max_pool_indices import max_pool_indices_rule
from trtsmith.converter.rewrite.rules.pooling.max_unpool import max_unpool_rule
from trtsmith.converter.rewrite.rules.pooling.pool_forms import pooling_rule
from trtsmith.converter.rewrite.rules.pooling.roi_align import roi_align_rule

RULES: tuple[NodeRule, ...] = (
    pooling_rule,
    max_pool_indices_rule,
    max_unpool_rule,
    roi_align_rule,
    lrn_rule,
)
