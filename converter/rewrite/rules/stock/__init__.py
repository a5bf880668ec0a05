"""Rewrites plugins of TensorRT, mmdeploy and others as standard operators where these suffice."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.stock.attention import (
    STOCK_DISENTANGLED_ATTENTION,
    STOCK_FUSED_ATTENTION,
)
from trtsmith.converter.rewrite.rules.stock.legacy_layers import STOCK_DIFFUSION, STOCK_LEGACY_LAYERS
from trtsmith.converter.rewrite.rules.stock.mmcv_layers import STOCK_DETECTION_HEADS, STOCK_MASKS
from trtsmith.converter.rewrite.rules.stock.neighbourhoods import STOCK_NEIGHBOURHOODS
from trtsmith.converter.rewrite.rules.stock.normalisation import STOCK_GROUP_NORM, STOCK_INSTANCE_NORM
from trtsmith.converter.rewrite.rules.stock.point_clouds import STOCK_POINT_CLOUDS
from trtsmith.converter.rewrite.rules.stock.quantizers import MICROSCALED, STOCK_QUANTIZERS
from trtsmith.converter.rewrite.rules.stock.sampling import (
    STOCK_CROP,
    STOCK_GRID_SAMPLER,
    STOCK_RESIZES,
    STOCK_ROTATE,
)
from trtsmith.converter.rewrite.rules.stock.scatters import (
    STOCK_SCATTER_ELEMENTS,
    STOCK_SCATTER_ND,
    STOCK_SCATTER_PRODUCTS,
)
from trtsmith.converter.rewrite.rules.stock.state_spaces import STOCK_STATE_SPACES
from trtsmith.converter.rewrite.rules.stock.yolo_layer import STOCK_YOLO_LAYER

RULES: tuple[NodeRule, ...] = (
    STOCK_INSTANCE_NORM,
    STOCK_GROUP_NORM,
    STOCK_GRID_SAMPLER,
    STOCK_RESIZES,
    STOCK_ROTATE,
    STOCK_CROP,
    STOCK_SCATTER_ND,
    STOCK_SCATTER_ELEMENTS,
    STOCK_SCATTER_PRODUCTS,
    STOCK_DETECTION_HEADS,
    STOCK_MASKS,
    STOCK_DISENTANGLED_ATTENTION,
    STOCK_FUSED_ATTENTION,
    STOCK_DIFFUSION,
    STOCK_LEGACY_LAYERS,
    STOCK_QUANTIZERS,
    STOCK_POINT_CLOUDS,
    STOCK_STATE_SPACES,
    STOCK_NEIGHBOURHOODS,
    STOCK_YOLO_LAYER,
)

FOR_ONNXRUNTIME: tuple[NodeRule, ...] = (MICROSCALED,)
"""For operators that TensorRT imports, and onnxruntime lacks."""
