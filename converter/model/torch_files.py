"""Tells a module that PyTorch saved from weights, without unpickling either."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile, ZipFile

_MODULES = b"torch.nn.modules."
"""In a pickle that holds a module: its parts are of such classes. Weights have their names alone."""

_MOST = 16 << 20
"""Bytes of a pickle that are read. Weights are not in it, or behind it."""

_PICKLED = (
    "write a function in net.py that takes the module from torch.load({!r}, weights_only=False), which runs code of "
    "the file, and returns module.eval() and a tuple of example inputs, and name net.py:FUNCTION"
)
_SCRIPTED = (
    'torch.onnx.export(torch.jit.load({!r}), (example,), "net.onnx", dynamo=False) writes an .onnx file; or convert the '
    "module that it was made from: a function in net.py that returns it and a tuple of example inputs, as net.py:FUNCTION"
)


def saved_module(path: Path) -> tuple[str, str] | None:
    """Says what a file with a module is, and how it is converted; None for weights and for any other file."""
    with suppress(Exception):  # whatever a broken archive raises
        scripted, pickled = _contents(path)
        if scripted:
            return "TorchScript, as torch.jit.save writes", _SCRIPTED.format(f"{path}")
        if _MODULES in pickled:
            return "a pickle of a module, as torch.save writes", _PICKLED.format(f"{path}")
    return None


def _contents(path: Path) -> tuple[bool, bytes]:
    """Whether it is an archive with code, as TorchScript is, and the start of its pickle."""
    with suppress(BadZipFile), ZipFile(path) as archive:
        names = archive.namelist()
        pickled = [name for name in names if name.endswith("/data.pkl")]
        if not pickled:
            return False, b""
        with archive.open(pickled[0]) as stream:
            return any("/code/" in name for name in names), stream.read(_MOST)
    with path.open("rb") as stream:  # as torch.save wrote before PyTorch 1.6
        return False, stream.read(_MOST)
