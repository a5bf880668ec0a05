"""The GPU check's stress step, without a GPU: what it runs, and that it counts wrong outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from gpucheck import stress
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.verify.baseline import Baseline
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.rounding import GRIDS


def filters(model: onnx.ModelProto) -> list[tuple[int, ...]]:
    sizes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    return [sizes[node.input[1]][2:] for node in model.graph.node if node.op_type == "Conv"]


def test_the_network_has_the_fault_and_its_rewritten_form_has_not(tmp_path: Path) -> None:
    onnx.save(stress.depthwise_network(), tmp_path / "m.onnx")
    model = load_model(tmp_path / "m.onnx")
    assert filters(model.proto)[1::2] == [(5, 5), (3, 3), (7, 7), (5, 5)]
    assert set(filters(rewrite(model, RTX).model.proto)[1::2]) == {(7, 7)}


@pytest.mark.parametrize("scale", [1.0, 1.1])
def test_a_wrong_image_is_a_fault(scale: float, tmp_path: Path) -> None:
    subjects = {subject.name: subject for subject in stress.subjects_of(stress.CONVERTED, tmp_path)}
    ranging = subjects["convolutions, ranging sizes"]
    assert [case.feeds["x"].shape[0] for case in ranging.cases] == [1, 2, 4]
    last = ranging.cases[-1]
    right = last.fault.args[0].plain[0]["y"].copy()  # type: ignore[attr-defined]
    right[2] *= scale
    assert bool(last.fault({"y": right})) == (scale != 1.0)
    assert all(subjects[name].cases for name in stress.OPERATORS)


def test_another_rounding_of_the_images_is_right(tmp_path: Path) -> None:
    """The bounds of one rounded run exclude other draws of the rounding, and so may exclude a right engine."""
    last = next(iter(stress.subjects_of(stress.CONVERTED, tmp_path))).cases[-1]
    (baseline,) = last.fault.args  # type: ignore[attr-defined]
    first, *draws = [baseline.rounded(stress.ARITHMETIC, grid) for grid in (1.0, *GRIDS)]
    once = Baseline(baseline.model, baseline.sets, known=baseline.plain, roundings={1.0: first})
    alone = [judge_outputs(once, stress.ARITHMETIC, draw) for draw in draws]
    assert not all(verdict.passed for verdict in alone)
    assert not any(last.fault(draw[0]) for draw in draws)


def test_wrong_outputs_of_every_session_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are made anew give wrong outputs, the first ones right ones."""
    made: list[str] = []

    def runner(plan: Path, factor: float) -> Any:
        def infer(feeds: Mapping[str, np.ndarray], synchronise: bool) -> dict[str, Any]:
            return {"y": SimpleNamespace(numpy=lambda: feeds["x"] * factor)}

        def session(cuda_graph: bool) -> Any:
            made.append(f"{plan} {factor} {cuda_graph}")
            return SimpleNamespace(infer=infer)

        return SimpleNamespace(session=session)

    def fault(outputs: Mapping[str, np.ndarray]) -> str:
        return "" if outputs["y"].item() == 1 else "not 1"

    monkeypatch.setattr(stress, "_of_torch", lambda array: array)
    monkeypatch.setattr(stress, "_of_cupy", lambda array: array)
    monkeypatch.setattr(stress.Runner, "open", lambda plan, **_: runner(plan, 2))
    subjects = [
        stress.StressEngine(name, Path(name), [stress.StressCase({"x": np.ones(1)}, fault)]) for name in "ab"
    ]
    found = stress.run_worker(subjects, 0, opener=lambda plan: runner(plan, 1))
    runs = stress.ROUNDS * stress.RUNS * 2
    assert {name: count["runs"] for name, count in found["engines"].items()} == {"a": runs, "b": runs}
    # Of four sessions the first of each round is made anew, and wrong in the rounds after it.
    wrong = [stress.RUNS * (stress.ROUNDS - 1 - turn) for turn in range(4)]
    assert [count["wrong"] for count in found["engines"].values()] == [sum(wrong[:2]), sum(wrong[2:])]
    assert found["failures"][0] in ("a: not 1", "a, CUDA graph: not 1")
    assert len(made) == 4 + stress.ROUNDS
