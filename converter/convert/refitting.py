"""Gives an engine the weights of another model of the same structure, without a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import same_file
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress, progress_reports
from trtsmith.converter.convert.analysis import analyse
from trtsmith.converter.convert.engine_analysis import analysis_of_engine
from trtsmith.converter.convert.opening import name_of
from trtsmith.converter.convert.precision_request import QUANTIZED
from trtsmith.converter.engine.bundle.bundle import (
    Bundle,
    check_output,
    file_digest,
    manifest_path,
    write_bundle,
)
from trtsmith.converter.engine.bundle.earlier_engine import check_replaced
from trtsmith.converter.engine.bundle.manifest import mapping, read_manifest
from trtsmith.converter.engine.bundle.origin import EngineOrigin, origin_facts, origin_of
from trtsmith.converter.engine.bundle.run_from_bundle import request_as_asked
from trtsmith.converter.engine.child.process import ChildDied, run_child
from trtsmith.converter.engine.runtime.run_in_child import checked, death_problem
from trtsmith.converter.engine.runtime.run_request import RefitRequest, RunningOptions, RunRequest
from trtsmith.converter.graph.engine_structure import Structure, differences, structure_of
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.model_bytes import ModelSource
from trtsmith.converter.model.save import save_model

_WORKER = "trtsmith.converter.engine.runtime.refit_worker"
_BUILD = "convert the new model"


@dataclass(frozen=True)
class RefitOptions(RunningOptions):
    """The options of `trtsmith refit`. onnx: the model with the new weights. output: the new engine; None: `engine`.

    force: whether `output` may replace anything but an earlier engine of the model.
    """

    engine: Path
    onnx: ModelSource
    output: Path | None = None
    verbose: bool = False
    force: bool = False


@dataclass(frozen=True)
class Refitted:
    """The result of a refit. weights: the number of replaceable weights. changed: the names of those with new values."""

    bundle: Bundle
    weights: int
    changed: tuple[str, ...]


@dataclass(frozen=True)
class _Built:
    """The manifest of the engine, and the structure of its graph."""

    document: Mapping[str, Any]
    structure: Structure


def refit_facts(model: Model, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the manifest's facts for a refit; empty for engines whose weights cannot change.

    model: the graph that TensorRT built.
    """
    if not {"refit", "strip_plan"} & settings.keys():
        return {}
    return {"refit": structure_of(model).to_json()}


def refit(options: RefitOptions, progress: Progress) -> Refitted:
    """Rewrites the model like the engine's, compares the two graphs, and gives the engine the new weights.

    UsageError: the engine cannot be refitted, or not here; the model has another structure. ConversionError as of `convert`.
    Nothing is written then.
    """
    with progress_reports(progress) as telling:
        target = options.output or options.engine
        request = request_as_asked(options.engine, options, without_weights=True, verbose=options.verbose)
        built = _built(options.engine)
        libraries = request.plugin_libraries
        check_output(target, options.onnx if isinstance(options.onnx, Path) else None, libraries)
        if not (options.force or same_file(target, options.engine)):
            check_replaced(target, name_of(options.onnx), libraries)
        origin = origin_of(options.engine)
        telling.step("loading the model")
        original = load_model(options.onnx)
        graph = _rewritten(original, options, request, origin, built, telling)
        new = structure_of(graph)
        found = differences(built.structure, new, str(original.path), _BUILD)
        if found:
            raise UsageError(found)
        changed = built.structure.changed(new)
        request = checked(request)
        with ScratchFolder("refit") as folder:
            order = RefitRequest(
                request, Path(folder) / "model.onnx", Path(folder) / "engine", _by_name(graph, changed)
            )
            telling.step("saving the rewritten graph")
            save_model(graph, order.onnx_path)
            try:
                limit = request.timeout_s
                done = run_child(
                    _WORKER, order.to_text(), request.flavour, timeout_s=limit, on_progress=telling
                )
            except ChildDied as death:
                raise UsageError(death_problem(death, request)) from death
            telling.step("writing the bundle")
            facts = _facts(built, original, options.engine, new, again=bool(done["again"]))
            bundle = write_bundle(order.output, target, _libraries(built.document, request), facts)
    return Refitted(bundle, done["weights"], changed)


def _built(engine: Path) -> _Built:
    def parse(document: Mapping[str, Any]) -> _Built | None:
        if "refit" not in document:
            return None
        return _Built(document, Structure.from_json(mapping(document["refit"])))

    found = read_manifest(engine, parse)
    if found is None:
        what = (
            "the engine's weights cannot be replaced"
            if manifest_path(engine).exists()
            else "the engine has no manifest"
        )
        expected = "an engine of `trtsmith convert --refit` or `--strip-plan`, with its manifest beside it"
        raise UsageError(what, str(engine), expected, "convert the model again with --refit")
    return found


def _rewritten(
    original: Model,
    options: RefitOptions,
    request: RunRequest,
    origin: EngineOrigin,
    built: _Built,
    progress: Progress,
) -> Model:
    """The graph that `convert` would build of the model with the options in the manifest."""
    where = str(manifest_path(options.engine))
    asked = replace(analysis_of_engine(origin, request), progress=progress)
    if asked.precision.precision in QUANTIZED:
        what = f"the engine is calibrated for {asked.precision.precision}: its scales belong to its weights"
        raise UsageError(
            what, where, "an engine in fp32, fp16 or bf16", _BUILD + ", with samples for --calibration"
        )
    if built.document.get("mended"):
        what = "the engine's graph was mended where TensorRT refused it, and such a graph is not made anew"
        raise UsageError(what, where, "an engine of a graph that TensorRT took as it was", _BUILD)
    frozen = {one.name: one.array() for one in origin.frozen}
    unknown = [name for name, value in frozen.items() if value is None]
    if unknown:
        what = f"the manifest has only the hash of the frozen input {unknown[0]!r}"
        raise UsageError(what, where, "frozen inputs of less than 1 KiB", _BUILD)
    constants = {name: np.asarray(value) for name, value in frozen.items()}
    return analyse(original, replace(asked, frozen=constants)).needed().rewritten.model


def _by_name(graph: Model, changed: tuple[str, ...]) -> tuple[str, ...]:
    """The changed weights that TensorRT must know by name; those of a BatchNormalization it folds into its own."""
    folded: set[str] = set()
    others: set[str] = set()
    for inner in all_graphs(graph.proto.graph):
        for node in inner.node:
            (folded if node.op_type == "BatchNormalization" else others).update(node.input)
    return tuple(name for name in changed if name in others or name not in folded)


def _libraries(document: Mapping[str, Any], request: RunRequest) -> tuple[Path, ...]:
    """The plugin libraries beside the engine."""
    return tuple(path for path in request.plugin_libraries if path.name in document["files"])


def _facts(built: _Built, original: Model, engine: Path, new: Structure, *, again: bool) -> dict[str, Any]:
    """The manifest of the engine with the new weights, which are not yet compared with anything."""
    before = built.document
    settings = dict(before["settings"])
    if settings.pop("strip_plan", None):
        settings["refit"] = again
    refitted = {"engine": file_digest(engine), "model": before["model"]}
    facts = {name: value for name, value in before.items() if name not in ("files", "refit")}
    facts |= {
        "model": origin_facts(original, {}, original.path.name)["model"],
        "verdict": None,
        "settings": settings,
    }
    if settings.get("refit"):
        facts["refit"] = new.to_json()
    return facts | {"refitted_from": refitted}
