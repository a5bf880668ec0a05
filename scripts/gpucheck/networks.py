"""Runs whole networks with plugins on the GPU, in every precision and at both ends of their dynamic shapes.

The judge is that of `trtsmith verify`. What it needs is computed beforehand, by onnxruntime on a CPU, and travels in the
bundle: outputs of the original, as they are and with values rounded to each precision. The GPU runs engines alone.
Their outputs stay beside the record, so that another judge needs no GPU (`gpucheck/judge_outputs.py`). Of a large
output that is a part of each axis, with the places of the largest and the smallest element, and what these two are in
each run.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gpucheck.engine_tables import COMPARED, FORMS
from gpucheck.engines import EngineError, Opener, open_engine
from gpucheck.record import Notes
from harness.jobs import run_jobs
from onnxcoverage.builder import Sizes
from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.convert.precision import in_precision
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.save import save_model
from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.target import RTX
from trtsmith.converter.verify.allowance import allowance
from trtsmith.converter.verify.baseline import Arithmetic, Baseline, Outputs
from trtsmith.converter.verify.candidate_judge import judge_outputs
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.noise import OWN, UNITS, Noise
from trtsmith.converter.verify.rounding import FP16_SUMS, GRIDS
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import AGREE, DISAGREE

SIZES = ("min", "opt", "max")

PRECISIONS = {
    "fp32": "tf32",
    "fp16": FP16_SUMS,
    "bf16": "bf16",
    "fp16 --accumulate fp16": FP16_SUMS,
    "fp16 --accumulate fp32": "fp16",
}
"""What an engine of each form computes in (trtsmith.converter.verify.rounding)."""

MOST = 2**14
"""Elements that are kept of an output for one set of inputs."""

EXTREMES = ": extremes"
DRAW = "~"
"""Between a form and the number of one of its `other_roundings`."""
REFERENCES = ".references.npz"
WHY = "why"
"""Of kept outputs, the name under which stands why there are none of a form."""

Arrays = dict[str, np.ndarray]

AT_ONCE = 7
"""Networks at a time."""


def check(
    folder: Path, models: Path | None, limit_s: float, notes: Notes, names: Sequence[str] | None, kept: Path
) -> None:
    """Runs the step. A row for each network, form, size and output. names: the networks; None: all. kept: the folder for
    outputs.
    """
    if models is None:
        notes.failure("no models: unpack a bundle (scripts/gpu_bundle.py) and name it with --bundle")
        notes.summary("no networks on this machine")
        return
    end = time.monotonic() + limit_s
    from gpucheck.network_list import NAMES

    kept.mkdir(parents=True, exist_ok=True)
    options = {"bundle": str(models), "kept": str(kept)}
    rows = {}
    for name, finding in run_jobs(__name__, deque(names or NAMES), AT_ONCE, limit_s, folder, end, **options):
        rows[name] = finding.found.get("rows", [])
        if finding.died:
            notes.failure(f"{name}: {finding.died}")
    conclude(rows, notes)


def conclude(rows: Mapping[str, Sequence[Mapping[str, Any]]], notes: Notes) -> None:
    """Writes each network's rows and failures, and the number that agree."""
    statuses: Counter[str] = Counter()
    for mine in rows.values():
        for row in mine:
            notes.row(**row)
            if row["precision"] in FORMS and row["status"] == DISAGREE:
                where = " ".join(
                    str(row[key]) for key in ("network", "precision", "size", "output") if key in row
                )
                notes.failure(f"{where}: {row['said']}")
        found = {row["status"] for row in mine if row["precision"] in FORMS}
        statuses[next(iter(found)) if len(found) == 1 else DISAGREE if DISAGREE in found else "in part"] += 1
    told = ", ".join(f"{count} {status}" for status, count in statuses.items() if status != AGREE)
    summary = f"{statuses[AGREE]} of {len(rows)} networks agree, in {', '.join(FORMS)}"
    notes.summary(f"{summary} ({told})" if told else summary)


