"""Rewrites reductions, statistics and running products."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.reductions.cumulative_product import CUMULATIVE_PRODUCT
from trtsmith.converter.rewrite.rules.reductions.half_means import HALF_MEANS
from trtsmith.converter.rewrite.rules.reductions.log_sums import LOG_SUMS
from trtsmith.converter.rewrite.rules.reductions.reduce_forms import AXES, BATCH_STATISTICS, BOOL_REDUCE
from trtsmith.converter.rewrite.rules.reductions.short_reductions import SHORT_REDUCTIONS

RULES: tuple[NodeRule, ...] = (
    AXES,
    CUMULATIVE_PRODUCT,
    BATCH_STATISTICS,
    BOOL_REDUCE,
    HALF_MEANS,
    LOG_SUMS,
    SHORT_REDUCTIONS,
)
