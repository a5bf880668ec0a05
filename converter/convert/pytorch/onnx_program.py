"""Exports a PyTorch program to an ONNX file, together with the example's inputs and PyTorch's outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch
from torch.utils._pytree import tree_leaves, tree_structure
from torch.utils._sympy.value_ranges import bound_sympy

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.convert.pytorch.custom_calls import places, translations_for
from trtsmith.converter.convert.pytorch.exported_model import MODEL, ExportedModel
from trtsmith.converter.convert.pytorch.exported_program import Program, computed
from trtsmith.converter.convert.pytorch.program_edges import ProgramEdges, edges_of, kept_outputs
from trtsmith.converter.convert.pytorch.torch_problems import no_kernel, translation_problem
from trtsmith.importers import torch_ops
from trtsmith.importers.counted import counted

Translations = Mapping[Any, Callable[..., Any]]

_NUMPYS_OWN: dict[Any, tuple[Any, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}
"""Types of PyTorch that numpy lacks: that of the same bits there is, and what ml_dtypes calls them."""


def export_program(program: Program, folder: Path, given: Translations, progress: Progress) -> ExportedModel:
    """Writes the ONNX model into the folder. Raises ConversionError with all unknown operators, or if the exporter
    refuses.
    """
    progress("exporting to ONNX")
    edges = edges_of(program)
    table, rules, problems = translations_for(program.exported, given, program.name)
    if problems:
        raise ConversionError(problems)
    if not edges.outputs:
        raise ConversionError(
            "the module returns no tensor",
            program.name,
            "at least one tensor",
            "return the tensors that the engine should compute",
        )
    written = _write(program, edges, table, rules, folder / MODEL)
    shapes = {name: tuple(tensor.shape) for name, tensor in edges.inputs.items()}
    profile, endless = profile_of(program.exported, shapes, edges.fakes)
    progress("computing the example's outputs with PyTorch")
    expected, told = _expected(program, edges)
    return ExportedModel(
        folder / MODEL,
        profile,
        {name: array_of(tensor) for name, tensor in edges.inputs.items()},
        expected,
        edges.calling,
        endless,
        (*program.warnings, *_notes(edges, written), *told),
    )


def _notes(edges: ProgramEdges, written: Sequence[str]) -> list[str]:
    """Differences between the engine and the module, one sentence each. written: buffers that the module changes."""
    notes = []
    if written:
        notes.append(
            f"the module writes its buffers {', '.join(written)}: the engine keeps nothing between calls"
        )
    if edges.calling["flat"]:
        why = edges.calling["flat"]
        notes.append(f"called as a module, the engine takes and returns tensors by name only: {why}")
    return notes


def _write(
    program: Program, edges: ProgramEdges, table: Translations, rules: Translations, path: Path
) -> list[str]:
    """Writes the ONNX file. Returns the buffers that the module writes, which are constants in ONNX."""
    known = {**rules, **torch_ops.decompositions()}
    decompositions = {operator: rule for operator, rule in known.items() if operator not in table}
    with torch.no_grad(), torch_ops.quiet():
        try:
            lowered = program.exported.run_decompositions(decompositions)
            _drop_constants(lowered)
            # PyTorch's optimizer breaks some graphs, such as Clips of Deformable DETR: those are written without it.
            for optimize in (True, False):
                torch.onnx.export(
                    lowered,
                    f=str(path),
                    dynamo=True,
                    input_names=list(edges.inputs),
                    output_names=list(edges.outputs),
                    external_data=True,
                    verbose=False,
                    optimize=optimize,
                    custom_translation_table=dict(table),
                )
                if _valid(path):
                    break
        except Exception as error:  # whatever an exporter finds wrong
            where = places(program.exported, program.name)
            raise ConversionError(translation_problem(error, program.name, where)) from error
    return sorted(set(lowered.graph_signature.buffers_to_mutate.values()))


def _valid(path: Path) -> bool:
    """Whether onnx's checker accepts the file; it skips unknown operators."""
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        return False
    return True


