"""Stage: writes the files of a deployment: engine, plugin library, manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import check_mount, unfinished_file, unfinished_name
from trtsmith.converter.base.process.folder_lock import folder_lock


@dataclass(frozen=True)
class Bundle:
    """The written files. warnings: one sentence each."""

    engine: Path
    libraries: tuple[Path, ...]
    manifest: Path
    warnings: tuple[str, ...] = ()


def check_output(engine: Path, model: Path | None = None, libraries: Sequence[Path] = ()) -> None:
    """Raises UsageError if an engine, its libraries and its manifest cannot be written there.

    Found out before any work is done.
    """
    where = f"-o {engine}"
    try:
        _check_paths(engine, model, libraries, where)
        with tempfile.TemporaryFile(dir=engine.parent):
            pass
    except OSError as error:
        what = f"the output cannot be written: {error.strerror}"
        raise UsageError(what, where, "a file name in a writable folder", "choose another with -o") from error


def _check_paths(engine: Path, model: Path | None, libraries: Sequence[Path], where: str) -> None:
    folder = engine.parent
    if engine.is_dir():
        named = engine / ("model" if model is None else model.name)
        raise UsageError("the output is a folder", where, "a file name", f"-o {named.with_suffix('.plan')}")
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, not a folder",
            where,
            "a file name in a folder",
            "choose another with -o",
        )
    if not folder.is_dir():
        raise UsageError(
            "the output's folder does not exist", where, "an existing folder", f"mkdir -p {folder}"
        )
    if engine.exists() and not (engine.is_file() and os.access(engine, os.W_OK)):
        raise UsageError("the output cannot be written", where, "a writable file", "choose another file")
    check_mount(engine, where)
    targets: dict[str, Path] = {engine.name: engine}
    for source in (*{os.path.realpath(path): path for path in libraries}.values(), manifest_path(engine)):
        target = folder / source.name
        if targets.setdefault(source.name, source) is not source:
            what = f"two of the files to be written have the name {source.name!r}"
            fix = "name another file with -o, or rename the library"
            raise UsageError(what, where, "different names for engine, libraries and manifest", fix)
        check_mount(target, where)
        if target.is_dir():
            fix = "remove the folder, or choose another folder with -o"
            raise UsageError(f"{target} is a folder", where, "a file, or nothing, of that name", fix)
    for target in (engine, manifest_path(engine)):
        if model is not None and target.exists() and model.exists() and os.path.samefile(target, model):
            raise UsageError(
                "the output is the model itself", where, "another file", "name another file with -o"
            )
    if engine.suffix == ".onnx":  # the model, and the engine's name in its place
        what, fix = "the output has the name of a model", f"-o {engine.with_suffix('.plan')}"
        raise UsageError(what, where, "an engine's file name; the model's stands without a flag", fix)


def manifest_path(engine: Path) -> Path:
    """Returns the manifest's path: model.manifest.json for model.plan. A path without a name, such as ".", is no
    engine's.
    """
    return engine.with_suffix(".manifest.json") if engine.name else engine / ".manifest.json"


def write_bundle(built: Path, engine: Path, libraries: tuple[Path, ...], facts: Mapping[str, Any]) -> Bundle:
    """Moves the built engine into place, and writes the plugin libraries and the manifest beside it.

    Everything is written under temporary names first, and takes its name while the folder is locked: of two that write one
    engine, the files of one are there. A failure leaves what was there as it was. UsageError when the disk refuses.
    """
    folder, warnings = engine.parent, list[str]()
    targets = [folder / library.name for library in libraries]
    manifest = manifest_path(engine)
    staged: list[tuple[str, Path]] = []
    try:
        try:
            for library, target in zip(libraries, targets, strict=True):
                if not (target.exists() and os.path.samefile(library, target)):
                    staged.append((_stage(library, folder), target))
            document = dict(facts) | {
                "files": {
                    path.name: file_digest(source)
                    for path, source in [(engine, built), *zip(targets, libraries, strict=True)]
                }
            }
            descriptor, name = unfinished_file(folder)
            staged.append((name, manifest))
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(document, stream, indent=1)
                stream.write("\n")
            staged.append((_stage(built, folder), engine))
            with folder_lock(folder, warnings.append):
                _take_places(staged, folder)
        finally:
            for source, _ in staged:
                Path(source).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"the output cannot be written: {error.strerror}",
            str(folder),
            "room and permission",
            "free space, or -o elsewhere",
        ) from error
    return Bundle(engine, tuple(targets), manifest, tuple(warnings))


def _take_places(staged: Sequence[tuple[str, Path]], folder: Path) -> None:
    """Give the staged files their names, the engine last. On a failure, or a signal, the files that were there are back."""
    *others, (last, _) = staged
    before: dict[Path, str] = {}
    try:
        for _, target in others:
            if os.path.lexists(target):
                before[target] = unfinished_name(folder)
                _keep(target, before[target])
        for source, target in staged:
            os.replace(source, target)
    except BaseException:
        replaced = [target for source, target in others if not os.path.lexists(source)]
        for target in replaced if os.path.lexists(last) else ():
            with suppress(OSError):
                os.replace(before[target], target) if target in before else target.unlink()
        raise
    finally:
        for kept in before.values():
            Path(kept).unlink(missing_ok=True)


def _keep(path: Path, name: str) -> None:
    """The file under a second name, as a copy where the file system has no hard links."""
    try:
        os.link(path, name)
    except OSError:
        shutil.copyfile(path, name)


def toolkit_version() -> str:
    """Returns the version of the installed trtsmith; "source" when it runs from a checkout."""
    from importlib import metadata  # takes a tenth of the time of `trtsmith check`, which does not ask

    try:
        return metadata.version("trtsmith")
    except metadata.PackageNotFoundError:
        return "source"


def _stage(source: Path, folder: Path) -> str:
    descriptor, name = unfinished_file(folder)
    try:
        with os.fdopen(descriptor, "wb") as out, source.open("rb") as stream:
            shutil.copyfileobj(stream, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return name


def file_digest(path: Path) -> str:
    """Returns "sha256:..." of a file's bytes, as the manifest has it. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return "sha256:" + digest.hexdigest()
