"""Decides whether an engine may replace existing files: only those of an engine of the same model, with its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.manifest import file_digests, mapping, read_manifest, text

_LEFT = "--force replaces it; -o with another name leaves it as it is"
_LIBRARY_LEFT = "--force replaces it{breaks}; -o in another folder leaves it as it is"


@dataclass(frozen=True)
class EarlierEngine:
    """An engine described by its manifest. model, fingerprint: its source. files: by name of those that belong together,
    the engine first, their digests.
    """

    model: str
    fingerprint: str
    files: Mapping[str, str]


def earlier_engine(engine: Path) -> EarlierEngine | None:
    """Describes the existing engine by its manifest; None without one. Raises UsageError if it is unreadable."""
    return read_manifest(engine, _earlier)


def _earlier(document: Mapping[str, Any]) -> EarlierEngine:
    model = mapping(document.get("model", {}))
    files = file_digests(document["files"])
    return EarlierEngine(text(model.get("file", "")), text(model.get("fingerprint", "")), files)


def engines_broken(engine: Path, libraries: Sequence[Path]) -> Iterator[str]:
    """Warns of other engines beside, whose plugin library the files of this one are about to replace."""
    for library in libraries:
        target = engine.parent / library.name
        names = [] if not target.exists() or _equal(target, library) else _built_with(target, engine)
        if names:
            were, them = ("was", "it") if len(names) == 1 else ("were", "them")
            yield (
                f"{', '.join(names)} in this folder {were} built with the previous {target.name}, which is replaced: "
                f"convert {them} again, too; -o in another folder keeps both"
            )


def _built_with(library: Path, engine: Path) -> list[str]:
    """Other engines beside the library, that have it by their manifests."""
    digest, names = file_digest(library), []
    for manifest in sorted(library.parent.glob("*.manifest.json")):
        with suppress(UsageError):  # a file of others
            other = earlier_engine(manifest.with_suffix(""))
            if other and manifest != manifest_path(engine) and other.files.get(library.name) == digest:
                names.append(next(iter(other.files)))
    return names


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
            names = _built_with(target, engine)
            fix = _LIBRARY_LEFT.format(breaks=f" and breaks {', '.join(names)}" if names else "")
            raise _kept(engine, target, f"is another library than {library}", model, fix)


def _kept(engine: Path, path: Path, why: str, model: str, fix: str = _LEFT) -> UsageError:
    expected = f"nothing of that name, or what was written with an earlier {engine.name} of {model}"
    return UsageError(f"{path} {why}", f"-o {engine}", expected, fix)


def _equal(one: Path, other: Path) -> bool:
    if os.path.samefile(one, other):
        return True
    with one.open("rb") as first, other.open("rb") as second:
        while (block := first.read(1 << 20)) == second.read(1 << 20):
            if not block:
                return True
    return False
