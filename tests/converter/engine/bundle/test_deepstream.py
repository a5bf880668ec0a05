"""The configuration of DeepStream's nvinfer, as its reader takes it: groups of keys and values."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from tests.converter.engine.bundle.test_triton import RTX, engine, sizes, tensor
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.deepstream import write_nvinfer

KEYS = {
    *(
        "model-engine-file",
        "custom-lib-path",
        "batch-size",
        "infer-dims",
        "network-type",
        "output-tensor-meta",
    ),
    *("net-scale-factor", "model-color-format"),
}
"""Documented for the group [property] at docs.nvidia.com/metropolis/deepstream, Gst-nvinfer."""

PHOTOS = {
    "inputs": [tensor("photo", [-1, 3, -1, 64])],
    "outputs": [tensor("boxes", [-1, 100, 4])],
    "profiles": [{"photo": sizes([1, 3, 32, 64], [4, 3, 48, 64], [8, 3, 96, 64])}],
}
STATIC = PHOTOS | {"inputs": [tensor("photo", [2, 1, 32, 64])], "profiles": []}


def properties(path: Path) -> dict[str, str]:
    config = ConfigParser(interpolation=None)
    config.read(path)
    assert config.sections() == ["property"]
    return dict(config["property"])


def test_the_engine_its_batch_and_its_image(tmp_path: Path) -> None:
    written = write_nvinfer(engine(tmp_path, PHOTOS))
    found = properties(written.path)
    assert written.path == tmp_path / "config_infer_primary.txt" and written.batch == 8
    assert found.keys() == KEYS - {"custom-lib-path"}
    assert (found["model-engine-file"], found["batch-size"]) == ("model.plan", "8")
    assert found["infer-dims"] == "3;48;64"  # the height as usual, the width as fixed
    assert (found["network-type"], found["output-tensor-meta"]) == ("100", "1")
    assert any("probe" in note for note in written.notes) and any("10.16.1.11" in n for n in written.notes)
    found = properties(write_nvinfer(engine(tmp_path, STATIC)).path)
    assert (found["batch-size"], found["infer-dims"]) == ("2", "1;32;64")


def test_plugins_are_registered_by_the_library_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    output = tmp_path / "conf" / "nvinfer.txt"
    written = write_nvinfer(engine(tmp_path, PHOTOS, plugins=["trtsmith::Own version 1"]), output)
    found = properties(output)
    assert found.keys() == KEYS and found["model-engine-file"] == "../model.plan"
    assert found["custom-lib-path"] == "libregister_plugins.so"
    assert any("TRTSMITH_PLUGINS" in note for note in written.notes)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"tensorrt": RTX}, "DeepStream runs no engine of TensorRT-RTX"),
        ({"plugins": ["Own"], "plugins_embedded": True}, "plugin libraries inside an engine"),
        ({"inputs": [tensor("x", [2, 3])]}, r"'x' float32\[2, 3\]"),
        ({"inputs": [tensor("x", [2, 3, 4, 4], "float16")]}, "'x' float16"),
        ({"inputs": [tensor("x", [2, 5, 4, 4])]}, "cannot feed"),
        ({"inputs": [tensor("x", [2, 3, 4, 4]), tensor("y", [2, 3, 4, 4])]}, "'x' .*, 'y'"),
        ({"inputs": []}, "none"),
    ],
)
def test_engines_that_nvinfer_does_not_run(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    path = engine(tmp_path, STATIC | facts)
    with pytest.raises(UsageError, match=words):
        write_nvinfer(path)
    assert not (tmp_path / "config_infer_primary.txt").exists()


def test_only_an_earlier_configuration_is_replaced(tmp_path: Path) -> None:
    path = engine(tmp_path, PHOTOS)
    first = write_nvinfer(path).path
    assert write_nvinfer(path).path == first
    first.write_text("[property]\nbatch-size=1\n")
    with pytest.raises(UsageError, match="would replace"):
        write_nvinfer(path)
    write_nvinfer(path, force=True)
    assert properties(first)["batch-size"] == "8"
