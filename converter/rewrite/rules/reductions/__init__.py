"""Rewrites reductions, statistics and running products."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.reductions.axes import axes_rule
from trtsmith.converter.rewrite.rules.reductions.batch_statistics import batch_statistics_rule
from trtsmith.converter.rewrite.rules.reductions.bool_reduce import bool_reduce_rule
from trtsmith.converter.rewrite.rules.reductions.cumulative_product import cumulative_product_rule
from trtsmith.converter.rewrite.rules.reductions.half_means import half_means_rule
from trtsmith.converter.rewrite.rules.reductions.layer_statistics import layer_statistics_rule
from trtsmith.converter.rewrite.rules.reductions.log_sums import log_sums_rule
from trtsmith.converter.rewrite.rules.reductions.scalar_reduce import scalar_reduce_rule
from trtsmith.converter.rewrite.rules.reductions.short_reductions import short_reductions_rule

RULES: tuple[NodeRule, ...] = (
    axes_rule,
    cumulative_product_rule,
    batch_statistics_rule,
    bool_reduce_rule,
    layer_statistics_rule,
    scalar_reduce_rule,
    half_means_rule,
    log_sums_rule,
    short_reductions_rule,
)
