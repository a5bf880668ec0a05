"""Rewrites operators that select elements: NonZero, Unique, Compress, TopK, NonMaxSuppression."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.selection.compress import COMPRESS, COMPRESS_PLUGIN
from trtsmith.converter.rewrite.rules.selection.large_top_k_plugin import LARGE_TOP_K_PLUGIN
from trtsmith.converter.rewrite.rules.selection.non_max_suppression import (
    NON_MAX_SUPPRESSION,
    NON_MAX_SUPPRESSION_PLUGIN,
)
from trtsmith.converter.rewrite.rules.selection.non_zero import NON_ZERO, NON_ZERO_PLUGIN
from trtsmith.converter.rewrite.rules.selection.unique import UNIQUE, UNIQUE_PLUGIN

RULES: tuple[NodeRule, ...] = (
    LARGE_TOP_K_PLUGIN,
    COMPRESS,
    COMPRESS_PLUGIN,
    NON_ZERO,
    UNIQUE,
    UNIQUE_PLUGIN,
    NON_MAX_SUPPRESSION,
    NON_ZERO_PLUGIN,
    NON_MAX_SUPPRESSION_PLUGIN,
)
