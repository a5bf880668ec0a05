"""Rewrites operators of onnxruntime's own domain."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.contrib.activations import contrib_activations_rule
from trtsmith.converter.rewrite.rules.contrib.arrays import (
    contrib_arrays_rule,
    contrib_crop_rule,
    contrib_fourier_rule,
)
from trtsmith.converter.rewrite.rules.contrib.attention import contrib_attention_rule
from trtsmith.converter.rewrite.rules.contrib.embedding import contrib_embedding_rule, qembedding_rule
from trtsmith.converter.rewrite.rules.contrib.fused_products import contrib_conv_rule, contrib_matmul_rule
from trtsmith.converter.rewrite.rules.contrib.group_query import contrib_group_query_rule
from trtsmith.converter.rewrite.rules.contrib.multi_head import contrib_multi_head_rule
from trtsmith.converter.rewrite.rules.contrib.norm import contrib_norm_rule
from trtsmith.converter.rewrite.rules.contrib.refused import laid_out_rule
from trtsmith.converter.rewrite.rules.contrib.rotary import contrib_rotary_rule

RULES: tuple[NodeRule, ...] = (
    qembedding_rule,
    contrib_activations_rule,
    contrib_matmul_rule,
    contrib_conv_rule,
    contrib_norm_rule,
    contrib_embedding_rule,
    contrib_attention_rule,
    contrib_multi_head_rule,
    contrib_group_query_rule,
    contrib_rotary_rule,
    contrib_arrays_rule,
    contrib_crop_rule,
    contrib_fourier_rule,
    laid_out_rule,
)
