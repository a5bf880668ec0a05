"""The bench of reductions: its networks, and a record of a small one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from refusedmodels import bench_reduction
from refusedmodels.faults import FAULTS
from refusedmodels.networks import INPUT, SHAPE, network


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


def test_a_record(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    flags = ["--nodes", "60", "--only", "gathered_int8", "--jobs", "1", "--output", str(path)]
    assert bench_reduction.main(flags) == 0
    record = json.loads(path.read_text())
    assert [entry["by_name"] for entry in record["reductions"]] == [True, False]
    for entry in record["reductions"]:
        assert entry["left"] == 1 and entry["left_nodes"] == ["fault/gathered (Gather)"] and entry["complete"]
        assert str(tmp_path) not in json.dumps(record)


def test_what_takes_too_long_or_leaves_too_much_is_over_the_limit() -> None:
    assert bench_reduction._is_within({"left": 10, "seconds": 90.0})
    assert not bench_reduction._is_within({"left": 11, "seconds": 1.0})
    assert not bench_reduction._is_within({"left": 1, "seconds": 90.1})
    assert not bench_reduction._is_within({"left": None, "seconds": 1.0})
