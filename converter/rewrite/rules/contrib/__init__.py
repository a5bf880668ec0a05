"""Rewrites operators of onnxruntime's own domain."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.contrib.activations import CONTRIB_ACTIVATIONS
from trtsmith.converter.rewrite.rules.contrib.arrays import CONTRIB_ARRAYS, CONTRIB_CROP, CONTRIB_FOURIER
from trtsmith.converter.rewrite.rules.contrib.attention import CONTRIB_ATTENTION
from trtsmith.converter.rewrite.rules.contrib.embedding import CONTRIB_EMBEDDING, QEMBEDDING
from trtsmith.converter.rewrite.rules.contrib.fused_products import CONTRIB_CONV, CONTRIB_MATMUL
from trtsmith.converter.rewrite.rules.contrib.group_query import CONTRIB_GROUP_QUERY
from trtsmith.converter.rewrite.rules.contrib.multi_head import CONTRIB_MULTI_HEAD
from trtsmith.converter.rewrite.rules.contrib.norm import CONTRIB_NORM
from trtsmith.converter.rewrite.rules.contrib.refused import LAID_OUT
from trtsmith.converter.rewrite.rules.contrib.rotary import CONTRIB_ROTARY

RULES: tuple[NodeRule, ...] = (
    QEMBEDDING,
    CONTRIB_ACTIVATIONS,
    CONTRIB_MATMUL,
    CONTRIB_CONV,
    CONTRIB_NORM,
    CONTRIB_EMBEDDING,
    CONTRIB_ATTENTION,
    CONTRIB_MULTI_HEAD,
    CONTRIB_GROUP_QUERY,
    CONTRIB_ROTARY,
    CONTRIB_ARRAYS,
    CONTRIB_CROP,
    CONTRIB_FOURIER,
    LAID_OUT,
)
