"""Networks of the GPU checks: precomputed references, the kept parts of outputs, and the verdict on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucheck.engines import NOT_BUILT, EngineError, OpenEngine
from gpucheck.record import Notes, read_notes
from harness.jobs import Finding
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand

torch = pytest.importorskip("torch")

from gpubundle.skeleton import write_skeletons  # noqa: E402
from gpucheck import (  # noqa: E402
    judge_outputs,
    network_list,
    networks,
)

Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

FORM = "fp32"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The small variant of one network as a bundle has it, its outputs kept in part, and `network` that finds it."""
    patch, folder = pytest.MonkeyPatch(), tmp_path_factory.mktemp("bundle")
    (folder / "models").mkdir()
    [*write_skeletons(folder / "models", ["geometry"], small=True)]
    patch.setattr(networks, "MOST", 100)
    patch.setattr(networks, "FORMS", (FORM,))
    patch.setattr(networks, "COMPARED", ())
    patch.setattr(networks, "PRECISIONS", {FORM: "tf32"})
    patch.setattr(network_list, "network", lambda name, models: network_list.ours(name, models, small=True))
    networks.write_references("geometry", folder / "models")
    yield folder
    patch.undo()


def opener(change: Change = dict) -> Any:
    """onnxruntime in the place of an engine; `change` is made to its outputs."""

    def make(path: Path, sizes: Mapping[str, Any], io_types: Any) -> OpenEngine:
        assert sizes["image"].shapes == ((1, 3, 32, 48), (2, 3, 32, 48), (4, 3, 32, 48))
        given = load_model(path)
        assert {node.domain for node in given.proto.graph.node} == {"", "trtsmith"}  # plugins are in it
        model = expand(given)  # onnxruntime knows none
        return OpenEngine(lambda feeds: change(run(model, feeds)), lambda: None)

    return make


def found(bundle: Path, folder: Path, change: Change = dict) -> tuple[Model, dict[str, Any], dict[str, Any]]:
    """The model, its references, and what is kept of the engines' outputs."""
    network = network_list.network("geometry", bundle / "models")
    references = dict(np.load(bundle / "models" / f"geometry{networks.REFERENCES}"))
    outputs = networks.run_network(network, references, folder, opener(change))
    return load_model(network.write(folder)), references, outputs


def test_an_engine_is_judged_at_every_end_of_its_shapes(bundle: Path, tmp_path: Path) -> None:
    rows = list(networks.judged("geometry", *found(bundle, tmp_path)))
    names = ["heatmap", "heatmap: extremes", "elevation", "elevation: extremes"]
    assert {(row["size"], row["output"]) for row in rows} == {(s, n) for s in networks.SIZES for n in names}
    assert all(row["passed"] and row["engine"] < 1e-5 and row["used"] < 1 for row in rows)


