#!/usr/bin/env python3
"""Judges saved outputs of network engines again, without a GPU.

    python scripts/gpucheck/judge_outputs.py benchmarks/h200/engines_judged.json --bundle DIR --output judged.json

The outputs lie beside the record, in engines_outputs/, where scripts/gpu_check.py put them. --bundle: what
scripts/gpu_bundle.py unpacked, of which the models and their references are read. Where an output disagrees, the original is
run with its values rounded other ways, as `trtsmith verify` does; the references then have that, too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import model_folder  # noqa: E402
from gpucheck.networks import PRECISIONS, REFERENCES, conclude, judged, write_draws  # noqa: E402
from gpucheck.record import Notes, read_notes, table, write_record  # noqa: E402
from harness.run_record import script_parser  # noqa: E402
from trtsmith.converter.model.load import load_model  # noqa: E402
from trtsmith.converter.verify.verdict import DISAGREE  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument("record", type=Path, help="of the run on the GPU")
    parser.add_argument("--bundle", type=Path, required=True, metavar="DIR", help="the unpacked bundle")
    parser.add_argument("--output", type=Path, required=True, help="the new record, of this step alone")
    arguments = parser.parse_args(argv)
    from gpucheck.network_list import network

    models = model_folder(arguments.bundle)
    rows = {}
    with tempfile.TemporaryDirectory() as work:
        for path in sorted(arguments.record.with_name(f"{arguments.record.stem}_outputs").glob("*.npz")):
            model = load_model(network(path.stem, models).write(Path(work)))
            outputs, references = dict(np.load(path)), models / f"{path.stem}{REFERENCES}"
            rows[path.stem] = list(judged(path.stem, model, dict(np.load(references)), outputs))
            wrong = {
                row["precision"] for row in rows[path.stem] if row["status"] == DISAGREE and "said" in row
            }
            if wrong:
                references = write_draws(path.stem, models, [form for form in PRECISIONS if form in wrong])
                rows[path.stem] = list(judged(path.stem, model, dict(np.load(references)), outputs))
        conclude(rows, Notes(Path(work) / "notes"))
        result = read_notes(Path(work) / "notes", "networks", None)
    head = json.loads(arguments.record.read_text(encoding="utf-8"))
    del head["steps"]
    write_record(arguments.output, head | {"passed": result.verdict == "pass"}, [result])
    print(table([result]))
    return 0 if result.verdict == "pass" else 1


if __name__ == "__main__":
    sys.exit(main())
