"""The libraries, casts and TensorRT of an engine by its manifest, and refusals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.converter.engine.problems import problem_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.rewrite.types import IoType


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def bundle(folder: Path, libraries: Mapping[str, bytes], **more: Any) -> Path:
    """An engine with libraries and a manifest beside it."""
    engine = folder / "m.plan"
    engine.write_bytes(b"engine")
    for name, data in libraries.items():
        (folder / name).write_bytes(data)
    files = {"m.plan": b"engine", **libraries}
    document = {
        "tensorrt": {"flavour": "tensorrt_rtx", "version": "1.7.1.116"},
        "targets": ["sm86"],
        "files": {name: digest(data) for name, data in files.items()},
        "io_types": [{"name": "x", "before": "float64", "after": "float32"}],
        **more,
    }
    (folder / "m.manifest.json").write_text(json.dumps(document))
    return engine


def test_everything_from_the_manifest(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"})
    request = request_for(engine, profile=2, cuda_graph=True, timeout_s=3.0)
    assert request.plugin_libraries == (tmp_path / "a.so",)
    assert (request.flavour, request.built_version, request.targets) == (
        "tensorrt_rtx",
        "1.7.1.116",
        ("sm86",),
    )
    assert request.io_types == (IoType("x", "float64", "float32"),)
    assert (request.profile, request.cuda_graph, request.timeout_s) == (2, True, 3.0)
    assert request.embedded_plugins is False


def test_without_a_manifest(tmp_path: Path) -> None:
    engine, library = tmp_path / "m.plan", tmp_path / "a.so"
    engine.write_bytes(b"engine")
    library.write_bytes(b"library a")
    request = request_for(engine)
    assert (request.plugin_libraries, request.flavour, request.io_types) == ((), "auto", ())
    request = request_for(engine, [library], "tensorrt")
    assert (request.plugin_libraries, request.flavour) == ((library,), "tensorrt")


def test_a_library_that_the_manifest_does_not_name_is_not_loaded(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"})
    (tmp_path / "b.so").write_bytes(b"planted")
    assert request_for(engine).plugin_libraries == (tmp_path / "a.so",)


def test_a_given_library_stands_for_the_one_of_its_name(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"})
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.so").write_bytes(b"library a")
    (other / "c.so").write_bytes(b"library c")
    request = request_for(engine, [other / "a.so", other / "c.so"])
    assert request.plugin_libraries == (other / "a.so", other / "c.so")
    (other / "a.so").write_bytes(b"library a, newer")
    text = problem_of(lambda: request_for(engine, [other / "a.so"]))
    assert "is not the one that the engine was built with" in text and str(other / "a.so") in text


def test_missing_and_changed_libraries_are_all_named(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a", "b.so": b"library b"})
    (tmp_path / "a.so").unlink()
    (tmp_path / "b.so").write_bytes(b"changed")
    text = problem_of(lambda: request_for(engine))
    assert "a.so is missing" in text and "b.so is not the one" in text
    assert digest(b"library b") in text and digest(b"changed") in text


def test_embedded_libraries_are_not_loaded_again(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"}, plugins_embedded=True)
    (tmp_path / "a.so").unlink()
    request = request_for(engine)
    assert request.plugin_libraries == () and request.embedded_plugins is True


def test_manifest_of_another_engine(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"})
    engine.write_bytes(b"another engine")
    text = problem_of(lambda: request_for(engine))
    assert "belongs to another engine" in text and f"the hash {digest(b'engine')};" in text


def test_renamed_bundle_is_still_one(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {"a.so": b"library a"})
    engine.rename(tmp_path / "n.plan")
    (tmp_path / "m.manifest.json").rename(tmp_path / "n.manifest.json")
    assert request_for(tmp_path / "n.plan").plugin_libraries == (tmp_path / "a.so",)


def test_other_flavour(tmp_path: Path) -> None:
    engine = bundle(tmp_path, {})
    text = problem_of(lambda: request_for(engine, flavour="tensorrt"))
    assert "was built by tensorrt_rtx 1.7.1.116" in text and "--flavour tensorrt_rtx" in text
    assert request_for(engine, flavour="tensorrt_rtx").flavour == "tensorrt_rtx"


def test_no_engine(tmp_path: Path) -> None:
    assert "no such file" in problem_of(lambda: request_for(tmp_path / "m.plan"))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"\xff\xfe",
        b'{"tensorrt": {"flavour": 1, "version": "1"}, "targets": [], "files": {}}',
        b'{"tensorrt": {"flavour": "tensorrt", "version": "1"}, "targets": [], "files": {"../x.so": "sha256:0"}}',
        b'{"tensorrt": {"flavour": "tensorrt", "version": "1"}, "targets": [], "files": {},'
        b' "io_types": [{"name": "x", "before": "float99", "after": "float32"}]}',
    ],
)
def test_unreadable_manifests(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.plan").write_bytes(b"engine")
    (tmp_path / "m.manifest.json").write_bytes(content)
    assert "manifest cannot be read" in problem_of(lambda: request_for(tmp_path / "m.plan"))
