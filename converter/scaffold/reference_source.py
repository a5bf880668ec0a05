"""Writes the Python source of an operator's reference and expansion, by where the operator comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.quoting import literal, text_block
from trtsmith.converter.scaffold.shape_rules import Sizes
from trtsmith.converter.scaffold.torch_signature import Signature
from trtsmith.converter.scaffold.torch_source import ImportedFunction, text_hash

_OF_BODY = '''def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """What onnx's own evaluator makes of the body, in float64. Replace it by something that does not come from there."""
    return run_body(filled(BODY, fields), OPSET, inputs, {outputs})


def _expand(expansion: Expansion) -> str:
    """The body that the model had for the operator: what onnxruntime runs to judge an engine."""
    return filled(BODY, expansion.fields)
'''

_UNWRITTEN = '''def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """What is right, by output port, in float64 numpy."""
    raise NotImplementedError("write _reference in {place}: {unknown}")


def _expand(expansion: Expansion) -> str:
    """The same in operators of ONNX, of opset 11 and later, in the syntax of onnx.parser."""
    raise NotImplementedError("write _expand in {place}: {unknown}")
'''

_OF_FUNCTION = '''def _call(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any, ...]:
    """The function of PyTorch tensors that the operator is."""
    from {module} import {function}

    made = {called}({arguments})
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """The function in float64, on the CPU."""
    import torch

    made = _call(fields, {{name: torch.from_numpy(wide(array)) for name, array in inputs.items()}})
    return {{name: wide(one.detach().numpy()) for name, one in zip({outputs}, made, strict=True)}}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The function itself, of which torch.ops.trtsmith.{snake} is made."""
    return _call(fields, inputs)


EXPORTED = {values}
"""The fields with which BODY was exported; with others{edited} PyTorch exports the function when it is asked for."""

BODIES: dict[tuple[Any, ...], str] = {{}}
"""These exports by their fields, one for all cases and types: PyTorch takes seconds for each."""


def _expand(expansion: Expansion) -> str:
    """The function in operators of ONNX, by PyTorch's exporter: what onnxruntime runs to judge an engine."""
    if dict(expansion.fields) == EXPORTED{unedited}:
        return BODY
    examples = {examples}

    def called(*tensors: Any) -> Any:
        return _call(expansion.fields, dict(zip(examples, tensors, strict=True)))

    key = tuple(expansion.fields.items())
    if key not in BODIES:
        BODIES[key] = exported_body(called, examples, {outputs})[0]
    return BODIES[key]
'''


def of_body(outputs: Sequence[str]) -> str:
    """Writes the reference and expansion from the body of an ONNX function."""
    return _OF_BODY.format(outputs=literal(tuple(outputs)))


def unwritten(names: Names, source: str = "the model", place: str = "") -> str:
    """Writes functions that raise and say what to write, for an unknown computation. place: the file, if it is another."""
    unknown = f"{source} does not say what {names.name} computes"
    return _UNWRITTEN.format(place=place or f"{names.snake}/definition.py", unknown=unknown)


def of_function(
    names: Names,
    loaded: ImportedFunction,
    signature: Signature,
    shapes: Sizes,
    dtypes: Mapping[str, str],
    outputs: Sequence[str],
) -> str:
    """Writes both from a function of PyTorch tensors: the function in float64, and its export."""
    examples = {
        name: (shape, "float32" if "float" in dtypes[name] else dtypes[name])
        for name, shape in shapes.items()
    }
    edited = ", and once function.py is edited," if loaded.source else ""
    unedited = ' and is_unedited(__file__, "function.py", FUNCTION)' if loaded.source else ""
    return _OF_FUNCTION.format(
        edited=edited,
        unedited=unedited,
        module=loaded.module or f"{names.snake}.function",
        function=loaded.name,
        called=f"python_function({loaded.name})" if loaded.operator else loaded.name,
        arguments=", ".join(_arguments(signature)),
        outputs=literal(tuple(outputs)),
        snake=names.snake,
        values=literal({scalar.name: scalar.value for scalar in signature.scalars}),
        examples=literal(examples),
    )


def _arguments(signature: Signature) -> list[str]:
    """The arguments of a call, as Python source."""
    arguments = [f'{t.name}=tensors["{t.name}"]' for t in signature.tensors]
    for scalar in signature.scalars:
        value = f'fields["{scalar.name}"]'
        value = f"bool({value})" if scalar.boolean else f"list({value})" if scalar.kind.is_list else value
        arguments.append(f"{scalar.name}={value}")
    return arguments + [f"{name}=None" for name in signature.left_out]


def body_file(names: Names, origin: str, body: str, opset: int, function: bytes = b"") -> bytes:
    """Writes the body module, with OPSET and BODY, and FUNCTION where it is the body of a function's file.

    origin: where the body comes from, in words.
    """
    of_file = '\n\nFUNCTION = "{}"\n"""text_hash of the function.py that BODY was exported from."""'
    return (
        f'"""Holds the body of {names.name}, as {origin} has it.\n\n'
        "In the syntax of onnx.parser; @name@ is the value of a field.\n"
        f'"""\n\nOPSET = {opset}{of_file.format(text_hash(function)) if function else ""}\n\nBODY = {text_block(body)}\n'
    ).encode()
