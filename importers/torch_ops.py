"""The PyTorch side of every operator, derived from its definition. Importing this module defines `torch.ops.trtsmith.*`.

For each OpDef: an operator `torch.ops.trtsmith.<snake_case_name>(inputs..., fields...)` that runs the definition's
PyTorch reference on any device, a fake (meta) implementation from the shape rule, and an ONNX translation, so that
`export` writes a `trtsmith::<Name>` node with its attributes.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Kind, OpDef
from trtsmith.importers.registry import OPS

TORCH_OPS = tuple(op for op in OPS if op.torch_reference is not None)

_SCHEMA_TYPE = {
    Kind.INT: "int",
    Kind.FLOAT: "float",
    Kind.STRING: "str",
    Kind.INTS: "int[]",
    Kind.FLOATS: "float[]",
}


def schema(op: OpDef) -> str:
    """The operator's PyTorch schema: tensors in port order, then fields in field order."""
    parameters = [f"Tensor{'? ' + p.name + '=None' if p.optional else ' ' + p.name}" for p in op.inputs]
    for f in op.fields:
        default = (
            ""
            if f.default is None
            else f"={list(f.default) if isinstance(f.default, tuple) else f.default!r}"
        )
        parameters.append(f"{_SCHEMA_TYPE[f.kind]} {f.name}{default}")
    result = "Tensor" if len(op.outputs) == 1 else "(" + ", ".join(["Tensor"] * len(op.outputs)) + ")"
    return f"{op.snake_name}({', '.join(parameters)}) -> {result}"


def _split(op: OpDef, arguments: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tensors by port, fields by name) from an operator's arguments; absent optional tensors are left out."""
    tensors = {p.name: value for p, value in zip(op.inputs, arguments, strict=False) if value is not None}
    fields: dict[str, Any] = {}
    for index, f in enumerate(op.fields, len(op.inputs)):
        value: Any = arguments[index] if index < len(arguments) else f.default
        fields[f.name] = tuple(value) if f.kind.is_list else value
    return tensors, fields


def _result(op: OpDef, tensors: Sequence[Any]) -> Any:
    return tensors[0] if len(op.outputs) == 1 else tuple(tensors)


def _outputs_like(
    op: OpDef, tensors: Mapping[str, Any], fields: Mapping[str, Any]
) -> list[tuple[Any, tuple[Any, ...]]]:
    """(dtype, shape) of every output."""
    shapes = op.shape(fields, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    first: dict[str, Any] = {}
    for port in op.inputs:
        if port.name in tensors:
            first.setdefault(port.type, tensors[port.name].dtype)
    return [(first[port.type], shapes[port.name]) for port in op.outputs]


def _define(library: torch.library.Library, op: OpDef) -> None:
    library.define(schema(op))

    reference = op.torch_reference
    assert reference is not None

    def run(*arguments: Any) -> Any:
        tensors, fields = _split(op, arguments)
        return _result(op, reference(fields, tensors))

    def fake(*arguments: Any) -> Any:
        tensors, fields = _split(op, arguments)
        like = next(iter(tensors.values()))
        return _result(
            op, [like.new_empty(s, dtype=dtype) for dtype, s in _outputs_like(op, tensors, fields)]
        )

    library.impl(op.snake_name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{PLUGIN_NAMESPACE}::{op.snake_name}", fake, lib=library)


def _emitter(op: OpDef) -> Callable[..., Any]:
    """A function with the operator's arguments that places its ONNX node in the graph being exported."""

    def emit(*arguments: Any) -> Any:
        tensors, fields = _split(op, arguments)
        outputs = _outputs_like(op, tensors, fields)
        inputs = [tensors.get(p.name) for p in op.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        return _result(
            op,
            torch.onnx.ops.symbolic_multi_out(
                f"{PLUGIN_NAMESPACE}::{op.name}",
                inputs,
                attrs={
                    name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
                },
                dtypes=[dtype for dtype, _ in outputs],
                shapes=[shape for _, shape in outputs],
                version=1,
            ),
        )

    return emit


def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """What ExportedProgram.run_decompositions needs to turn our operators, and PyTorch's own that mean them, into nodes."""
    table: dict[Any, Callable[..., Any]] = {}
    for op in TORCH_OPS:
        emit = _emitter(op)
        table[getattr(getattr(torch.ops, PLUGIN_NAMESPACE), op.snake_name).default] = emit
        for name, rule in op.aten.items():
            overload = getattr(torch.ops.aten, name).default
            table[overload] = lambda *arguments, _rule=rule, _emit=emit, **options: _rule(
                _emit, *arguments, **options
            )
    return table


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    path: str | Path,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    optimise: bool = True,
) -> None:
    """Export a module that uses `torch.ops.trtsmith.*` (or PyTorch operators that mean the same) to an ONNX file.

    args: example inputs; dynamic_shapes: as torch.export.export takes them; the names of its Dims are those of the ONNX
    file. optimise: whether the exporter folds constants, so that normalisations become part of the weights; without,
    every large weight is the module's own, by its name there. Raises what torch.export raises, and ValueError when a
    dynamic dimension did not stay dynamic.
    """
    with torch.no_grad(), _quiet():
        program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes, strict=False)
        dynamic = set(program.range_constraints)
        program = program.run_decompositions(export_decompositions())
        fixed = dynamic - set(program.range_constraints)
        if fixed:
            raise ValueError(
                f"a dynamic dimension became fixed while the model was exported ({', '.join(map(str, fixed))}): some "
                "operator took the example's size for a constant; export with other example sizes"
            )
        torch.onnx.export(
            program,
            f=str(path),
            dynamo=True,
            input_names=list(input_names) if input_names else None,
            output_names=list(output_names) if output_names else None,
            dynamic_shapes=tree_map(_dimension_name, dynamic_shapes),
            external_data=False,
            verbose=False,
            optimize=optimise,
        )


def _dimension_name(dim: Any) -> Any:
    """The name of a torch.export.Dim, under which the ONNX file shall have it."""
    return dim.__name__ if isinstance(dim, torch.export.Dim) else dim


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's notes about itself (torchvision is not there, what it did not fold) are not the user's business."""
    names = ("torch.onnx", "onnxscript", "onnx_ir")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", message="# The axis name")  # two inputs share a dimension
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


_LIBRARY = torch.library.Library(PLUGIN_NAMESPACE, "DEF")  # the registration lives as long as this object
for _op in TORCH_OPS:
    _define(_LIBRARY, _op)