def _drop_constants(exported: Any) -> None:
    """Removes outputs that are not tensors, as ONNX has no None and no Python numbers."""
    kept = set(kept_outputs(exported))
    specs = exported.graph_signature.output_specs
    node = exported.graph.output_node()
    users = [i for i, spec in enumerate(specs) if spec.kind.name == "USER_OUTPUT"]
    dropped = {place for index, place in enumerate(users) if index not in kept}
    if not dropped:
        return
    node.args = (tuple(value for i, value in enumerate(node.args[0]) if i not in dropped),)
    exported.graph_signature.output_specs = [s for i, s in enumerate(specs) if i not in dropped]
    exported.module_call_graph[0].signature.out_spec = tree_structure((0,) * len(kept))
    exported.graph_module.recompile()


def _expected(program: Program, edges: ProgramEdges) -> tuple[dict[str, np.ndarray] | None, list[str]]:
    """PyTorch's outputs by name, or the reason why there are none."""
    try:
        leaves = tree_leaves(computed(program))
    except Exception as error:  # the module's code, or an operator without an implementation here
        why = no_kernel(error)
        return None, [
            f"PyTorch could not compute the example's outputs ({why}): the verdict compares with onnxruntime's"
        ]
    kept = kept_outputs(program.exported)
    if kept and kept[-1] >= len(leaves):
        why = f"{counted(len(leaves), 'value')} came out, and the program gives {kept[-1] + 1}"
        return None, [f"PyTorch's outputs are not compared with: {why}"]
    return {name: array_of(leaves[place]) for name, place in zip(edges.outputs, kept, strict=True)}, []


def array_of(tensor: Any) -> np.ndarray:
    """Copies a tensor to an independent array, with ml_dtypes for types that numpy lacks. A size becomes an int64 scalar."""
    if not isinstance(tensor, torch.Tensor):
        return np.array(tensor)
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype in _NUMPYS_OWN:
        bits, dtype = _NUMPYS_OWN[plain.dtype]
        return np.array(plain.view(bits).numpy()).view(dtype)
    return np.array(plain.numpy())


LARGEST = 2**31 - 1
"""A dimension of TensorRT is an int64, and nothing reaches this: PyTorch writes "any" as larger."""


def profile_of(
    program: Any, inputs: Mapping[str, Sequence[int]], fakes: Mapping[str, Any]
) -> tuple[dict[str, ShapeRange], dict[str, str]]:
    """Returns (ranges of dynamic inputs by name, dimensions without a largest size by input).

    inputs: shapes of the example. fakes: the program's symbolic tensors by input. A smallest size of 0 is PyTorch's way to
    say that nobody named one, and becomes 1.
    """
    profile: dict[str, ShapeRange] = {}
    open_: dict[str, str] = {}
    for name, shape in inputs.items():
        bounds = [_bounds(size, program.range_constraints) for size in fakes[name].shape]
        if all(low == high for low, high in bounds):
            continue
        endless = [axis for axis, (_, high) in enumerate(bounds) if high is None]
        if endless:
            open_[name] = ", ".join(map(str, endless))
            continue
        low = tuple(min(max(least, 1), size) for (least, _), size in zip(bounds, shape, strict=True))
        high = tuple(max(most or 0, size) for (_, most), size in zip(bounds, shape, strict=True))
        profile[name] = ShapeRange(low, tuple(shape), high)
    return profile, open_


def _bounds(size: Any, constraints: Mapping[Any, Any]) -> tuple[int, int | None]:
    """(smallest, largest) of a dimension; None for no upper bound."""
    if isinstance(size, int):
        return size, size
    expression = size.node.expr
    if expression.is_Integer:
        return int(expression), int(expression)
    found = bound_sympy(expression, dict(constraints))
    high = _whole(found.upper)
    return _whole(found.lower) or 0, high if high is not None and high <= LARGEST else None


def _whole(value: Any) -> int | None:
    """The number as an int; None for infinity."""
    return int(value) if value.is_Integer else None
