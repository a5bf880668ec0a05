"""Gathers a conversion's facts for the engine's manifest, and warnings about the engine for the user."""

from __future__ import annotations

import platform
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import onnx

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.process.package_folders import SOURCES
from trtsmith.converter.convert.plan import Plan, Route
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.build_request import BuildResult, EngineTensor
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.operators.compiled import build_command
from trtsmith.converter.rewrite.profile.decisions import NAME
from trtsmith.converter.rewrite.rewrite import Rewritten
from trtsmith.converter.verify.verdict import Verdict
from trtsmith.importers.dims import describe
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import package_of


def engine_facts(planned: Plan, built: BuildResult, verdict: Verdict | None) -> dict[str, Any]:
    """Gathers the manifest's facts: the needs of the engine when it is loaded, and its properties."""
    result = built.to_json()
    return {
        "trtsmith": toolkit_version(),
        "python": platform.python_version(),
        "tensorrt": {"flavour": built.flavour, "version": built.version},
        "targets": result["targets"],
        "inputs": result["inputs"],
        "outputs": result["outputs"],
        "plugins": sorted(
            {f"{p.namespace}::{p.name} version {p.version}" for p in (*planned.plugins, *planned.foreign)}
        ),
        "stock_plugins": sorted({n.how for n in planned.nodes if n.route is Route.STOCK}),
        "nodes": planned.routes(),
        "verdict": verdict.to_json() if verdict is not None else None,
    }


def pinned_values(values: Mapping[str, ShapeRange], given: Container[str]) -> tuple[str, ...]:
    """Returns warnings for shape tensors that an example fixes. given: the inputs that --values names."""
    return tuple(
        f"input {name!r} has the values {list(r.opt)} of --inputs in the profile: the engine takes no others; "
        f"give a range with --values {quote(name)}=MIN:OPT:MAX"
        for name, r in values.items()
        if name not in given
    )


def profile_facts(rewritten: Rewritten, values: Mapping[str, ShapeRange]) -> dict[str, Any]:
    """Returns the shapes for which the engine holds, and the nodes that the profile decided. values: of shape tensors, as
    given.
    """
    decided = [
        {"node": record.node, "op_type": record.op_type, "what": record.what}
        for record in rewritten.rewrites
        if NAME in record.pass_name.split(", ")
    ]
    return {
        "holds_for": "the sizes of its profiles only",
        "decided_by_profile": decided,
        "given_values": [{name: asdict(ranges) for name, ranges in values.items()}] if values else [],
    }


def still_read(
    values: Mapping[str, ShapeRange], original: Model, rewritten: Rewritten
) -> dict[str, ShapeRange]:
    """Returns the values of inputs that the graph still reads. Other inputs decided only values that are now constant."""
    decided = _read(original) - _read(rewritten.model)
    return {name: ranges for name, ranges in values.items() if name not in decided}


def unchecked_values(values: Mapping[str, ShapeRange], read: Container[str]) -> tuple[str, ...]:
    """Returns warnings for inputs that the engine no longer reads, so that TensorRT does not check their values. read:
    inputs still read.
    """
    return tuple(
        f"the engine no longer reads input {name!r}: it is valid only for values from {list(ranges.min)} to "
        f"{list(ranges.max)}, and does not check them"
        for name, ranges in values.items()
        if name not in read
    )


def _read(model: Model) -> set[str]:
    """The values that nodes read or graphs return."""
    graphs = list(all_graphs(model.proto.graph))
    results = {value.name for graph in graphs for value in graph.output}
    return results | {name for graph in graphs for node in graph.node for name in node.input}


def coverage(planned: Plan, built: BuildResult) -> tuple[str, ...]:
    """Returns a warning for each plugin library without kernels for the engine's GPUs."""
    known: list[tuple[str, str, str]] = []  # the library, its architectures, and what makes it anew
    if any(package_of(use.name) is None for use in planned.plugins):
        ours = libraries.plugin_library()
        fix = f"TRTSMITH_CUDA_ARCHITECTURES=release {_rebuild(SOURCES)} compiles it for all GPUs; then convert again"
        known.append((f"the plugin library {ours}", libraries.manifest(ours)["cuda_architectures"], fix))
    for library in planned.compiled:
        fix = f"{build_command(library.package)} --architectures release"
        known.append((f"the plugin library {library.path}", library.architectures, fix))
    return tuple(
        f"{what} has no kernels for {', '.join(missing)} (it was built for {architectures}): {fix}"
        for what, architectures, fix in known
        if (missing := libraries.uncovered(built.targets, architectures))
    )


def _rebuild(sources: Path) -> str:
    """The command that compiles our libraries anew. sources: the checkout, or the installed package."""
    if (sources / "Makefile").is_file():
        return f"make -C {quote(str(sources))} setup"
    return "pip install --force-reinstall --no-deps ., in a checkout of trtsmith,"


def contradictions(
    declared: Sequence[onnx.ValueInfoProto], built: Sequence[EngineTensor], planned: Plan
) -> tuple[Problem, ...]:
    """Returns the outputs whose rank or fixed sizes differ between engine and model.

    Only for a model with plugins of others: only they know their shape rules, and a wrong attribute shows here.
    """
    if not planned.foreign_nodes:
        return ()
    outputs = {tensor.name: tensor.shape for tensor in built}
    problems = []
    for value in declared:
        tensor = value.type.tensor_type
        if value.name not in outputs or not tensor.HasField("shape"):
            continue
        wanted = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
        found = outputs[value.name]
        differ = len(wanted) != len(found) or any(
            a is not None and b >= 0 and a != b for a, b in zip(wanted, found, strict=True)
        )
        if differ:
            shape = describe(tuple(None if size < 0 else size for size in found))
            nodes = ", ".join(f"{node.name!r} ({node.op_type})" for node in planned.foreign_nodes[:3])
            problems.append(
                Problem(
                    f"output {value.name!r} of the engine has the shape {shape}",
                    f"output {value.name!r}; the plugins of others are those of {nodes}",
                    f"{describe(wanted)}, as the model declares it",
                    "correct the attributes of those nodes, or the shape where the model is exported; 'trtsmith plugin "
                    "inspect LIBRARY' lists a plugin's fields",
                )
            )
    return tuple(problems)
