"""Made-up indices stay inside the tables."""

import numpy as np
import onnx

from converter.index_bounds import index_bounds
from converter.shapes import graph_inputs
from converter.verify import generate_inputs
from tests.converter.passes.transformer_models import encoder


def test_an_encoder_gets_words_and_segments_that_it_has() -> None:
    proto = encoder()
    assert index_bounds(proto) == {"ids": 30, "kinds": 2}


def test_the_smallest_table_counts_along_the_axis() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[50] i, float[N, 4] x) => (float[50, 4] y) <float[7, 4] a = {0, 0}, float[9, 3] b = {0, 0}> {
            j = Cast <to = 7> (i)  p = Gather (a, j)  q = Gather <axis = -1> (b, j)  r = Gather (x, j)  y = Add (p, r)
        }"""
    )
    bounds = index_bounds(proto)
    assert bounds == {"i": 3}
    specs = [spec for spec in graph_inputs(proto) if spec.name == "i"]
    assert np.unique(generate_inputs(specs, {}, bounds)["i"]).tolist() == [0, 1, 2]
