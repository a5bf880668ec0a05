"""Where a mask is true, as a tensor of a size that is known beforehand."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.opset_forms import slice_, unsqueeze


def positions(result: str, mask: str, count: int, opset: int) -> tuple[str, dict[str, np.ndarray]]:
    """Statements for `result`, the first `count` positions of the bool vector `mask` that are true, in order.

    Each position is written to the place that the number of true ones before it gives; those that are not true, or
    come too late, to one place behind, which is cut off. Where fewer are true, the rest is 0.
    """
    at = f"{result}_at"
    text = f"""
        {at}_number = Cast <to = 7> ({mask})
        {at}_before = CumSum <exclusive = 1> ({at}_number, {at}_axis)
        {at}_early = Less ({at}_before, {at}_count)
        {at}_used = And ({at}_early, {mask})
        {at}_place = Where ({at}_used, {at}_before, {at}_count)
        {at}_shape = Shape ({mask})
        {unsqueeze(f"{at}_places", f"{at}_place", [1], opset)}
        {at}_length = Squeeze ({at}_shape)
        {at}_all = Range ({at}_axis, {at}_length, {at}_one)
        {at}_written = ScatterND ({at}_room, {at}_places, {at}_all)
        {slice_(result, f"{at}_written", [0], [count], [0], opset)}
    """
    return text, {
        f"{at}_axis": np.array(0),
        f"{at}_one": np.array(1),
        f"{at}_count": np.array(count),
        f"{at}_room": np.zeros(count + 1, np.int64),
    }
