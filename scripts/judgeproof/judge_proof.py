"""Counts false alarms and missed errors of the judge of `trtsmith verify`, and writes benchmarks/judge.json.

    python scripts/judgeproof/judge_proof.py                  # 60 networks twice, all precisions: some minutes, on a CPU
    python scripts/judgeproof/judge_proof.py --every 10       # one network in ten, and nothing is written

The judge sees the original in onnxruntime and its own emulation of the precision. What is right is known apart from it:
the network in float64, and DRAWS runs whose every rounding is drawn at random (scripts/judgeproof/proof_networks.py).
How far these are from float64, element by element, is the spread. Right runs must agree; an error of at least DUE times
the spread at any element must not. Networks are drawn twice: those with which the bounds were chosen, and others.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import script_parser, write_record  # noqa: E402
from judgeproof.output_plants import OUTPUT_PLANTS  # noqa: E402
from judgeproof.proof_networks import HELD_OUT, TUNED, UNIT, Net, build, names  # noqa: E402
from trtsmith.converter.model.load import load_model  # noqa: E402
from trtsmith.converter.model.model import Model  # noqa: E402
from trtsmith.converter.model.ort import run  # noqa: E402
from trtsmith.converter.verify.allowance import Allowance  # noqa: E402
from trtsmith.converter.verify.baseline import Arithmetic, Baseline  # noqa: E402
from trtsmith.converter.verify.compare import Comparison  # noqa: E402
from trtsmith.converter.verify.meaning.compared_outputs import RoundedRuns, compared  # noqa: E402
from trtsmith.converter.verify.noise import ScaledOutput, bounds  # noqa: E402
from trtsmith.converter.verify.rounding import GRIDS  # noqa: E402
from trtsmith.converter.verify.sets import InputSet  # noqa: E402

RECORD = ROOT / "benchmarks" / "judge.json"
DRAWS = 8
DUE = 4.0
GRAPH_PLANTS = ("bias dropped", "weights of a channel changed")
KINDS = (*OUTPUT_PLANTS, *GRAPH_PLANTS, "a class index off by one")
Arrays = Mapping[str, np.ndarray]


def main(argv: list[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one network in N")
    parser.add_argument("--tuned-only", action="store_true", help="leave the networks that were kept alone")
    options = parser.parse_args(argv)
    chosen = names()[:: options.every]
    parts = {"chosen with": TUNED} if options.tuned_only else {"chosen with": TUNED, "held out": HELD_OUT}
    found = {part: summary(chosen, start) for part, start in parts.items()}
    record: dict[str, Any] = {"networks": len(chosen), "draws": DRAWS, "due": DUE, "parts": found}
    if options.every == 1 and not options.tuned_only:
        record = write_record(RECORD, record, "RECORD")
    print(json.dumps(record, indent=1))
    return (
        1 if any(row["false_alarms"] for part in found.values() for row in part["precisions"].values()) else 0
    )


def summary(chosen: list[str], start: int) -> dict[str, Any]:
    """The judge's verdicts by precision and by kind of error."""
    used: dict[str, list[float]] = defaultdict(list)
    alarms: dict[str, list[str]] = defaultdict(list)
    over: dict[str, list[np.ndarray]] = defaultdict(list)
    kinds = {kind: {name: dict.fromkeys(("below", "found", "missed"), 0) for name in UNIT} for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="trtsmith-judge-") as folder:
        for name in chosen:
            for precision in UNIT:
                case = Case(name, start, precision, Path(folder))
                for output, share in case.right():
                    used[precision].append(share)
                    if share > 1:
                        alarms[precision].append(f"{name}: {output}")
                over[precision] += case.bounds_over_spread()
                for kind, outcome in case.planted():
                    kinds[kind][precision][outcome] += 1
    precisions = {
        name: {
            "right_outputs": len(used[name]),
            "false_alarms": len(alarms[name]),
            "alarms": alarms[name],
            "largest_share_of_bound": round(max(used[name]), 3),
            "bound_over_spread": {
                "median": round(float(np.median(np.concatenate(over[name]))), 1),
                "p99": round(float(np.quantile(np.concatenate(over[name]), 0.99)), 1),
            },
        }
        for name in UNIT
    }
    return {"precisions": precisions, "kinds": kinds}


