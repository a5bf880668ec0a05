"""From an engine to all that is needed to run it: what the manifest beside it says, checked against what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from converter.bundle import file_digest, manifest_path
from converter.errors import UsageError
from converter.passes.types import IoType
from converter.runtime.request import RunRequest
from importers.problem import Problem


@dataclass(frozen=True)
class Manifest:
    """The parts of a manifest that running an engine needs. files: "sha256:..." by file name, the engine's too."""

    path: Path
    flavour: str
    version: str
    targets: tuple[str, ...]
    files: Mapping[str, str]
    io_types: tuple[IoType, ...]
    embedded: bool


def request_for(
    engine: Path,
    plugins: Sequence[Path] = (),
    flavour: str = "auto",
    *,
    runtime_cache: Path | None = None,
    cuda_graph: bool = False,
    profile: int = 0,
    embedded_plugins: bool = False,
    verbose: bool = False,
    timeout_s: float | None = None,
) -> RunRequest:
    """How to run ENGINE, by the manifest beside it: which TensorRT, which plugin libraries, which casts at the edges.

    plugins: libraries of the user's, in addition. One that has the name of a library of the manifest stands for it.
    embedded_plugins: load what libraries are inside the engine although no manifest says that there are some.
    A library runs code of its own, so one is loaded only if it is named in the manifest, with its hash, or here.
    Without a manifest only `plugins` and `flavour` hold.

    Raises UsageError where the engine or a library is missing, or is not the one that the manifest is about.
    """
    if not engine.is_file():
        raise UsageError(Problem("There is no such file.", str(engine), "an engine", "correct the path"))
    manifest = _read(manifest_path(engine))
    libraries: tuple[Path, ...] = tuple(plugins)
    if manifest is not None:
        digest = file_digest(engine)
        _check_engine(manifest, engine, digest, flavour)
        flavour = manifest.flavour
        libraries = _libraries(manifest, engine.parent, digest, libraries)
    return RunRequest(
        engine_path=engine,
        plugin_libraries=libraries,
        flavour=flavour,
        io_types=manifest.io_types if manifest else (),
        runtime_cache=runtime_cache,
        cuda_graph=cuda_graph,
        verbose=verbose,
        timeout_s=timeout_s,
        profile=profile,
        embedded_plugins=embedded_plugins or (manifest is not None and manifest.embedded),
        built_version=manifest.version if manifest else "",
        targets=manifest.targets if manifest else (),
    )


def _read(path: Path) -> Manifest | None:
    """None where there is no manifest. UsageError for one that cannot be read."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        return Manifest(
            path=path,
            flavour=_text(data["tensorrt"]["flavour"]),
            version=_text(data["tensorrt"]["version"]),
            targets=tuple(_text(target) for target in data["targets"]),
            files={_file_name(name): _text(digest) for name, digest in data["files"].items()},
            io_types=tuple(
                IoType(_text(io["name"]), _dtype(io["before"]), _dtype(io["after"]))
                for io in data.get("io_types", ())
            ),
            embedded=data.get("plugins_embedded") is True,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            Problem(
                f"The engine's manifest cannot be read: {type(error).__name__}: {error}",
                str(path),
                "the manifest that `trtsmith convert` wrote with the engine",
                "convert the model again, or move the file away and name plugin libraries with --plugins",
            )
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _dtype(value: Any) -> str:
    np.dtype(_text(value))  # a TypeError if there is none of that name
    return str(value)


def _file_name(value: Any) -> str:
    """A name without a folder: a manifest names files that lie beside it, and no others."""
    if not isinstance(value, str) or Path(value).name != value:
        raise ValueError(f"{value!r} is not a file name")
    return value


def _check_engine(manifest: Manifest, engine: Path, digest: str, flavour: str) -> None:
    if digest not in manifest.files.values():
        raise UsageError(
            Problem(
                "The manifest beside the engine is about another engine.",
                f"{engine}, {manifest.path}",
                f"an engine with one of the hashes {', '.join(manifest.files.values())}; this one has {digest}",
                "convert the model again, or move the manifest away if the engine is not trtsmith's",
            )
        )
    if flavour not in ("auto", manifest.flavour):
        raise UsageError(
            Problem(
                f"The engine was built by {manifest.flavour} {manifest.version}: {flavour} cannot load it.",
                f"{engine}, --flavour {flavour}",
                f"--flavour {manifest.flavour}",
                "leave the flag out, or convert the model again for the other flavour",
            )
        )


def _libraries(
    manifest: Manifest, folder: Path, engine_digest: str, given: tuple[Path, ...]
) -> tuple[Path, ...]:
    """The libraries of the manifest and the user's; UsageError with all that are missing or not what they should be."""
    by_name = {path.name: path for path in given}
    found: list[Path] = []
    problems = []
    for name, digest in manifest.files.items():
        path = by_name.pop(name, folder / name)
        if digest == engine_digest or manifest.embedded:
            continue
        if not path.is_file():
            problems.append(
                Problem(
                    f"The engine's plugin library {name} is missing.",
                    str(path),
                    f"the library of the hash {digest}, as {manifest.path.name} says",
                    "copy it beside the engine, or name it with --plugins",
                )
            )
        elif (actual := file_digest(path)) != digest:
            problems.append(
                Problem(
                    f"The plugin library {name} is not the one that the engine was built with.",
                    str(path),
                    f"the hash {digest}, as {manifest.path.name} says; this one has {actual}",
                    "copy the library of the engine's own bundle, or convert the model again with this one",
                )
            )
        found.append(path)
    if problems:
        raise UsageError(problems)
    return (*found, *by_name.values())
