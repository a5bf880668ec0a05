"""Derives PyTorch operators from the definitions. Importing this module defines `torch.ops.trtsmith.*`.

That of operators from outside is there after `define_known` where their package is in force, or after `define` of each.

For each OpDef with a `torch_reference`: an operator `torch.ops.trtsmith.<snake_case_name>(inputs..., fields...)` that
runs the reference on any device, a fake (meta) implementation from the shape rule, and an ONNX translation, so that
`export` writes a `trtsmith::<Name>` node with its attributes.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torch.utils._pytree import tree_map

from trtsmith.importers.opdef import PLUGIN_NAMESPACE, TYPE_VARIABLES, Kind, OpDef
from trtsmith.importers.registry import OPS, by_name, operators
from trtsmith.importers.schema import schema_of

_SCHEMA_TYPE = {
    Kind.INT: "int",
    Kind.FLOAT: "float",
    Kind.STRING: "str",
    Kind.INTS: "int[]",
    Kind.FLOATS: "float[]",
}


def schema(op: OpDef) -> str:
    """Returns the operator's PyTorch schema: tensors in port order, then fields in field order."""
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
    """(dtype, shape) of every output; a size that depends on values gets a symbol."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    shapes |= {port.name: (torch.library.get_ctx().new_dynamic_size(min=0),) for port in op.sizes}
    shapes = op.shape(fields, shapes)
    dtypes = {v: getattr(torch, name) for v, name in op.dtypes(TYPE_VARIABLES[op.key][0]).items()}
    dtypes |= {port.type: tensors[port.name].dtype for port in reversed(op.inputs) if port.name in tensors}
    return [(dtypes[port.type], shapes[port.name]) for port in op.outputs]


@dataclass(frozen=True, eq=False)
class _Registration:
    """An operator in PyTorch, which has it for as long as the library is there."""

    op: OpDef
    library: torch.library.Library
    call: Any


_ONE_AT_A_TIME = RLock()
"""Held by the thread that defines operators or exports."""

_DEFINED: dict[str, _Registration] = {}
"""What PyTorch has of ours, by the operators' names: PyTorch's own registry is one for the process, too."""


def define_known() -> None:
    """Defines `torch.ops.trtsmith.*` for the outside operators in force that have a PyTorch side."""
    for op in operators():
        if op.torch_reference is not None:
            define(op)


def define(op: OpDef) -> None:
    """Defines `torch.ops.trtsmith.<snake_case_name>` for an operator that has a PyTorch side.

    Another definition takes the place of one that has its name. If the schema stays, so does what PyTorch calls: programs
    that were exported before go on.
    """
    assert op.torch_reference is not None, "the operator has no PyTorch side"
    with _ONE_AT_A_TIME:
        _define(op)


def _define(op: OpDef) -> None:
    there = _DEFINED.get(op.name)
    if there is not None and schema(there.op) == schema(op):
        _DEFINED[op.name] = replace(there, op=op)
        return
    if there is not None:
        there.library._destroy()
    library = torch.library.Library(PLUGIN_NAMESPACE, "FRAGMENT")
    library.define(schema(op))
    name = op.name

    def run(*arguments: Any) -> Any:
        now = _DEFINED[name].op
        tensors, fields = _split(now, arguments)
        assert now.torch_reference is not None
        return _result(now, now.torch_reference(fields, tensors))

    def fake(*arguments: Any) -> Any:
        now = _DEFINED[name].op
        tensors, fields = _split(now, arguments)
        like = next(iter(tensors.values()))
        return _result(
            now, [like.new_empty(s, dtype=dtype) for dtype, s in _outputs_like(now, tensors, fields)]
        )

    library.impl(op.snake_name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{PLUGIN_NAMESPACE}::{op.snake_name}", fake, lib=library)
    call = getattr(getattr(torch.ops, PLUGIN_NAMESPACE), op.snake_name).default
    _DEFINED[op.name] = _Registration(op, library, call)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Maps PyTorch's own operators to calls of the operators, ours or a package's, that mean the same.

    As ExportedProgram.run_decompositions takes it.
    """
    return {
        getattr(torch.ops.aten, name).default: partial(rule, there.call)
        for there in _DEFINED.values()
        if there.op.name in by_name()
        for name, rule in there.op.aten.items()
    }


def translations() -> dict[Any, Callable[..., Any]]:
    """Maps our operators to functions that write them as nodes, as torch.onnx.export takes them."""
    from onnxscript.values import Op, Opset

    domain = Opset(PLUGIN_NAMESPACE, 1)

    def translation(op: OpDef) -> Callable[..., Any]:
        node = Op(domain, op.name, schema_of(op))

        def translate(*arguments: Any) -> Any:
            tensors, fields = _split(op, arguments)
            inputs = [tensors.get(port.name) for port in op.inputs]
            return node(*inputs, **{n: list(v) if isinstance(v, tuple) else v for n, v in fields.items()})

        return translate

    return {there.call: translation(there.op) for there in _DEFINED.values()}


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
    """Exports a module that uses `torch.ops.trtsmith.*` (or PyTorch operators that mean the same) to an ONNX file.

    args: example inputs; dynamic_shapes: as torch.export.export takes them; the names of its Dims are those of the ONNX
    file. optimise: whether the exporter folds constants, so that normalisations become part of the weights; without,
    every large weight is the module's own, by its name there. Raises what torch.export raises, and ValueError when a
    dynamic dimension did not stay dynamic.
    """
    define_known()
    with torch.no_grad(), quiet():
        program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes, strict=False)
        dynamic = set(program.range_constraints)
        program = program.run_decompositions(decompositions())
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
            custom_translation_table=translations(),
        )


def _dimension_name(dim: Any) -> Any:
    """The name of a torch.export.Dim, under which the ONNX file shall have it."""
    return dim.__name__ if isinstance(dim, torch.export.Dim) else dim


def _unsaid(*parts: Any) -> None:
    del parts


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the messages of PyTorch's exporter; its errors are raised. One thread at a time is inside.

    Loggers and warning filters are those of the process, and so is much of what PyTorch's tracer keeps.
    """
    own, said = ("torch", "onnxscript", "onnx_ir"), getattr(torch._C, "_jit_onnx_log", _unsaid)
    with _ONE_AT_A_TIME:
        names = (*own, *(name for name in logging.root.manager.loggerDict if name.partition(".")[0] in own))
        levels = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        torch._C._jit_onnx_log = _unsaid  # the older exporter switches it on, and prints whole graphs
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            torch._C._jit_onnx_log = said
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


for _op in OPS:
    if _op.torch_reference is not None:
        define(_op)
