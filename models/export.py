"""Exports a model of this package: `python -m models.export NAME -o DIR`.

Writes DIR/NAME.onnx, DIR/NAME.inputs.npz (keys are the graph's input names) and DIR/NAME.expected.npz (PyTorch's own
outputs for those inputs, keys are the graph's output names), and prints the three paths.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models import MAX_BATCH, MODELS
from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.importers.problem import Problem
from trtsmith.importers.torch_ops import export


@dataclass(frozen=True)
class Exported:
    """The files of one export."""

    model: Path
    inputs: Path
    expected: Path


def export_model(name: str, folder: Path, *, small: bool = False, batch: int = 2) -> Exported:
    """Build MODELS[name], run it on its example inputs and export it with a dynamic batch.

    small: the quick variant of the same structure. batch: of the inputs written, 1 to the model's max_batch.
    Raises UsageError when the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            Problem(
                f"The output folder cannot be made: {error.strerror}.",
                f"-o {folder}",
                "a folder that exists or can be created",
                "name another folder with -o",
            )
        ) from error
    model = MODELS[name]
    stem = f"{name}_small" if small else name
    exported = Exported(
        folder / f"{stem}.onnx", folder / f"{stem}.inputs.npz", folder / f"{stem}.expected.npz"
    )

    started = time.perf_counter()
    module, inputs = model.make(small=small, batch=batch)
    with torch.inference_mode():
        outputs = module(*inputs.values())
    _progress(f"{stem}: built and run in PyTorch, batch {batch}", started)
    _write_npz(exported.inputs, dict(zip(model.input_names, inputs.values(), strict=True)))
    _write_npz(exported.expected, dict(zip(model.output_names, outputs, strict=True)))

    started = time.perf_counter()
    # torch.export takes an example size of one for a constant, so the example batch is always two.
    example = inputs if batch == 2 else model.make(small=small, batch=2)[1]
    export(
        module,
        tuple(example.values()),
        exported.model,
        input_names=list(model.input_names),
        output_names=list(model.output_names),
        dynamic_shapes=model.dynamic_shapes(),
    )
    _progress(f"{stem}: exported", started)
    return exported


def _write_npz(path: Path, tensors: dict[str, Tensor]) -> None:
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    temporary = path.with_suffix(".part.npz")  # numpy appends .npz to any other ending
    np.savez(temporary, **arrays)  # type: ignore[arg-type]
    temporary.replace(path)


def _progress(what: str, started: float) -> None:
    print(f"{what} ({time.perf_counter() - started:.1f} s)", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m models.export", description="Export a model with its inputs and expected outputs."
    )
    parser.add_argument("name", choices=sorted(MODELS), metavar="NAME", help=", ".join(sorted(MODELS)))
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files"
    )
    parser.add_argument("--small", action="store_true", help="a small variant of the same structure")
    parser.add_argument(
        "--batch",
        type=int,
        default=2,
        choices=range(1, MAX_BATCH + 1),
        metavar="N",
        help="images in the inputs",
    )
    options = parser.parse_args(argv)
    if options.batch > (largest := MODELS[options.name].max_batch):
        parser.error(f"--batch {options.batch}: {options.name} is exported for 1 to {largest} images")
    try:
        exported = export_model(options.name, options.output, small=options.small, batch=options.batch)
    except TrtsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(exported.model, exported.inputs, exported.expected, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
