"""Rewrites operators that move elements between positions: blocks, channels and depth."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.layout.col2im import COL2IM
from trtsmith.converter.rewrite.rules.layout.conv_transpose import CONV_TRANSPOSE
from trtsmith.converter.rewrite.rules.layout.depthwise_filters import DEPTHWISE_FILTERS
from trtsmith.converter.rewrite.rules.layout.image_convolution import IMAGE_CONVOLUTION
from trtsmith.converter.rewrite.rules.layout.space_to_depth import SPACE_TO_DEPTH
from trtsmith.converter.rewrite.rules.layout.tokens_as_maps import TOKENS_AS_MAPS

RULES: tuple[NodeRule, ...] = (
    SPACE_TO_DEPTH,
    COL2IM,
    CONV_TRANSPOSE,
    IMAGE_CONVOLUTION,
    DEPTHWISE_FILTERS,
    TOKENS_AS_MAPS,
)
