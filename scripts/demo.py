"""Exports a PyTorch model with custom operators, converts it, prints the verdict: `make demo`, or `make demo ARGS=geometry`.

The verdict compares the TensorRT graph, its plugin nodes expanded, with PyTorch's own outputs for a real photograph.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from models import MODELS
from models.export import export_model
from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.cli.main import main as trtsmith
from trtsmith.converter.model.load import load_model

BATCH = 2


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "model", nargs="?", default="deformable_detr", choices=sorted(MODELS), metavar="MODEL"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("out"), help="folder for all files (out)")
    parser.add_argument("--small", action="store_true", help="a small variant of the same structure")
    options = parser.parse_args(argv)

    exported = export_model(options.model, options.output, small=options.small, batch=BATCH)
    shapes = []
    for spec in graph_inputs(load_model(exported.model).proto):
        # Only the batch is dynamic in these models.
        batches = (1, BATCH, MODELS[options.model].max_batch)
        sizes = ["x".join(str(n if d is None else d) for d in spec.shape) for n in batches]
        shapes += ["--shapes", f"{spec.name}={':'.join(sizes)}"]
    command = ["convert", str(exported.model), "-o", str(exported.model.with_suffix(".plan")), *shapes]
    command += ["--inputs", str(exported.inputs), "--expected", str(exported.expected)]
    print("trtsmith " + " ".join(command), file=sys.stderr)
    return trtsmith(command)


if __name__ == "__main__":
    sys.exit(main())
