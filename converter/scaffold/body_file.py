"""Writes the body of an ONNX function as a Python module of a package."""

from __future__ import annotations

from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.quoting import text_block


def body_file(names: Names, origin: str, body: str, opset: int) -> bytes:
    """The module, with OPSET and BODY. origin: where the body comes from, in words of ours."""
    return (
        f'"""Holds the body of {names.name}, as {origin} has it.\n\n'
        "In the syntax of onnx.parser; @name@ is the value of a field.\n"
        f'"""\n\nOPSET = {opset}\n\nBODY = {text_block(body)}\n'
    ).encode()
