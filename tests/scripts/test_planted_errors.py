"""Planted errors: a sample is found, a wrong answer is noticed, and the broken kernel is broken as intended."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

import planted_errors
from planted import broken, changes
from planted.plants import PLANTS, Plant
from planted.run import Ground, control_of, faults_of, row_of
from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import Sabotaged
from tests.exports import exported
from trtsmith.converter.compile.logged import SetupError
from trtsmith.converter.locate.executors.executor import Onnxruntime
from trtsmith.converter.locate.found import Located, NodeReport

SAMPLE = ("a wrong weight", "a rewrite rule that is wrong", "a broken kernel")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that those are in which the sample needs."""
    needed = {plant.model for plant in PLANTS if plant.name in SAMPLE} | {"geometry"}
    (folder,) = {exported(name, tmp_path_factory).model.parent for name in needed}
    return folder


@pytest.fixture(scope="module")
def record(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    path = tmp_path_factory.mktemp("planted") / "planted.json"
    arguments = ["--only", *SAMPLE, "--models", str(models), "--output", str(path), "--commit", "c0ffee"]
    assert planted_errors.main(arguments) == 0
    return json.loads(path.read_text())


def test_models_are_exported_if_they_are_not_given(models: Path, tmp_path: Path) -> None:
    for ours, given in zip(
        planted_errors._exported("geometry", None, tmp_path),
        planted_errors._exported("geometry", models, tmp_path),
        strict=True,
    ):
        assert ours.parent == tmp_path and given.parent == models and ours.name == given.name
        assert ours.stat().st_size == given.stat().st_size > 0


def test_a_sample_is_found(record: dict) -> None:
    assert (record["passed"], record["commit"], record["on"]) == (True, "c0ffee", "onnxruntime")
    rows = {row["plant"]: row for row in record["planted"]}
    assert set(rows) == {None, *SAMPLE}
    assert rows[None]["status"] == "agree" and rows[None]["compared"] > 40
    assert rows["a wrong weight"]["named"][0] == "node_Conv_191" and rows["a wrong weight"]["error"] > 1e-3
    assert rows["a rewrite rule that is wrong"]["status"] == "rewrite"
    assert all(
        row["status"] == "node" for name, row in rows.items() if name in ("a wrong weight", "a broken kernel")
    )


def test_searches_side_by_side_find_the_same(record: dict, models: Path, tmp_path: Path) -> None:
    arguments = ["--only", *SAMPLE, "--models", str(models), "--at-once", "2"]
    arguments += ["--output", str(tmp_path / "planted.json")]
    assert planted_errors.main(arguments) == 0
    beside = json.loads((tmp_path / "planted.json").read_text())
    assert beside["passed"] is True
    assert [{**row, "seconds": 0} for row in beside["planted"]] == [
        {**row, "seconds": 0} for row in record["planted"]
    ]


def test_each_model_is_searched_with_nothing_planted() -> None:
    jobs = planted_errors.jobs_of(PLANTS)
    nothing = [job.model for job in jobs if job.plant is None]
    assert sorted(nothing) == ["centernet_dcn", "deformable_detr", "geometry"]
    assert len({job.plant for job in jobs}) == len(PLANTS) + 1


def test_there_are_ten_and_they_differ() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 10
    assert len({(plant.model, plant.node, plant.kernel) for plant in PLANTS}) == len(PLANTS)
    assert {plant.model for plant in PLANTS} == {"geometry", "centernet_dcn", "deformable_detr"}


def plant(node: str = "second", **more) -> Plant:
    return Plant("a plant", "m", node, changes.operator("relu", "Neg"), **more)


def written(folder: Path) -> tuple[Path, Path]:
    network(folder / "m.onnx")
    np.savez(folder / "m.npz", **x())
    return folder / "m.onnx", folder / "m.npz"


def test_another_node_than_the_planted_one_is_a_miss(tmp_path: Path) -> None:
    ground = Ground(Onnxruntime(), changes.operator("relu", "Neg"))
    row = row_of(plant("second"), *written(tmp_path), ground, tmp_path)
    assert not row["found"] and row["faults"] == ["relu was named, not second"]
    assert row_of(plant("relu"), *written(tmp_path), ground, tmp_path)["found"]


def test_nothing_planted_is_nothing_found(tmp_path: Path) -> None:
    unplanted = Ground(Onnxruntime(), None)
    row = row_of(plant(), *written(tmp_path), unplanted, tmp_path)
    assert not row["found"] and row["faults"] == ["the verdict is agree, not node"]
    assert control_of("m", *written(tmp_path), unplanted)["found"]
    wrong = Ground(Sabotaged(lambda graph: graph.node[1].__setattr__("op_type", "Neg")), None)
    control = control_of("m", *written(tmp_path), wrong)
    assert not control["found"] and "relu" in control["faults"][0]


@pytest.mark.parametrize(
    ("kernel", "is_broken", "right"),
    [
        ("the kernel is wrong (x)", True, True), ("the kernel is right: x", True, False),
        ("the kernel is right: x", False, True), ("not run: there is no GPU here", False, False),
    ],
)  # fmt: skip
def test_kernels_must_be_blamed_rightly(kernel: str, is_broken: bool, right: bool) -> None:
    from planted.run import _kernel_faults

    found = Located("node", "x", "y", kernel=kernel)
    assert (_kernel_faults(plant(kernel=True, broken=is_broken), found) == []) is right


def test_a_plugin_node_is_known_after_another_rewrite() -> None:
    def named(name: str) -> Located:
        node = NodeReport(name, "trtsmith::MatrixInverse", "", (), (), {})
        return Located("node", "x", "y", nodes=(node,))

    wanted = plant("a/MatrixInverse")
    assert faults_of(wanted, named("a/MatrixInverse")) == []
    assert faults_of(wanted, named("a/MatrixInverse/MatrixInverse")) == []
    assert faults_of(wanted, named("b/MatrixInverse")) != []


def test_changes_change_what_they_say(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    right = Onnxruntime().execute(model, x())["y"]
    for change in (
        changes.weight("second", 1, lambda values: values * 2),
        changes.attribute("softmax", axis=0),
        changes.swapped("greater"),
        changes.operator("relu", "Identity"),
        changes.narrowed("add", onnx.TensorProto.BFLOAT16),
    ):
        changed = change(model)
        onnx.checker.check_model(changed.proto)
        assert not np.allclose(Onnxruntime().execute(changed, x())["y"], right, rtol=1e-5)
    assert changes.swapped("nobody")(model) is model
    assert np.array_equal(Onnxruntime().execute(model, x())["y"], right)


def test_only_one_reader_of_a_weight_gets_the_wrong_one(tmp_path: Path) -> None:
    model = network(tmp_path / "m.onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.graph.node.insert(0, oh.make_node("MatMul", ["x", "w1"], ["also"], name="other"))
    proto.graph.output.append(oh.make_tensor_value_info("also", onnx.TensorProto.FLOAT, None))
    both = model.with_proto(proto)
    changed = changes.weight("first", 1, lambda values: values + 1)(both)
    before, after = (Onnxruntime().execute(m, x()) for m in (both, changed))
    assert np.array_equal(before["also"], after["also"]) and not np.allclose(before["y"], after["y"])


def test_the_broken_sources_have_one_plugin_and_one_wrong_line(tmp_path: Path) -> None:
    broken.break_sources(tmp_path / "cpp")
    expected = "trtsmith_operator(MatrixInverse BINDING matrix_inverse.cpp KERNELS matrix_inverse.cu)\n"
    assert (tmp_path / "cpp" / "ops" / "list.cmake").read_text() == expected
    sources = [path.read_text() for path in (tmp_path / "cpp" / "kernels").rglob("*.cu*")]
    assert sum(source.count(broken.WRONG) for source in sources) == 1
    assert not any(broken.RIGHT in source for source in sources)


def test_a_line_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken, "RIGHT", "a line that is not there")
    with pytest.raises(SetupError, match="not there once"):
        broken.break_sources(tmp_path / "cpp")


def test_a_gpu_run_needs_the_broken_library(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        planted_errors.main(["--on", "gpu"])
    assert "--build-broken" in capsys.readouterr().err
