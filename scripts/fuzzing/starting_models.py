"""Collects the models to change: every example of the repository, and ONNX's own backend tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import onnx

from checkoutdiff.model_sources import SOURCES
from fuzzing.bombs import FAMILIES, named_bombs
from trtsmith.converter.samples.sample_models import SAMPLES, write_samples

EXAMPLES = ("rules", "foreign", "bombs")
"""Sources that are written in a second or two; `suite` takes ten."""

ALL = (*EXAMPLES, "suite", "documents")

_OF_A_FAMILY = 4
_LARGEST_BOMB = 1 << 16
"""Bytes: changes to larger ones would take most of the time."""

LARGEST = 1 << 20
"""Bytes of the largest model that is changed: what is found in a larger one is found in a small one, sooner."""


@dataclass(frozen=True)
class StartingModel:
    """An unchanged model. name: source and name."""

    name: str
    data: bytes


def starting_models(names: tuple[str, ...], folder: Path) -> list[StartingModel]:
    """The models of these sources, without duplicates, in a fixed order.

    folder: where they are written, and found the next time.
    """
    found: dict[bytes, StartingModel] = {}
    for name in names:
        inside = folder / name
        listed = folder / f"{name}.json"
        if not listed.is_file():
            inside.mkdir(parents=True, exist_ok=True)
            listed.write_text(json.dumps(_written(name, inside)), encoding="utf-8")
        for label, file in json.loads(listed.read_text(encoding="utf-8")):
            data = (inside / file).read_bytes()
            if len(data) <= LARGEST:
                found.setdefault(data, StartingModel(f"{name}/{label}", data))
    return list(found.values())


def _written(name: str, folder: Path) -> list[tuple[str, str]]:
    if name == "documents":
        return list(_of_documents(folder))
    if name == "bombs":
        return list(_of_bombs(folder))
    return [(model.name, model.file) for model in SOURCES[name](folder, folder)]


def _of_bombs(folder: Path) -> Iterator[tuple[str, str]]:
    """A few models of every family of bombs, and the named ones."""
    drawn = (
        (f"{family.__name__.strip('_')}-{index}", bytes(family(Random(index)).SerializeToString()))
        for family in FAMILIES
        for index in range(_OF_A_FAMILY)
    )
    for label, data in (*named_bombs().items(), *drawn):
        if len(data) <= _LARGEST_BOMB:
            (folder / f"{label}.onnx").write_bytes(data)
            yield label, f"{label}.onnx"


def _of_documents(folder: Path) -> Iterator[tuple[str, str]]:
    """The documents' sample models, and networks in ONNX's own tests."""
    write_samples(list(SAMPLES), folder)
    for path in sorted(folder.rglob("*.onnx")):
        yield path.stem, str(path.relative_to(folder))
    carried = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(carried.rglob("*.onnx")):
        label = f"{path.parent.parent.name}-{path.parent.name}"
        if path.stat().st_size <= LARGEST:
            (folder / f"{label}.onnx").write_bytes(path.read_bytes())
            yield label, f"{label}.onnx"
