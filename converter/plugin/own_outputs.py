"""Asks a plugin, in a child process, for the types and shapes of its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.plugin.checks.checks import CreatorUnderTest
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError
from trtsmith.converter.plugin.host.plugin_values import TensorDesc
from trtsmith.importers.problem import Problem

OUTPUTS = "outputs"


def own_outputs(library: Path, case: ContractCase, *, host: Path | None = None) -> tuple[TensorDesc, ...]:
    """Types and shapes of the outputs. ConversionError where it cannot be created, or does not say, or ends the child."""
    where = f"plugin {case.plugin} of {library}, {case.name}"
    fix = "correct the node's attributes and inputs, or correct the plugin"
    with LibraryWorker(library, host, 60.0) as worker:
        names = [str(creator["name"]) for creator in worker.start()["creators"]]
        try:
            answer = worker.ask(names.index(case.plugin), OUTPUTS, case)
        except WorkerDiedError as death:
            problem = Problem(f"the plugin {death}", where, "types and shapes of its outputs", fix)
            raise ConversionError(problem) from death
    if "problem" in answer:
        raise ConversionError(Problem(answer["problem"], where, "types and shapes of its outputs", fix))
    return tuple(TensorDesc(one["dtype"], tuple(one["shape"])) for one in answer["outputs"])


def answer_outputs(session: CreatorUnderTest, case: ContractCase) -> dict[str, Any]:
    """The same in the child: {"outputs": [{"dtype", "shape"}]}, or {"problem"}."""
    try:
        with session.create(case) as plugin:
            types = plugin.output_types([desc.dtype for desc in case.inputs])
            shapes = plugin.concrete_shapes([desc.shape for desc in case.inputs], case.shape_values)
    except (PluginError, ValueError) as error:
        return {"problem": error.problems[0].what if isinstance(error, PluginError) else str(error)}
    return {
        "outputs": [
            {"dtype": dtype, "shape": list(shape)} for dtype, shape in zip(types, shapes, strict=True)
        ]
    }
