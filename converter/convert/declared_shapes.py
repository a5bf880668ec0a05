"""Compares an engine's outputs with the shapes that the model declares for them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from trtsmith.converter.convert.plan import Plan
from trtsmith.converter.engine.build.build_request import EngineTensor
from trtsmith.importers.dims import describe
from trtsmith.importers.problem import Problem


def contradictions(
    declared: Sequence[onnx.ValueInfoProto], built: Sequence[EngineTensor], planned: Plan
) -> tuple[Problem, ...]:
    """The outputs whose rank or fixed sizes in the engine are not those of the model.

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
