"""Rewrites operators that select elements: NonZero, Unique, Compress, TopK, NonMaxSuppression."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.selection.compress import compress_plugin_rule, compress_rule
from trtsmith.converter.rewrite.rules.selection.large_top_k_plugin import large_top_k_plugin_rule
from trtsmith.converter.rewrite.rules.selection.non_max_suppression import (
    non_max_suppression_plugin_rule,
    non_max_suppression_rule,
)
from trtsmith.converter.rewrite.rules.selection.non_zero import non_zero_plugin_rule, non_zero_rule
from trtsmith.converter.rewrite.rules.selection.one_hot import dynamic_hardmax_rule, dynamic_one_hot_rule
from trtsmith.converter.rewrite.rules.selection.unique import unique_plugin_rule, unique_rule

RULES: tuple[NodeRule, ...] = (
    large_top_k_plugin_rule,
    compress_rule,
    compress_plugin_rule,
    non_zero_rule,
    unique_rule,
    unique_plugin_rule,
    non_max_suppression_rule,
    non_zero_plugin_rule,
    non_max_suppression_plugin_rule,
    dynamic_one_hot_rule,
    dynamic_hardmax_rule,
)
