"""Finds weights that became infinite when the model was made half precision, before its export."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from trtsmith.converter.model.model import Model
from trtsmith.importers.counted import counted

_INFINITY = {TensorProto.FLOAT16: 0x7C00, TensorProto.BFLOAT16: 0x7F80}
"""Bits of plus infinity."""

_MAGNITUDE = 0x7FFF


def infinite_weights(model: Model) -> tuple[str, ...]:
    """Warns of 16-bit initializers with infinite values among others; at most one sentence.

    Those of minus infinity are masks, and those of infinities alone are meant.
    """
    found = []
    for tensor in model.proto.graph.initializer:
        infinity = _INFINITY.get(tensor.data_type)
        if infinity is None:
            continue
        bits = model.array(tensor).view(np.int16)
        # every weight is read: a maximum is the fastest way to find that none is infinite
        if bits.size and bits.max() >= infinity and np.any(bits == infinity):
            count = int(np.count_nonzero((bits & _MAGNITUDE) == infinity))
            if count < bits.size:
                found.append(f"initializer {tensor.name!r} has {counted(count, 'infinite value')}")
    if not found:
        return ()
    others = counted(len(found) - 1, "other initializer")
    more = f", and {others} {'has' if len(found) == 2 else 'have'} some" if len(found) > 1 else ""
    return (f"{found[0]}{more}: its type does not hold the weights; export the model in float32",)
