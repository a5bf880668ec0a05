"""The rules for standard operators, in the order in which a node is offered to them: an explicit tuple."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.axes import AXES
from converter.passes.rules.constant_if import CONSTANT_IF
from converter.passes.rules.contrib_activations import CONTRIB_ACTIVATIONS
from converter.passes.rules.contrib_arrays import CONTRIB_ARRAYS
from converter.passes.rules.contrib_attention import CONTRIB_ATTENTION
from converter.passes.rules.contrib_conv import CONTRIB_CONV
from converter.passes.rules.contrib_crop import CONTRIB_CROP
from converter.passes.rules.contrib_embedding import CONTRIB_EMBEDDING
from converter.passes.rules.contrib_fourier import CONTRIB_FOURIER
from converter.passes.rules.contrib_group_query import CONTRIB_GROUP_QUERY
from converter.passes.rules.contrib_matmul import CONTRIB_MATMUL
from converter.passes.rules.contrib_multi_head import CONTRIB_MULTI_HEAD
from converter.passes.rules.contrib_norm import CONTRIB_NORM
from converter.passes.rules.contrib_refused import LAID_OUT
from converter.passes.rules.contrib_rotary import CONTRIB_ROTARY
from converter.passes.rules.functions import FUNCTIONS
from converter.passes.rules.loops import LOOPS
from converter.passes.rules.optionals import OPTIONALS
from converter.passes.rules.scans import SCANS
from converter.passes.rules.sequence_map import SEQUENCE_MAP
from converter.passes.rules.sequences import SEQUENCES

RULES: tuple[NodeRule, ...] = (
    CONSTANT_IF,
    AXES,
    FUNCTIONS,
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
    LOOPS,
    SCANS,
    SEQUENCES,
    SEQUENCE_MAP,
    OPTIONALS,
)
