"""Rewrites operators that move elements between positions: blocks, channels and depth."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.layout.col2im import col2im_rule
from trtsmith.converter.rewrite.rules.layout.conv_transpose import conv_transpose_rule
from trtsmith.converter.rewrite.rules.layout.depthwise_filters import depthwise_filters_rule
from trtsmith.converter.rewrite.rules.layout.image_convolution import image_convolution_rule
from trtsmith.converter.rewrite.rules.layout.many_axes import many_axes_rule
from trtsmith.converter.rewrite.rules.layout.scalar_tile import scalar_tile_rule
from trtsmith.converter.rewrite.rules.layout.slice_axes import slice_axes_rule
from trtsmith.converter.rewrite.rules.layout.space_to_depth import space_to_depth_rule
from trtsmith.converter.rewrite.rules.layout.tokens_as_maps import tokens_as_maps_rule

RULES: tuple[NodeRule, ...] = (
    space_to_depth_rule,
    col2im_rule,
    conv_transpose_rule,
    many_axes_rule,
    image_convolution_rule,
    depthwise_filters_rule,
    tokens_as_maps_rule,
    slice_axes_rule,
    scalar_tile_rule,
)