def work(job: str, folder: Path, bundle: str, kept: str) -> dict[str, Any]:
    """Runs one network's engines in a worker, keeps their outputs, and judges them."""
    from gpucheck.network_list import network

    one, known = network(job, Path(bundle)), Path(bundle) / f"{job}{REFERENCES}"
    references = dict(np.load(known if known.is_file() else write_references(job, Path(bundle))))
    outputs = run_network(one, references, folder, open_engine)
    np.savez_compressed(Path(kept) / f"{job}.npz", **outputs)  # type: ignore[arg-type]
    return {"rows": list(judged(job, load_model(one.write(folder)), references, outputs))}


def write_references(name: str, bundle: Path) -> Path:
    """Computes and stores the judge's references for a network file in the folder, without a GPU.

    MemoryError: it does not run with rounded values; the models all do, given the memory.

    Images are run one by one, so that a batch takes no more memory than an image, and once for all batches that have them.
    The values by which selections decide are kept whole.
    """
    found = Arrays()
    with tempfile.TemporaryDirectory() as folder:
        runs = _Runs.of(name, bundle, Path(folder))
        baseline = Baseline(runs.model, runs.sets)
        runs.keep(found, "plain", baseline.plain)
        for form, arithmetic in runs.roundings.items():
            narrow = baseline.rounded(arithmetic)
            if narrow is None:
                raise MemoryError(f"{name} does not run with values rounded to {arithmetic.precision}")
            runs.keep(found, form, narrow)
    return _saved(found, name, bundle)


def write_draws(name: str, bundle: Path, forms: Iterable[str]) -> Path:
    """Adds roundings for the judge to a network's references, for forms with a disagreeing output."""
    found = dict(np.load(bundle / f"{name}{REFERENCES}"))
    with tempfile.TemporaryDirectory() as folder:
        runs = _Runs.of(name, bundle, Path(folder))
        baseline = Baseline(runs.model, runs.sets)
        for form in forms:
            for number, grid in enumerate(GRIDS):
                outputs = baseline.rounded(runs.roundings[form], grid)
                if outputs is not None:
                    runs.keep(found, f"{form}{DRAW}{number}", outputs)
    return _saved(found, name, bundle)


def _saved(references: Arrays, name: str, bundle: Path) -> Path:
    path = bundle / f"{name}{REFERENCES}"
    path.unlink(missing_ok=True)  # it may be a link to another's
    np.savez_compressed(path, **references)  # type: ignore[arg-type]
    return path


@dataclass(frozen=True)
class _Runs:
    """The runs of onnxruntime for a network's references.

    model: with the values that decide selections among its outputs. decides: their names. roundings: by form, how it
    computes. batches: with their size and number. images: by digest.
    """

    model: Model
    decides: frozenset[str]
    roundings: Mapping[str, Arithmetic]
    batches: Sequence[tuple[str, int, Arrays]]
    images: Mapping[bytes, Arrays]

    @staticmethod
    def of(name: str, bundle: Path, folder: Path) -> _Runs:
        from gpucheck.network_list import network

        one = network(name, bundle)
        model = load_model(one.write(folder))
        result = rewrite(model, RTX, passes=PASSES if one.plugins else ())
        roundings = {}
        for form, precision in PRECISIONS.items():
            report = in_form(result, form, one.feeds(0)[0]).precision
            kept = report.kept if report is not None else ()
            roundings[form] = Arithmetic(precision, frozenset(node.node for node in kept))
        deciding = watched(model)
        batches = [(size, i, s) for number, size in enumerate(SIZES) for i, s in enumerate(one.feeds(number))]
        images = {_digest(image): image for _, _, batch in batches for image in _images(batch)}
        own = {value.name for value in model.proto.graph.output}
        decides = frozenset(value.name for value in deciding.proto.graph.output) - own
        return _Runs(deciding, decides, roundings, batches, images)

    @property
    def sets(self) -> list[InputSet]:
        return [InputSet("", image) for image in self.images.values()]

    def keep(self, found: Arrays, run: str, outputs: Outputs) -> None:
        """Adds the kept part of every image's outputs, by "run|size|index of the batch|output"."""
        of_image = dict(zip(self.images, outputs, strict=True))
        for size, index, batch in self.batches:
            some = [of_image[_digest(image)] for image in _images(batch)]
            for output in some[0]:
                parts = [one[output] for one in some]
                if output in self.decides and {part.shape for part in parts} != {(1, *parts[0].shape[1:])}:
                    continue  # what decides is not an image's own
                array = np.concatenate(parts)
                if run == "plain" and output not in self.decides:
                    for axis, at in enumerate(places(array)):
                        found[f"at|{size}|{index}|{output}|{axis}"] = at
                for part, values in part_of(found, size, index, output, array).items():
                    found[f"{run}|{size}|{index}|{part}"] = values


