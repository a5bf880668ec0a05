"""Decides whether an engine may replace existing files: only those of an engine of the same model, with its manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.manifest import file_digests, mapping, read_manifest, text

_LEFT = "--force replaces it; -o with another name leaves it as it is"


@dataclass(frozen=True)
class EarlierEngine:
    """An engine described by its manifest. model, fingerprint: its source. files: those that belong together."""

    model: str
    fingerprint: str
    files: frozenset[str]


def earlier_engine(engine: Path) -> EarlierEngine | None:
    """Describes the existing engine by its manifest; None without one. Raises UsageError if it is unreadable."""
    return read_manifest(engine, _earlier)


def _earlier(document: Mapping[str, Any]) -> EarlierEngine:
    model = mapping(document.get("model", {}))
    files = frozenset(file_digests(document["files"]))
    return EarlierEngine(text(model.get("file", "")), text(model.get("fingerprint", "")), files)


def check_replaced(engine: Path, model: str, libraries: Sequence[Path] = ()) -> None:
    """Raises UsageError if an engine would replace other files than its own earlier ones. model: its file's name."""
    manifest = manifest_path(engine)
    try:
        before = earlier_engine(engine)
    except UsageError:
        raise _kept(engine, manifest, "is no manifest of trtsmith's", model) from None
    if before is None:
        if engine.exists() and engine.stat().st_size:
            said = f"exists already, and no {manifest.name} says which model it was made from"
            raise _kept(engine, engine, said, model)
    elif engine.name not in before.files:
        others = ", ".join(sorted(before.files)) or "an engine that is not built yet"
        raise _kept(engine, manifest, f"is the manifest of {others}", model)
    elif before.model != model:
        raise _kept(
            engine, engine, f"exists already, and was made of {before.model or 'another model'}", model
        )
    for library in libraries:
        target = engine.parent / library.name
        own = before is not None and target.name in before.files
        if not own and target.exists() and not _equal(target, library):
            raise _kept(engine, target, f"is another library than {library}", model)


def _kept(engine: Path, path: Path, why: str, model: str) -> UsageError:
    expected = f"nothing of that name, or what was written with an earlier {engine.name} of {model}"
    return UsageError(f"{path} {why}", f"-o {engine}", expected, _LEFT)


def _equal(one: Path, other: Path) -> bool:
    if os.path.samefile(one, other):
        return True
    with one.open("rb") as first, other.open("rb") as second:
        while (block := first.read(1 << 20)) == second.read(1 << 20):
            if not block:
                return True
    return False
