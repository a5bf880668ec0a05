"""Makes the questions for a registry from the operators' definitions, with the right answers.

Which creators there are, their fields and what they must refuse is in the definitions. What a plugin says of itself, and how
it is serialised, the plugin host says, which drives the same library without TensorRT. Everything is plain data: the process
that asks imports nothing but NVIDIA's bindings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.host.host import Creator, Host, Plugin
from trtsmith.importers.fields import plugin_fields
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, OpDef
from trtsmith.importers.registry import OPS

Entry = tuple[str, str, list[int] | list[float]]
"""One field of a collection: name, type ("int32", "float32", "int64"), values."""


def questions(ops: Sequence[OpDef] = OPS, libraries: Mapping[str, Path] | None = None) -> dict[str, Any]:
    """For each interface ("V3", "V2") its library's path, and the questions about each of its operators.

    libraries: by interface; our two if None.
    """
    paths = libraries if libraries is not None else {"V3": plugin_library(), "V2": plugin_library_v2()}
    return {
        name: {"path": str(path), "operators": _operators(name, path, ops)} for name, path in paths.items()
    }


def _operators(interface: str, path: Path, ops: Sequence[OpDef]) -> dict[str, Any]:
    asked = {}
    with Host().open(path) as library:
        for op in (op for op in ops if interface in op.interfaces):
            creator = library.creator(op.name)
            cases: list[dict[str, Any]] = [
                {"name": case.name, "fields": _entries(op, case), **_answers(creator, case)}
                for case in contract_cases([op])
            ]
            right: list[Entry] = cases[0]["fields"]
            asked[op.name] = {
                "version": op.version,
                "namespace": PLUGIN_NAMESPACE,
                "fields": [(name, kind, len(values)) for name, kind, values in right],
                "cases": cases,
                "refusals": [
                    {"what": what, "fields": wrong, "said": f"[trtsmith] {op.name}::createPlugin: {said}\n"}
                    for what, wrong, said in (*refusals(right), *out_of_range(op, right))
                ],
            }
    return asked


def _entries(op: OpDef, case: ContractCase) -> list[Entry]:
    return [(field.name, field.kind, list(field.values)) for field in plugin_fields(op, case.fields)]  # type: ignore[misc]


def _answers(creator: Creator, case: ContractCase) -> dict[str, Any]:
    """The plugin host's answers from the same plugin, under the names of NVIDIA's bindings."""
    with creator.create(case.fields) as plugin:
        info = plugin.info
        state = plugin.serialize()
        says = {
            "plugin_namespace": info.namespace,
            "plugin_version": info.version,
            "num_outputs": info.output_count,
        }
        if isinstance(state, bytes):
            # The interface and the headers' version in one number.
            version = info.family << 24 | info.tensorrt_version
            says |= {"plugin_type": info.name, "tensorrt_version": version}
            return {"says": says, "states": [state.hex(), _configured(plugin, case).hex()]}
        says |= {
            "plugin_name": info.name,
            "format_combination_limit": info.format_limit,
            "timing_cache_id": plugin.timing_cache_id(),
            "metadata_string": plugin.metadata(),
        }
        fields = [(field.name, field.type, np.frombuffer(field.data, field.type).tolist()) for field in state]
        return {"says": says, "states": [fields], **_answers_to_calls(plugin, case, fields)}


def _answers_to_calls(plugin: Plugin, case: ContractCase, fields: list[Entry]) -> dict[str, Any]:
    """A V3 plugin's answers to registry_calls, given the case's inputs and outputs."""
    tensors = (*case.inputs, *case.outputs)
    formats = []
    for position, tensor in enumerate(tensors):
        for asked in (tensor, replace(tensor, dtype="int8")):
            changed = (*tensors[:position], asked, *tensors[position + 1 :])
            inputs, outputs = changed[: len(case.inputs)], changed[len(case.inputs) :]
            formats.append(plugin.supports_format(position, inputs, outputs))
    answers = {
        "types": plugin.output_types([tensor.dtype for tensor in case.inputs]),
        "shapes": plugin.concrete_shapes([tensor.shape for tensor in case.inputs]),
        "formats": formats,
        "configured": 0,
        "workspace": plugin.workspace_size(case.inputs, case.outputs),
        "shape_change": 0,
        "fields": fields,
        "fields_of_clone": fields,
    }
    described = {
        "inputs": [(tensor.dtype, tensor.shape) for tensor in case.inputs],
        "outputs": [(tensor.dtype, tensor.shape) for tensor in case.outputs],
    }
    return {"answers": answers, **described}


def _configured(plugin: Plugin, case: ContractCase) -> bytes:
    """The bytes of a V2 plugin that knows its inputs."""
    plugin.configure(case.inputs, case.outputs)
    state = plugin.serialize()
    assert isinstance(state, bytes)
    return state


def refusals(right: Sequence[Entry]) -> Iterator[tuple[str, list[Entry], str]]:
    """Fields that a creator must refuse: (the fault, the fields, the plugin's message)."""
    yield "unknown", [*right, ("no_such_field", "int32", [0])], "unknown field 'no_such_field'"
    if right:
        yield "none", [], f"missing field '{right[0][0]}'"
    for i, (name, kind, values) in enumerate(right):

        def instead(*entries: Entry, at: int = i) -> list[Entry]:
            return [*right[:at], *entries, *right[at + 1 :]]

        yield f"without {name}", instead(), f"missing field '{name}'"
        yield f"{name} twice", instead(right[i], right[i]), f"field '{name}' is given twice"
        for other in {"int32", "int64", "float32"} - {kind}:
            said = f"field '{name}' has the wrong type; expected {kind.upper()}"
            yield f"{name} as {other}", instead((name, other, values)), said
        for length in {0, len(values) - 1, len(values) + 1}:
            said = f"field '{name}' has length {length}; expected {len(values)}"
            yield f"{name} of length {length}", instead((name, kind, [*values, 1][:length])), said


def out_of_range(op: OpDef, right: Sequence[Entry]) -> Iterator[tuple[str, list[Entry], str]]:
    """The same for the nearest values that the definition forbids, in a field's last element."""
    for i, (name, kind, values) in enumerate(right):
        field = op.field(name)
        least: Any = min(field.allowed) if field.allowed else field.minimum
        most: Any = max(field.allowed) if field.allowed else None
        wrong = [least - 1] if least is not None else []
        wrong += [most + 1] if most is not None else []
        expected = f"at least {least}" if most is None else f"{least} to {most}"
        for value in wrong:
            fields = [*right[:i], (name, kind, [*values[:-1], value]), *right[i + 1 :]]
            yield f"{name} of {value}", fields, f"field '{name}' is {value}; expected {expected}"