def _images(batch: Arrays) -> Iterator[Arrays]:
    for i in range(len(next(iter(batch.values())))):
        yield {name: array[i : i + 1] for name, array in batch.items()}


def _digest(image: Arrays) -> bytes:
    return b"".join(sha256(repr(array.shape).encode() + array.tobytes()).digest() for array in image.values())


def places(array: np.ndarray) -> tuple[np.ndarray, ...]:
    """The kept indices of an output by axis: evenly spread, and those of the largest and smallest element."""
    sizes = list(array.shape)
    while prod(sizes) > MOST:
        longest = sizes.index(max(sizes))
        sizes[longest] = (sizes[longest] + 1) // 2
    ends = [np.unravel_index(of(array), array.shape) for of in (np.argmin, np.argmax)] if array.size else []
    return tuple(
        np.unique([*np.linspace(0, whole - 1, size, dtype=int), *(end[axis] for end in ends)]).astype(
            np.int32
        )
        for axis, (whole, size) in enumerate(zip(array.shape, sizes, strict=True))
    )


def part_of(references: Arrays, size: str, index: int, output: str, array: np.ndarray) -> Arrays:
    """The kept part of an output: the references' places and the extremes, or all of it if the shape differs."""
    indices = [references.get(f"at|{size}|{index}|{output}|{axis}") for axis in range(array.ndim)]
    if any(at is None or (at.size and at[-1] >= n) for at, n in zip(indices, array.shape, strict=True)):
        return {output: array}
    part = np.ascontiguousarray(array[np.ix_(*(at for at in indices if at is not None))])
    if part.size == array.size:
        return {output: part}
    return {output: part, output + EXTREMES: np.array([array.min(), array.max()], array.dtype)}


def run_network(network: Any, references: Arrays, folder: Path, opener: Opener) -> Arrays:
    """The kept outputs of a network's engines, by "form|size|index of the set|output"."""
    result = rewrite(load_model(network.write(folder)), RTX, passes=PASSES if network.plugins else ())
    sizes = {name: Sizes((r.min, r.opt, r.max)) for name, r in network.ranges.items()}
    found = Arrays()
    for form in (*FORMS, *COMPARED):
        path = folder / f"{network.name}.{form.replace(' ', '')}.trt.onnx"
        try:
            reduced = in_form(result, form, network.feeds(0)[0])
            save_model(reduced.model, path)
            with opener(path, sizes, reduced.io_types) as engine:
                for number, size in enumerate(SIZES):
                    for index, feeds in enumerate(network.feeds(number)):
                        for output, array in engine.run(feeds).items():
                            for name, part in part_of(references, size, index, output, array).items():
                                found[f"{form}|{size}|{index}|{name}"] = part
        except (EngineError, TrtsmithError) as error:
            how = f"{error.verdict}: " if isinstance(error, EngineError) else ""
            found[f"{form}|{WHY}"] = np.array(how + str(error).splitlines()[0])
    return found


def in_form(result: Rewritten, form: str, feeds: Mapping[str, np.ndarray]) -> Rewritten:
    """The graph in one form. feeds: show value ranges, too, when onnxruntime runs them on the CPU."""
    precision, *flags = form.split()
    return in_precision(result, PrecisionRequest(precision, accumulate=flags[-1] if flags else ""), feeds)