def one_wrong(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A number that no output has, where no other is kept."""
    outputs["elevation"][0, 0, 7, 5] += 40
    return outputs


@pytest.mark.parametrize(
    "change",
    [
        lambda outputs: {name: array * np.float32(1.01) for name, array in outputs.items()},
        lambda outputs: {name: array[..., :-1] for name, array in outputs.items()},
        lambda outputs: {"heatmap": outputs["heatmap"]},
        one_wrong,
    ],
)
def test_wrong_outputs_disagree(bundle: Path, tmp_path: Path, change: Change) -> None:
    rows = list(networks.judged("geometry", *found(bundle, tmp_path, change)))
    assert {row["status"] for row in rows} >= {"disagree"} and any(row.get("said") for row in rows)
    notes = Notes(tmp_path / "notes")
    networks.conclude({"geometry": rows}, notes)
    told = read_notes(tmp_path / "notes", "networks", None)
    assert told.verdict == "fail" and told.summary.startswith("0 of 1 networks agree, in fp32 (1 disagree)")


def test_another_judge_needs_no_gpu(bundle: Path, tmp_path: Path) -> None:
    for change, code in ((dict, 0), (one_wrong, 1)):
        _, _, outputs = found(bundle, tmp_path, change)
        (tmp_path / "engines_outputs").mkdir(exist_ok=True)
        np.savez(tmp_path / "engines_outputs" / "geometry.npz", **outputs)
        (tmp_path / "engines.json").write_text('{"gpu": "one", "passed": true, "steps": {}}')
        asked = [
            str(tmp_path / "engines.json"),
            "--bundle",
            str(bundle),
            "--output",
            str(tmp_path / "new.json"),
        ]
        assert judge_outputs.main(asked) == code


def test_a_network_without_an_engine_has_a_row_that_says_why(bundle: Path, tmp_path: Path) -> None:
    def refuse(*_: Any) -> OpenEngine:
        raise EngineError(NOT_BUILT, "no importer")

    network = network_list.network("geometry", bundle / "models")
    outputs = networks.run_network(network, {}, tmp_path, refuse)
    (row,) = networks.judged("geometry", load_model(network.write(tmp_path)), {}, outputs)
    assert (row["passed"], row["reason"]) == (False, "not built: no importer")


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 5, 40, 30)])
def test_a_part_of_an_output_has_its_extremes(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "MOST", 100)
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    references = {f"at|min|0|y|{axis}": at for axis, at in enumerate(networks.places(array))}
    kept = networks.part_of(references, "min", 0, "y", array)
    if array.size <= 100:
        np.testing.assert_array_equal(kept["y"], array)
    else:
        assert kept["y"].ndim == array.ndim and kept["y"].size < 250
        assert kept["y"].max() == array.max() and kept["y"].min() == array.min()
        array[0, 0, 0, 0] = np.nan
        assert np.isnan(networks.part_of(references, "min", 0, "y", array)["y: extremes"]).all()


def test_where_outputs_are_decisions_every_batch_is_judged_by_as_many_images(tmp_path: Path) -> None:
    network = network_list.ours("yolo_nms", tmp_path, small=True)
    assert network.ranges["image"].max == (8, 3, 128, 160)
    sets = [network.feeds(size) for size in range(3)]
    assert [(len(some), some[0]["image"].shape[0]) for some in sets] == [(8, 1), (4, 2), (1, 8)]
    together = [np.concatenate([arrays["image"] for arrays in some]) for some in sets]
    assert all(np.array_equal(images, together[0]) for images in together)


def test_networks_are_made_in_the_children_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(name: str, bundle: Path) -> Any:
        raise AssertionError(f"{name} was made here")

    def row(name: str, status: str) -> dict[str, Any]:
        return {
            "network": name,
            "precision": FORM,
            "status": status,
            "passed": status == "agree",
            "said": "far",
        }

    def jobs(module: str, pending: Any, *_: Any, bundle: str, kept: str) -> Any:
        assert (module, bundle, kept) == ("gpucheck.networks", str(tmp_path), str(tmp_path / "kept"))
        good, bad, part, *lost = pending
        yield good, Finding({"rows": [row(good, "agree")]})
        yield bad, Finding({"rows": [row(bad, "disagree")]})
        yield part, Finding({"rows": [row(part, "agree"), row(part, "not comparable")]})
        yield from ((name, Finding({}, "hangs")) for name in lost)

    monkeypatch.setattr(network_list, "network", make)
    monkeypatch.setattr(networks, "run_jobs", jobs)
    networks.check(tmp_path, tmp_path, 60.0, Notes(tmp_path / "notes"), None, tmp_path / "kept")
    told = read_notes(tmp_path / "notes", "networks", None)
    good, bad, part, *lost = network_list.NAMES
    assert sorted(told.failures) == sorted([f"{bad} {FORM}: far", *(f"{name}: hangs" for name in lost)])
    assert [one["network"] for one in told.rows] == [good, bad, part, part]
    assert told.summary.startswith(f"1 of {len(network_list.NAMES)} networks agree, in fp32")


def test_pictures_of_text_differ_and_have_edges() -> None:
    images = network_list.text_images((2, 3, 48, 96))
    assert images.shape == (2, 3, 48, 96) and images.dtype == np.float32
    assert -1 <= images.min() < -0.2 and 0 < images.max() <= 1
    assert not np.array_equal(images[0], images[1])
    assert not np.array_equal(images, network_list.text_images((2, 3, 48, 96), 1))
    np.testing.assert_array_equal(images, network_list.text_images((2, 3, 48, 96)))


def test_every_second_set_of_pictures_is_upside_down() -> None:
    """One line of text at the top of a picture with room for two."""
    for draw in range(4):
        images = network_list.text_images((2, 3, 96, 200), draw)
        upper, lower = images[:, :, :48].std(axis=(2, 3)), images[:, :, 48:].std(axis=(2, 3))
        text, empty = (lower, upper) if draw % 2 else (upper, lower)
        assert (empty < 0.7 * text).all()
