"""Stage: writes an engine as a model of a Triton Inference Server repository: config.pbtxt and a version folder.

The server finds it as REPOSITORY/NAME, with REPOSITORY/NAME/config.pbtxt and REPOSITORY/NAME/1/model.plan. Beside an engine
of TensorRT-RTX lie its manifest, its plugin libraries and a model.py, with which Triton's Python backend runs it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import take_place
from trtsmith.converter.engine.bundle.bundle import manifest_path
from trtsmith.converter.engine.bundle.engine_facts import (
    REGISTERING,
    REGISTERING_NOTE,
    BundledEngine,
    Facts,
    read_facts,
)
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.bundle.triton_config import (
    ENGINE_NAME,
    PYTHON_NAME,
    TritonOptions,
    config_text,
    largest_batch,
    types_of,
)
from trtsmith.importers.problem import Problem

_CONFIG = "config.pbtxt"


def write_model(engine: Path, options: TritonOptions, *, force: bool = False) -> BundledEngine:
    """Puts an engine of `convert` into a model repository, whole or not at all. force: it may replace its version.

    UsageError if it has no manifest, or is not the one that the manifest describes. An engine of TensorRT has its plugins
    embedded, or one library: Triton opens plugin libraries with dlopen, and that registers nothing of a library that is made
    for IPluginRegistry::loadLibrary, as ours are, without another one's help.
    """
    _check_name(options)
    facts = read_facts(engine)
    libraries = () if facts.made.embedded else request_for(engine).plugin_libraries
    _check_engine(engine, facts, libraries)
    batch = largest_batch(facts, options)
    config = config_text(facts, options, batch)
    folder = options.repository / options.name
    version = folder / str(options.version)
    _check_target(options, folder, version, config, force)
    files = _files(engine, facts, libraries)
    try:
        _write(files, options.repository, folder, version, config)
    except OSError as error:
        raise UsageError(
            f"the model repository cannot be written: {error.strerror or error}",
            str(error.filename or folder),
            "room and permission",
            "free space, or -o elsewhere",
        ) from error
    return BundledEngine(
        folder,
        version / ENGINE_NAME,
        batch,
        _command(options.repository, facts, [version / library.name for library in libraries]),
        _notes(facts, batch, options),
        (folder / _CONFIG, *(version / name for name in files)),
    )


def _check_engine(engine: Path, facts: Facts, libraries: Sequence[Path]) -> None:
    problems, types = [], types_of(facts)
    if facts.plugins and not facts.made.embedded and not facts.is_rtx and len(libraries) != 1:
        problems.append(
            Problem(
                f"the engine needs plugins of {len(libraries)} libraries: {', '.join(facts.plugins)}",
                str(engine),
                "an engine with its plugin libraries embedded, or one library beside it, which the server registers",
                "trtsmith convert ... --embed-plugins",
            )
        )
    for tensor in (*facts.inputs, *facts.outputs):
        if tensor.dtype not in types:
            backend = "'s Python backend" if facts.is_rtx else ""
            what = f"Triton{backend} has no type for {tensor.dtype}"
            fix = "put a Cast next to that input or output of the model"
            problems.append(Problem(what, f"{tensor.name!r} of {engine}", ", ".join(types), fix))
    if problems:
        raise UsageError(problems)


def _where(options: TritonOptions) -> str:
    return f"-o {options.repository}, model {options.name!r}"


def _check_name(options: TritonOptions) -> None:
    plain = options.name.isprintable() and not set(options.name) & set("/\\")
    if not plain or options.name in ("", ".", ".."):
        fix = "give another with --name"
        raise UsageError("the model's name is not a folder name", _where(options), "a plain name", fix)


def _check_target(options: TritonOptions, folder: Path, version: Path, config: str, force: bool) -> None:
    where = _where(options)
    if options.repository.exists() and not options.repository.is_dir():
        raise UsageError(f"{options.repository} is a file", where, "a folder", "name another")
    if version.exists() and not force:
        fix = f"--model-version {options.version + 1}, or --force to replace it"
        raise UsageError(
            f"{version} exists already", where, "a version that the repository does not have", fix
        )
    before = folder / _CONFIG
    if folder.exists() and not (before.is_file() and before.read_bytes() == config.encode()):
        raise UsageError(
            "the repository has this model with another configuration, which holds for all its versions",
            str(before),
            "inputs, outputs and options as this engine has them",
            "give the engine another name with --name, or remove the old model",
        )


def _files(engine: Path, facts: Facts, libraries: Sequence[Path]) -> dict[str, Path]:
    """What the version's folder holds, by name."""
    files = {ENGINE_NAME: engine, **{library.name: library for library in libraries}}
    if facts.is_rtx:
        files[manifest_path(Path(ENGINE_NAME)).name] = manifest_path(engine)
        files[PYTHON_NAME] = Path(__file__).with_name("triton_model.py")
    return files


def _write(files: Mapping[str, Path], repository: Path, folder: Path, version: Path, config: str) -> None:
    """Writes a file under a name that the server does not look at, and renames it when complete."""
    repository.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository, prefix=".trtsmith-") as made:
        staged = Path(made) / "model"
        target = staged / version.name
        target.mkdir(parents=True)
        for name, source in files.items():
            shutil.copyfile(source, target / name)
        (staged / _CONFIG).write_text(config, encoding="utf-8")
        if folder.exists():
            take_place(target, version)
        else:
            os.rename(staged, folder)


def _command(repository: Path, facts: Facts, libraries: Sequence[Path]) -> str:
    words = ["tritonserver", f"--model-repository={repository}"]
    if facts.plugins and not facts.is_rtx:
        # An engine that holds libraries holds code of the host.
        option = f"plugins=./{REGISTERING}" if libraries else "version-compatible=true"
        words.append(f"--backend-config=tensorrt,{option}")
        words = [*(word for library in libraries for word in ("env", f"TRTSMITH_PLUGINS={library}")), *words]
    return shlex.join(words)


def _notes(facts: Facts, batch: int, options: TritonOptions) -> tuple[str, ...]:
    needs = f"TensorRT {facts.made.version}, which built the engine"
    if facts.is_rtx:
        needs = f"a Python with trtsmith[gpu] and TensorRT-RTX {facts.made.version}: its Python backend runs the engine"
    notes = [f"the server needs {needs}"]
    if batch and options.batching is None:
        notes.append(
            f"the server batches requests along the first dimension of every input, up to {batch}; --no-batching if that "
            "is not a batch"
        )
    if facts.plugins and not facts.is_rtx:
        notes.append(
            "the engine holds plugin libraries, and the server runs them: deploy only engines that you trust"
            if facts.made.embedded
            else f"{REGISTERING_NOTE}; convert with --embed-plugins to need none"
        )
    for io in () if facts.is_rtx else facts.made.io_types:
        notes.append(f"{io.name!r} is {io.after} in the engine, {io.before} in the model: clients cast")
    return tuple(notes)