def judged(name: str, model: Model, references: Arrays, outputs: Arrays) -> Iterator[dict[str, Any]]:
    """A row for each form, size and output; or one with `reason` for a missing engine or run.

    engine: the error as a ratio of norms, of the set of inputs that is nearest to what it may be off by. used: the share of
    that. status: of the output, as in a verdict. said: what is wrong.
    """
    for form, precision in PRECISIONS.items():
        head = {"network": name, "precision": form}
        if f"{form}|{WHY}" in outputs:
            why = str(outputs[f"{form}|{WHY}"])
            yield {**head, "passed": False, "status": DISAGREE, "reason": why, "said": why}
            continue
        for size in SIZES:
            plain, ends = _without_extremes(_sets(references, f"plain|{size}"))
            narrow, rounded_ends = _without_extremes(_sets(references, f"{form}|{size}"))
            sets = [InputSet(str(index), {}) for index in range(len(plain))]
            actual, found_ends = _without_extremes(_sets(outputs, f"{form}|{size}"))
            actual += [{}] * (len(plain) - len(actual))
            draws = [
                _without_extremes(_sets(references, f"{form}{DRAW}{n}|{size}"))[0] for n in range(len(GRIDS))
            ]
            roundings = {
                grid: made for grid, made in zip((1.0, *GRIDS), (narrow, *draws), strict=True) if made
            }
            baseline = Baseline(model, sets, known=plain, roundings=roundings)
            verdict = judge_outputs(baseline, Arithmetic(precision), actual)
            why_not = {one.output: one.why for one in verdict.left_out}
            for output, status in verdict.outputs.items():
                mine = [c for c in verdict.comparisons if c.output == output]
                worst = max(mine, key=lambda c: (not c.agrees, c.used or 0.0), default=None)
                finite = worst is not None and np.isfinite(worst.relative)
                row = {
                    "engine": worst.relative if worst is not None and finite else None,
                    "used": worst.used if worst is not None else None,
                    "status": status,
                    "passed": status == AGREE,
                }
                said = why_not.get(output) or (worst.reason if worst is not None and not worst.agrees else "")
                yield {**head, "size": size, "output": output, **row, **({"said": said} if said else {})}
            for index, wanted in enumerate(ends if narrow else ()):
                have = found_ends[index] if index < len(found_ends) else {}
                for output, pair in wanted.items():
                    rounded = {output: rounded_ends[index][output]}
                    measured = allowance({output: pair}, [rounded], precision, model.proto)
                    kept = plain[index][output], narrow[index][output]
                    row = _reach(pair, have.get(output), measured.noise.get(output), kept)
                    yield {**head, "size": size, "output": output + EXTREMES, **row}


def _without_extremes(sets: list[Arrays]) -> tuple[list[Arrays], list[Arrays]]:
    """The outputs of each set, and the largest and smallest elements of those kept in part."""
    kept = [{n: a for n, a in one.items() if not n.endswith(EXTREMES)} for one in sets]
    ends = [{n.removesuffix(EXTREMES): a for n, a in one.items() if n.endswith(EXTREMES)} for one in sets]
    return kept, ends


def _reach(
    wanted: np.ndarray, have: np.ndarray | None, noise: Noise | None, kept: tuple[np.ndarray, np.ndarray]
) -> dict[str, Any]:
    """Whether the smallest and the largest element are within the bound of any element, which covers elements that are not
    kept.

    noise: of the two; None for whole numbers. kept: of the output, the original's values, and what rounding makes of them.
    """
    pairs = [np.stack(pair).astype(np.float64) for pair in ((wanted, wanted if have is None else have), kept)]
    off, changed = (np.abs(pair[1] - pair[0]) for pair in pairs)
    most = OWN * changed[np.isfinite(changed)].max(initial=0.0)
    scale = np.abs(wanted[np.isfinite(wanted)].astype(np.float64)).max(initial=0.0)
    if noise is not None:
        own = 0.0 if noise.change is None else OWN * float(noise.change.max())
        most = max(most, own, UNITS * noise.unit * scale, noise.quantum)
    good = have is not None and bool((off <= most).all())
    furthest = float(off.max()) if np.isfinite(off).all() else None
    row = {
        "engine": furthest / scale if furthest is not None and scale else None,
        "used": furthest / most if furthest is not None and most else None,
        "status": AGREE if good else DISAGREE,
        "passed": good,
    }
    return (
        row if good else row | {"said": f"{have} are the smallest and the largest element, expected {wanted}"}
    )


def _sets(arrays: Arrays, start: str) -> list[Arrays]:
    """The kept outputs under "start|index|output": by output, for each set."""
    found: dict[int, Arrays] = {}
    for key, array in arrays.items():
        if key.startswith(f"{start}|"):
            index, output = key[len(start) + 1 :].split("|", 1)
            found.setdefault(int(index), {})[output] = array
    return [found[index] for index in sorted(found)]
