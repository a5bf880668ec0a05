"""Reads an engine's description and needs from its manifest, and checks them against this machine, without loading it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_request import EngineTensor, Profile
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.manifest import (
    file_digests,
    flag,
    io_types,
    items,
    mapping,
    profiles,
    read_manifest,
    tensors,
    text,
)
from trtsmith.converter.engine.runtime.run_request import RunningOptions, RunRequest
from trtsmith.converter.engine.runtime.tensors import TensorSpec
from trtsmith.converter.rewrite.types import IoType
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class Manifest:
    """The parts of a manifest needed to run the engine.

    files:  "sha256:..." by file name, the engine's too. digest: the engine's own.
    stripped: whether its weights were left out. onnx_file: of which name it was converted, where it was one.
    portable: whether other versions of TensorRT may load it: that runs the lean runtime inside the engine.
    """

    flavour: str
    version: str
    targets: tuple[str, ...]
    files: Mapping[str, str]
    io_types: tuple[IoType, ...]
    embedded: bool
    portable: bool = False
    stripped: bool = False
    onnx_file: str = "MODEL"
    digest: str = ""


def request_for(
    engine: Path,
    plugins: Sequence[Path] = (),
    flavour: str = "auto",
    *,
    embedded_plugins: bool = False,
    without_weights: bool = False,
    **settings: Any,
) -> RunRequest:
    """Makes the request to run ENGINE from the manifest beside it: its TensorRT, plugin libraries and casts.

    plugins: libraries of the user's, in addition. One that has the name of a library of the manifest stands for it.
    embedded_plugins: load the libraries inside the engine even if no manifest lists them. without_weights:
    take an engine that has none yet, too. settings: the other fields of RunRequest, as they are.
    A library runs code of its own, so one is loaded only if it is named in the manifest, with its hash, or here.
    Without a manifest only `plugins` and `flavour` hold.

    Raises UsageError where the engine or a library is missing, or is not the one that the manifest is about.
    """
    manifest = checked_manifest(engine, flavour)
    if manifest is None:
        return RunRequest(engine, tuple(plugins), flavour, embedded_plugins=embedded_plugins, **settings)
    if manifest.stripped and not without_weights:
        what, expected = "The engine was built without its weights (--strip-plan).", "an engine with weights"
        given = shlex.join(["refit", str(engine), "--onnx", manifest.onnx_file])
        fix = f"trtsmith {given}; or convert without --strip-plan"
        raise UsageError(what, str(engine), expected, fix)
    return RunRequest(
        engine,
        _libraries(manifest, engine, tuple(plugins)),
        manifest.flavour,
        manifest.io_types,
        embedded_plugins=embedded_plugins or manifest.embedded or manifest.portable,
        built_version="" if manifest.portable else manifest.version,
        targets=manifest.targets,
        **settings,
    )


def request_as_asked(engine: Path, asked: RunningOptions, **settings: Any) -> RunRequest:
    """Makes `request_for` with the user's options. settings: the other fields of RunRequest."""
    return request_for(engine, asked.plugins, asked.flavour, timeout_s=asked.timeout_s, **settings)


def checked_manifest(engine: Path, flavour: str = "auto") -> Manifest | None:
    """Reads the manifest beside the engine and checks that it fits both engine and flavour; None without one.

    Raises UsageError otherwise, and where there is no such engine.
    """
    if not engine.is_file():
        raise UsageError("There is no such file.", str(engine), "an engine", "correct the path")
    if engine.suffix == ".onnx":
        fix = f"name its engine; without one: trtsmith convert {shlex.quote(str(engine))}"
        raise UsageError("The file's name says that it is a model.", str(engine), "an engine", fix)
    if (name := engine.name.removesuffix(".manifest.json")) != engine.name:
        fix = f"name the engine beside it: {shlex.quote(str(engine.with_name(f'{name}.plan')))}"
        raise UsageError("The file's name says that it is a manifest.", str(engine), "an engine", fix)
    manifest = read_manifest(engine, manifest_of)
    if manifest is None:
        return None
    manifest = replace(manifest, digest=file_digest(engine))
    _check_engine(manifest, engine, flavour)
    return manifest


