"""Writes the body of an ONNX function as a Python module of a package."""

from __future__ import annotations


def body_file(what: str, body: str, opset: int) -> bytes:
    """The module, with OPSET and BODY. what: the body is of."""
    text = body.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return (
        f'"""Holds the body of {what}.\n\n'
        "In the syntax of onnx.parser; @name@ is the value of a field.\n"
        f'"""\n\nOPSET = {opset}\n\nBODY = """\n{text}\n"""\n'
    ).encode()
