"""Manifests edited by others: every reader reports a wrong part, and does nothing else."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.manifest import profiles, read_manifest, sizes, tensors, text
from trtsmith.converter.engine.bundle.origin import origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.bundle.triton import write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions

SOUND: dict[str, Any] = {
    "tensorrt": {"flavour": "tensorrt", "version": "10.16.1.11"},
    "targets": ["sm86"],
    "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 3], "mode": "input", "is_shape_tensor": False}],
    "outputs": [{"name": "y", "dtype": "float16", "shape": [-1], "mode": "output", "is_shape_tensor": False}],
    "profiles": [{"x": {"min": [1, 3], "opt": [2, 3], "max": [8, 3], "values": False}}],
    "plugins": ["trtsmith::MatrixInverse version 1"],
    "plugins_embedded": True,
    "io_types": [{"name": "x", "before": "float64", "after": "float32"}],
    "model": {"file": "m.onnx", "bytes": 3, "fingerprint": "sha256:00"},
    "precision": {"precision": "float16"},
    "frozen": [{"name": "k", "dtype": "int64", "shape": [2], "sha256": "sha256:11", "value": None}],
    "files": {"m.plan": ""},
}  # fmt: skip
WRONG: list[Any] = [
    None, True, -2, 10**30, float("inf"), "", "../x", "\udcff", [], {}, [1], ["a"], [{}], {"": None}, {"a": 1}, [[[]]],
    "x" * 10**5, {"min": [2], "opt": [1], "max": [3]}, {"../libx.so": "sha256:0"},
]  # fmt: skip


def engine(folder: Path, document: Any) -> Path:
    return with_text(folder, json.dumps(document))


def with_text(folder: Path, content: str) -> Path:
    path = folder / "m.plan"
    path.write_bytes(b"an engine")
    manifest_path(path).write_text(content)
    return path


def sound(folder: Path) -> dict[str, Any]:
    return SOUND | {"files": {"m.plan": file_digest(engine(folder, {}))}}


READERS: dict[str, Callable[[Path], object]] = {
    "run": request_for,
    "verify": origin_of,
    "bundle": lambda path: write_model(path, TritonOptions(path.parent / "models", "m")),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return document


@pytest.mark.parametrize("reader", READERS)
def test_a_sound_one_is_read(tmp_path: Path, reader: str) -> None:
    READERS[reader](engine(tmp_path, sound(tmp_path)))


def test_whatever_is_wrong_is_a_usage_error(tmp_path: Path) -> None:
    refused = dict.fromkeys(READERS, 0)
    document = sound(tmp_path)
    there = engine(tmp_path, document)
    for path in places(document):
        for value in WRONG:
            manifest_path(there).write_text(json.dumps(changed(document, path, value)))
            for reader, read in READERS.items():
                try:
                    read(there)  # what is wrong elsewhere is of no concern here
                except UsageError:
                    refused[reader] += 1
                    assert not (tmp_path / "models").exists()
            if (tmp_path / "models").exists():
                shutil.rmtree(tmp_path / "models")
    assert min(refused.values()) > 100


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", ["", "[1]", "null", "{", "[" * 100_000, '{"a":' * 100_000, "\ufeff{}"])
def test_what_is_no_manifest(tmp_path: Path, reader: str, content: str) -> None:
    with pytest.raises(UsageError, match="The engine's manifest cannot be read"):
        READERS[reader](with_text(tmp_path, content))


def test_what_is_no_file(tmp_path: Path) -> None:
    path = manifest_path(engine(tmp_path, {}))
    for make in (os.mkfifo, os.mkdir, lambda where: os.symlink(where.name, where)):
        path.rmdir() if path.is_dir() else path.unlink()
        make(path)
        with pytest.raises(UsageError, match="cannot be read"):
            read_manifest(tmp_path / "m.plan", dict)
    path.unlink()
    assert read_manifest(tmp_path / "m.plan", dict) is None
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # sparse: it must not be read to its end
    with pytest.raises(UsageError, match="more than 64 MiB"):
        read_manifest(tmp_path / "m.plan", dict)


def test_parts() -> None:
    assert sizes([0, 2**63 - 1]) == (0, 2**63 - 1) and sizes([-1], -1) == (-1,)
    for wrong in ([-1], [2**63], [True], [1.0], ["1"], "12", None):
        with pytest.raises((TypeError, ValueError)):
            sizes(wrong)
    assert tensors([{"name": "s", "dtype": "int4", "shape": []}])[0].is_shape_tensor is False
    (profile,) = profiles([{"s": {"min": [-4], "opt": [0], "max": [9], "values": True}}])
    assert profile["s"].min == (-4,) and profile["s"].values is True
    with pytest.raises(ValueError, match="not in order"):
        profiles([{"x": {"min": [2], "opt": [1], "max": [3]}}])
    with pytest.raises(ValueError, match="surrogates"):
        text("\udcff")