def manifest_of(document: Mapping[str, Any]) -> Manifest:
    built_by, settings = mapping(document["tensorrt"]), mapping(document.get("settings", {}))
    file = text(mapping(document.get("model", {})).get("file", ""))
    return Manifest(
        flavour=text(built_by["flavour"]),
        version=text(built_by["version"]),
        targets=tuple(map(text, items(document["targets"]))),
        files=file_digests(document["files"]),
        io_types=io_types(document.get("io_types", [])),
        embedded=flag(document.get("plugins_embedded", False)),
        portable=flag(settings.get("version_compatible", False)),
        stripped=flag(settings.get("strip_plan", False)),
        **({"onnx_file": file} if file.endswith(".onnx") else {}),
    )


def _check_engine(manifest: Manifest, engine: Path, flavour: str) -> None:
    if manifest.digest not in manifest.files.values():
        # by any name: a bundle may be renamed
        engines = [digest for name, digest in manifest.files.items() if not name.endswith(".so")]
        raise UsageError(
            "The manifest beside the engine belongs to another engine.",
            f"{engine}, {manifest_path(engine)}",
            f"an engine with the hash {' or '.join(engines)}; this one has {manifest.digest}",
            "convert the model again, or move the manifest away if the engine is not trtsmith's",
        )
    if flavour not in ("auto", manifest.flavour):
        raise UsageError(
            f"The engine was built by {manifest.flavour} {manifest.version}: {flavour} cannot load it.",
            f"{engine}, --flavour {flavour}",
            f"--flavour {manifest.flavour}",
            "leave the flag out, or convert the model again for the other flavour",
        )


def _libraries(manifest: Manifest, engine: Path, given: tuple[Path, ...]) -> tuple[Path, ...]:
    """The libraries of the manifest and the user's; UsageError with all that are missing or not what they should be."""
    by_name = {path.name: path for path in given}
    folder, source = engine.parent, manifest_path(engine).name
    found: list[Path] = []
    problems = []
    for name, digest in manifest.files.items():
        path = by_name.pop(name, folder / name)
        if digest == manifest.digest or manifest.embedded:
            continue
        if not path.is_file():
            problems.append(
                Problem(
                    f"The engine's plugin library {name} is missing.",
                    str(path),
                    f"the library of the hash {digest}, as {source} says",
                    "copy it beside the engine, or name it with --plugins",
                )
            )
        elif (actual := file_digest(path)) != digest:
            problems.append(
                Problem(
                    f"The plugin library {name} is not the one that the engine was built with.",
                    str(path),
                    f"the hash {digest}, as {source} says; this one has {actual}",
                    "copy the library of the engine's own bundle, or convert the model again with this one",
                )
            )
        found.append(path)
    if problems:
        raise UsageError(problems)
    return (*found, *by_name.values())


@dataclass(frozen=True)
class EngineDescription:
    """A manifest's description of its engine. profiles: their number."""

    made: Manifest
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    profiles: int


def describe_bundle(engine: Path, flavour: str = "auto") -> EngineDescription:
    """Describes the engine by its manifest.

    UsageError where engine or manifest is missing, or they are not of each other, or the manifest is not to be read.
    """
    made = checked_manifest(engine, flavour)
    described = None if made is None else read_manifest(engine, lambda document: _description(document, made))
    if described is None:
        raise without_manifest(engine)
    return described


def without_manifest(engine: Path) -> UsageError:
    """The error for an engine without the manifest from which it is to be described."""
    expected = "the manifest that `trtsmith convert` writes beside the engine"
    fix = "copy it from where the engine was built, or convert the model again"
    return UsageError("there is no manifest beside the engine", str(manifest_path(engine)), expected, fix)


def _description(document: Mapping[str, Any], made: Manifest) -> EngineDescription:
    sizes = profiles(document.get("profiles", []))
    return EngineDescription(
        made,
        tuple(_spec(tensor, sizes, is_input=True) for tensor in tensors(document["inputs"])),
        tuple(_spec(tensor, (), is_input=False) for tensor in tensors(document["outputs"])),
        len(sizes),
    )


def _spec(tensor: EngineTensor, sizes: tuple[dict[str, Profile], ...], *, is_input: bool) -> TensorSpec:
    """An input that is in no profile has one size, which its shape says."""
    allowed = tuple(one[tensor.name] for one in sizes if tensor.name in one)
    whole = len(allowed) == len(sizes)
    return TensorSpec(
        tensor.name, tensor.dtype, tensor.shape, is_input, tensor.is_shape_tensor, allowed if whole else ()
    )
