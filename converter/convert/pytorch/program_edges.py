"""Names a program's inputs and outputs, and describes their nesting in the module's arguments and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.convert.pytorch.exported_program import Program
from trtsmith.converter.engine.runtime.call_structure import CallStructure, structure_of


@dataclass(frozen=True)
class NamedLeaf:
    """A named place for a tensor in a tree without tensors."""

    name: str


@dataclass(frozen=True, eq=False)
class ProgramEdges:
    """A program's inputs and outputs. inputs: the example's tensors by the program's names, in order. fakes: their symbolic
    ones. outputs: names in order.

    calling: what the manifest keeps (trtsmith.converter.engine.runtime.call_structure).
    """

    inputs: Mapping[str, Any]
    fakes: Mapping[str, Any]
    outputs: tuple[str, ...]
    calling: Mapping[str, Any]


def edges_of(program: Program) -> ProgramEdges:
    """The edges of a program. Raises ConversionError without tensor outputs, and for inputs other than tensors and
    constants.
    """
    exported = program.exported
    fakes = {
        node.name: node.meta["val"]
        for node in exported.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    named = [name for name in exported.graph_signature.user_inputs if isinstance(name, str) and name in fakes]
    example = tree_leaves((program.args, dict(program.kwargs)))
    tensors = [leaf for leaf in example if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(named):
        raise _no_inputs(program, len(tensors), len(named))
    inputs = dict(zip(named, tensors, strict=True))
    outputs = output_names(exported, inputs)
    return ProgramEdges(inputs, fakes, outputs, _calling(program, named, outputs))


def kept_outputs(exported: Any) -> list[int]:
    """Returns positions of tensors among the program's flat outputs; the others are constants or None."""
    specs = [s for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    return [i for i, spec in enumerate(specs) if hasattr(spec.arg, "name") and not hasattr(spec.arg, "value")]


def output_names(exported: Any, taken: Mapping[str, Any]) -> tuple[str, ...]:
    """Makes a unique name for each output tensor: its key or field, "output" or "output_<index>", never an input's name."""
    spec = exported.call_spec.out_spec
    tree = tree_unflatten(list(range(spec.num_leaves)), spec)
    paths = {leaf: path for path, leaf in tree_flatten_with_path(tree)[0]}
    return names_of_paths([paths[place] for place in kept_outputs(exported)], taken)


def names_of_paths(paths: Sequence[Sequence[Any]], taken: Mapping[str, Any]) -> tuple[str, ...]:
    """Makes unique names for outputs, from their paths in the result."""
    names: list[str] = []
    for path in paths:
        base = name_of_path(path) or "output"
        name = base = f"output_{base}" if base in taken else base
        number = 1
        while name in names or name in taken:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return tuple(names)


def name_of_path(path: Sequence[Any]) -> str:
    """Writes the path to a leaf as an identifier: a_0 in {"a": [x]}, output_0 and output_1 in (x, y)."""
    parts = [
        re.sub(r"\W+", "", str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))))
        for key in path
    ]
    said = "_".join(parts)
    return f"output_{said}" if said[:1].isdigit() else said


def _calling(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    exported = program.exported

    def result() -> Any:
        return tree_unflatten(_output_leaves(exported, outputs), exported.call_spec.out_spec)

    return calling_of(program.args, program.kwargs, program.parameters, inputs, outputs, result)


def calling_of(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    parameters: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    result: Callable[[], Any],
) -> dict[str, Any]:
    """Returns the module's calling convention. inputs: names of the tensors in the arguments, in order. result: the result
    with NamedLeaf in place of tensors.
    """
    given = iter(inputs)

    def input_leaf(value: Any) -> CallStructure | None:
        return {"tensor": next(given)} if isinstance(value, torch.Tensor) else None

    def output_leaf(value: Any) -> CallStructure | None:
        return {"tensor": value.name} if isinstance(value, NamedLeaf) else None

    try:
        return {
            "args": [structure_of(value, input_leaf) for value in args],
            "kwargs": {name: structure_of(value, input_leaf) for name, value in kwargs.items()},
            "parameters": list(parameters[: len(args)]),
            "result": structure_of(result(), output_leaf),
            "flat": "",
        }
    except (TypeError, StopIteration) as error:  # a class of the module's own
        return {
            "args": [{"tensor": name} for name in inputs],
            "kwargs": {},
            "parameters": list(inputs),
            "result": {"dict": {name: {"tensor": name} for name in outputs}},
            "flat": str(error),
        }


def _output_leaves(exported: Any, outputs: Sequence[str]) -> list[Any]:
    """The leaf at each output position: a NamedLeaf, or a constant of the program."""
    names = iter(outputs)
    specs = [s for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    keep = set(kept_outputs(exported))
    return [
        NamedLeaf(next(names)) if i in keep else getattr(s.arg, "value", None) for i, s in enumerate(specs)
    ]


def _no_inputs(program: Program, have: int, want: int) -> ConversionError:
    return ConversionError(
        f"the program has {want} tensor inputs, and the example {have} tensors",
        program.name,
        "an example with exactly the tensors of the program's inputs",
        "give the arguments with which the program was exported",
    )
