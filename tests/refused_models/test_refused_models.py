"""The networks that TensorRT refuses, from which other tests isolate the failing nodes."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from tests.refused_models.faults import FAULTS
from tests.refused_models.networks import INPUT, SHAPE, network


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_networks_are_sound_and_run(fault: str | None) -> None:
    """Of the If, the branch that is never taken is wrong for these sizes; the others compute."""
    proto = network(120, FAULTS[fault] if fault else None)
    session = ort.InferenceSession(proto.SerializeToString())
    kinds = {node.op_type for node in proto.graph.node}
    assert {"Conv", "Add", "Concat"} <= kinds and 120 <= len(proto.graph.node) < 140
    if fault != "scatter_of_more_rows":  # onnxruntime refuses more rows than there are
        made = session.run(None, {INPUT: np.ones(SHAPE, np.float32)})
        assert all(array.shape == SHAPE for array in made)


def test_the_wiring_is_of_its_seed() -> None:
    first, again, other = (network(50, seed=seed).SerializeToString() for seed in (1, 1, 2))
    assert first == again != other