class Case:
    """One network in one precision: the judge's bounds, and correct runs unknown to it."""

    def __init__(self, name: str, start: int, precision: str, folder: Path) -> None:
        self.name, self.start, self.precision, self.folder = name, start, precision, folder
        original = build(name, start)
        self.feeds = original.feeds
        model = self._saved(original, "original")
        self.baseline = Baseline(model, (InputSet("", self.feeds),))
        self.arithmetic = Arithmetic(precision, frozenset())
        self.model, self.seen = model, self.baseline.plain[0]
        self.plain = {one.name: self.seen[one.name] for one in original.outputs}
        self.measured, _ = self._compared(self.plain)
        exact = build(name, start, wide=True)
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in self.feeds.items()}
        outputs = ReferenceEvaluator(exact.model()).run(None, wide)
        self.exact = {one.name: array for one, array in zip(exact.outputs, outputs, strict=True)}
        self.runs = [self._run(draw) for draw in range(1, DRAWS + 1)]
        self.floats = [n for n, v in self.plain.items() if v.dtype.kind == "f"]
        self.spread = {n: self._spread(n) for n in self.floats}

    def _saved(self, net: Net, name: str = "drawn") -> Model:
        path = self.folder / f"{name}.onnx"  # it stays mapped: the next of the same name takes its place
        onnx.save(net.model(), path)
        return load_model(path)

    def _run(self, draw: int, plant: str = "") -> dict[str, np.ndarray]:
        net = build(self.name, self.start, precision=self.precision, draw=draw, plant=plant)
        return run(self._saved(net), self.feeds)

    def _spread(self, output: str) -> np.ndarray:
        """The largest distance of the correct runs from float64 at each element; the smallest nonzero one where all are
        exact.
        """
        found = np.max([np.abs(one[output] - self.exact[output]) for one in self.runs], axis=0)
        return np.asarray(np.maximum(found, np.min(found[found > 0], initial=np.inf) if found.any() else 0))

    def _compared(
        self, outputs: Arrays, draws: Sequence[Arrays] = ()
    ) -> tuple[Allowance, tuple[Comparison, ...]]:
        runs = RoundedRuns(self.precision, self.seen, [*self._rounded(1.0), *draws])
        return compared(self.model, self.plain, outputs, runs)

    def _rounded(self, *grids: float) -> list[Arrays]:
        made = (self.baseline.rounded(self.arithmetic, grid) for grid in grids)
        return [outputs[0] for outputs in made if outputs is not None]

    @cached_property
    def _draws(self) -> list[Arrays]:
        return self._rounded(*GRIDS)

    def _share(self, outputs: Arrays, output: str) -> float:
        """The share of the allowed error that an output takes; above 1 if it still disagrees after other roundings."""
        outputs = {**self.plain, output: outputs[output]}
        found = next(c for c in self._compared(outputs)[1] if c.output == output)
        if not found.agrees:
            found = next(c for c in self._compared(outputs, self._draws)[1] if c.output == output)
        share = found.used if found.used is not None else np.inf
        return float(max(share, 1.01) if not found.agrees else min(share, 1.0))

    def right(self) -> Iterator[tuple[str, float]]:
        """Each output of each correct run, with its share of the allowed error."""
        rounded = {n: v.astype(self.plain[n].dtype) for n, v in self.exact.items()}
        for outputs in (*self.runs, rounded):
            yield from ((name, self._share(outputs, name)) for name in self.plain)

    def bounds_over_spread(self) -> list[np.ndarray]:
        """The bound of each element over its spread."""
        found = []
        for name in self.floats:
            output = ScaledOutput(self.plain[name].astype(np.float64), self.measured.noise[name])
            spread = self.spread[name].ravel()
            bound = bounds(output)[0].ravel() * output.top
            found.append(bound[spread > 0] / spread[spread > 0])
        return found

    def planted(self) -> Iterator[tuple[str, str]]:
        """Each kind of error that fits the network, planted in another correct run, and its outcome."""
        clean = self._run(DRAWS + 1)
        rng = np.random.default_rng(self.start)
        for kind, plant in OUTPUT_PLANTS.items():
            name = self.floats[int(rng.integers(len(self.floats)))]
            wrong = plant(clean[name].copy(), self.spread[name], rng)
            if wrong is not None:
                yield kind, self._outcome(clean, {**clean, name: wrong}, name)
        for kind in GRAPH_PLANTS:
            outputs = self._run(DRAWS + 1, kind)
            outcomes = {self._outcome(clean, outputs, name) for name in self.floats}
            yield kind, next(one for one in ("found", "missed", "below") if one in outcomes)
        for name in set(self.plain) - set(self.floats):
            classes = clean[name].copy()
            classes.flat[int(rng.integers(classes.size))] += 1
            yield KINDS[-1], "found" if self._share({**clean, name: classes}, name) > 1 else "missed"

    def _outcome(self, clean: Arrays, wrong: Arrays, name: str) -> str:
        """found; missed: the judge accepts an error above DUE times the spread; below: it accepts a smaller one."""
        if self._share(wrong, name) > 1:
            return "found"
        off = np.abs(wrong[name].astype(np.float64) - clean[name])
        return "missed" if np.any(off > DUE * self.spread[name]) else "below"


if __name__ == "__main__":
    sys.exit(main())
