"""Reads the arguments of commands that read models, besides their declared options (trtsmith.options)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from trtsmith.converter.convert.pytorch.torch_source import (
    EXPORT_TIMEOUT_S,
    TorchFactory,
    TorchFile,
    source_of_text,
)
from trtsmith.converter.model.errors import UsageError


def add_model(parser: ArgumentParser, name: str = "MODEL") -> None:
    parser.add_argument_group("model").add_argument(
        "model",
        metavar=name,
        help="an .onnx file; a torch.export program (.pt2); or MODULE:FUNCTION or FILE.py:FUNCTION, which returns a PyTorch "
        "module and its example",
    )


def model_of(options: Namespace) -> Path | TorchFile | TorchFactory:
    """What MODEL means. UsageError for flags of PyTorch programs beside an ONNX file."""
    source = source_of_text(options.model)
    if not isinstance(source, Path):
        return replace(source, save=options.save_onnx, timeout_s=options.export_timeout or EXPORT_TIMEOUT_S)
    if options.save_onnx is not None:
        what, where = f"{source} is an ONNX model already", f"--save-onnx {options.save_onnx}"
        raise UsageError(what, where, "a program of PyTorch", "leave the flag out")
    return source
