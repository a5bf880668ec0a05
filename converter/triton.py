"""Stage: an engine as a model of a Triton Inference Server repository: config.pbtxt and the engine in a version folder.

    REPOSITORY/NAME/config.pbtxt
    REPOSITORY/NAME/1/model.plan

Field names and values are those of model_config.proto (triton-inference-server/common), to which a test holds them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter.bundle import file_digest, manifest_path
from converter.errors import UsageError
from importers.problem import Problem

_TYPES = {
    "float32": "TYPE_FP32",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "int8": "TYPE_INT8",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint8": "TYPE_UINT8",
    "bool": "TYPE_BOOL",
}
"""What Triton's TensorRT backend takes, by numpy's name."""

_ENGINE_NAME = "model.plan"


@dataclass(frozen=True)
class TritonOptions:
    """name: of the model in the repository. version: the folder of the engine, from 1 on. batching: None to decide by
    the engine. instances: execution contexts on each GPU. queue_delay_us: how long the server may wait, in us, to fill
    a batch."""

    repository: Path
    name: str
    version: int = 1
    batching: bool | None = None
    instances: int = 1
    queue_delay_us: int = 100


@dataclass(frozen=True)
class TritonModel:
    """What was written. command: how to start the server. batch: the largest batch, 0 where requests are not joined."""

    folder: Path
    engine: Path
    batch: int
    command: str
    notes: tuple[str, ...]


def write_model(engine: Path, options: TritonOptions) -> TritonModel:
    """Put an engine that `convert` wrote into a model repository; whole or not at all.

    UsageError if it has no manifest, is not the one that the manifest describes, is TensorRT-RTX's, which Triton does
    not run, or needs plugins that are not embedded: Triton opens plugin libraries with dlopen, and that registers
    nothing of a library that is made for IPluginRegistry::loadLibrary, as ours are.
    """
    manifest = _read_manifest(engine)
    _check_engine(engine, manifest)
    batch = _batch(manifest, options)
    text = config_text(manifest, options, batch)
    folder = options.repository / options.name
    version = folder / str(options.version)
    _check_target(options, folder, version, text)
    try:
        _write(engine, options.repository, folder, version, text)
    except OSError as error:
        raise UsageError(
            Problem(
                f"the model repository cannot be written: {error.strerror or error}",
                str(error.filename or folder),
                "room and permission",
                "free space, or --triton elsewhere",
            )
        ) from error
    return TritonModel(
        folder,
        version / _ENGINE_NAME,
        batch,
        _command(options.repository, manifest),
        _notes(manifest, batch, options),
    )


def config_text(manifest: Mapping[str, Any], options: TritonOptions, batch: int) -> str:
    """config.pbtxt of an engine. batch: 0 for full shapes; else the first dimension of every tensor is left out of
    `dims`, as Triton asks, and requests are joined along it."""
    lines = [
        f"name: {_quoted(options.name)}",
        'platform: "tensorrt_plan"',
        'backend: "tensorrt"',
        f"default_model_filename: {_quoted(_ENGINE_NAME)}",
        f"max_batch_size: {batch}",
    ]
    for kind in ("input", "output"):
        for tensor in manifest[f"{kind}s"]:
            lines += _tensor(kind, tensor, batch)
    lines += ["instance_group {", f"  count: {options.instances}", "  kind: KIND_GPU", "}"]
    if batch:
        usual = _usual_batch(manifest)
        lines += [
            "dynamic_batching {",
            f"  preferred_batch_size: {usual}",
            f"  max_queue_delay_microseconds: {options.queue_delay_us}",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _tensor(kind: str, tensor: Mapping[str, Any], batch: int) -> list[str]:
    dims = list(tensor["shape"])[1 if batch else 0 :]
    lines = [
        f"{kind} {{",
        f"  name: {_quoted(tensor['name'])}",
        f"  data_type: {_TYPES[tensor['dtype']]}",
        *(f"  dims: {size}" for size in dims or [1]),
    ]
    if not dims:  # Triton wants a dimension, TensorRT has none
        lines.append("  reshape { }")
    if tensor.get("is_shape_tensor"):
        lines.append("  is_shape_tensor: true")
    return [*lines, "}"]


def _quoted(text: str) -> str:
    """A string of protobuf's text format: bytes beyond printable ASCII in octal."""
    special = {ord('"'): '\\"', ord("\\"): "\\\\"}
    return (
        '"' + "".join(special.get(b, chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'
    )


def _read_manifest(engine: Path) -> dict[str, Any]:
    path = manifest_path(engine)
    wanted = f"{path}, which `trtsmith convert` writes beside the engine"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        complete = isinstance(document, dict) and {
            "inputs",
            "outputs",
            "profiles",
            "files",
            "tensorrt",
        } <= set(document)
    except (OSError, ValueError) as error:
        raise UsageError(
            Problem(
                f"the engine's manifest cannot be read: {error}",
                str(engine),
                wanted,
                "convert the model again",
            )
        ) from error
    if not complete:
        raise UsageError(
            Problem(
                "the engine's manifest is of another version", str(path), wanted, "convert the model again"
            )
        )
    return dict(document)


def _check_engine(engine: Path, manifest: Mapping[str, Any]) -> None:
    problems = []
    try:
        unchanged = manifest["files"].get(engine.name) == file_digest(engine)
    except OSError as error:
        raise UsageError(
            Problem(
                f"the engine cannot be read: {error.strerror}", str(engine), "an engine", "correct the path"
            )
        ) from error
    if not unchanged:
        problems.append(
            Problem(
                "the engine is not the one that its manifest describes",
                f"{engine}, {manifest_path(engine).name}",
                f"a file with the hash {manifest['files'].get(engine.name)}",
                "convert the model again, or copy engine and manifest together",
            )
        )
    if manifest["tensorrt"]["flavour"] != "tensorrt":
        problems.append(
            Problem(
                "Triton's TensorRT backend does not run engines of TensorRT-RTX",
                str(engine),
                "an engine of TensorRT, of the version that the server has",
                "build on a machine with that TensorRT: trtsmith convert --flavour tensorrt",
            )
        )
    if manifest["plugins"] and not manifest.get("plugins_embedded"):
        problems.append(
            Problem(
                f"the engine needs plugins that it does not hold: {', '.join(manifest['plugins'])}",
                str(engine),
                "an engine with its plugin libraries embedded: the server does not register ours by preloading them",
                "trtsmith convert ... --embed-plugins",
            )
        )
    for tensor in (*manifest["inputs"], *manifest["outputs"]):
        if tensor["dtype"] not in _TYPES:
            what = f"Triton has no type for {tensor['dtype']}"
            fix = "put a Cast next to that input or output of the model"
            problems.append(Problem(what, f"{tensor['name']!r} of {engine}", ", ".join(_TYPES), fix))
    if problems:
        raise UsageError(problems)


def _batch(manifest: Mapping[str, Any], options: TritonOptions) -> int:
    """The largest batch, if requests can be joined along the first dimension of every input and output."""
    if options.batching is False:
        return 0
    ranges = {_first_range(manifest, tensor) for tensor in manifest["inputs"]}
    dynamic = all(list(tensor["shape"])[:1] == [-1] for tensor in (*manifest["inputs"], *manifest["outputs"]))
    (low, high) = ranges.pop() if len(ranges) == 1 else (0, 0)
    if dynamic and not ranges and low <= 1 < high:
        return high
    if options.batching:
        raise UsageError(
            Problem(
                "requests for this engine cannot be joined to batches",
                "--batching",
                "a dynamic first dimension, of one range from 1 on, of every input, and of every output",
                "convert the model with such --shapes, or leave --batching out",
            )
        )
    return 0


def _first_range(manifest: Mapping[str, Any], tensor: Mapping[str, Any]) -> tuple[int, int]:
    """(smallest, largest) first dimension of an input in the first profile; (0, 0) for none that could be a batch."""
    profile = manifest["profiles"][0].get(tensor["name"]) if manifest["profiles"] else None
    if profile is None or tensor.get("is_shape_tensor") or profile.get("values") or not profile["min"]:
        return 0, 0
    return profile["min"][0], profile["max"][0]


def _usual_batch(manifest: Mapping[str, Any]) -> int:
    return int(manifest["profiles"][0][manifest["inputs"][0]["name"]]["opt"][0])


def _check_target(options: TritonOptions, folder: Path, version: Path, text: str) -> None:
    where = f"--triton {options.repository}, model {options.name!r}"
    if not options.name or options.name in (".", "..") or set(options.name) & set("/\\\0"):
        fix = "give another with --name"
        raise UsageError(Problem("the model's name is no name of a folder", where, "a plain name", fix))
    if options.repository.exists() and not options.repository.is_dir():
        raise UsageError(Problem(f"{options.repository} is a file", where, "a folder", "name another"))
    if version.exists():
        fix = f"--model-version {options.version + 1}, or remove it"
        raise UsageError(Problem(f"{version} exists already", where, "a version that is not there", fix))
    config = folder / "config.pbtxt"
    if folder.exists() and not (config.is_file() and config.read_text(encoding="utf-8") == text):
        raise UsageError(
            Problem(
                "the model is there with another configuration, which holds for all its versions",
                str(config),
                "inputs, outputs and options as this engine has them",
                "give the engine another name with --name, or remove the old model",
            )
        )


def _write(engine: Path, repository: Path, folder: Path, version: Path, text: str) -> None:
    """Under a name that the server does not look at, renamed when complete."""
    repository.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository, prefix=".trtsmith-") as name:
        staged = Path(name) / "model"
        target = staged / version.name
        target.mkdir(parents=True)
        shutil.copyfile(engine, target / _ENGINE_NAME)
        (staged / "config.pbtxt").write_text(text, encoding="utf-8")
        if folder.exists():
            os.rename(target, version)
        else:
            os.rename(staged, folder)


def _command(repository: Path, manifest: Mapping[str, Any]) -> str:
    words: Sequence[str] = ["tritonserver", f"--model-repository={repository}"]
    if manifest["plugins"]:  # an engine that holds libraries holds code of the host
        words = [*words, "--backend-config=tensorrt,version-compatible=true"]
    return " ".join(words)


def _notes(manifest: Mapping[str, Any], batch: int, options: TritonOptions) -> tuple[str, ...]:
    notes = [f"the server needs TensorRT {manifest['tensorrt']['version']}, which built the engine"]
    if batch and options.batching is None:
        notes.append(
            f"requests are joined along the first dimension of every input, up to {batch}: "
            f"--no-batching if that is no batch"
        )
    if manifest["plugins"]:
        notes.append(
            "the engine holds plugin libraries, and the server runs them: deploy only engines that you trust"
        )
    for io in manifest.get("io_types", ()):
        notes.append(
            f"{io['name']!r} is {io['after']} in the engine, {io['before']} in the model: clients cast"
        )
    return tuple(notes)
