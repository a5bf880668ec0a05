"""Times plugin against native: each operator as our kernel and as its expansion into standard operators, on a GPU.

    python3 scripts/plugin_vs_native.py              # writes benchmarks/<gpu>/plugin_vs_native.json

The sizes are those of the definitions' benchmarks. The kernel runs through the plugin host; the expansion is built into
a TensorRT engine here, of which index inputs, weight and bias are constants. Both run in one process on the same
tensors: sets of inputs that together are larger than the L2 cache, in turn, each run between two CUDA events, with the
GPU kept busy until both are queued; and both are compared with float64. In float16 the expansion computes in float32
between two casts, as the kernel accumulates in float32. Needs TensorRT or TensorRT-RTX (any version: no engine here has
a plugin), PyTorch with CUDA and onnx.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from pluginvsnative.boxes import run_items  # noqa: E402
from pluginvsnative.worker import Item, Pipe, work  # noqa: E402
from trtsmith.converter.bench.node import ratio_of  # noqa: E402
from trtsmith.converter.engine.build.flavour import choose_flavour  # noqa: E402
from trtsmith.converter.engine.build.gpu import Gpu, find_gpu  # noqa: E402
from trtsmith.converter.engine.child.environment import child_environment  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.model.errors import TrtsmithError, UsageError  # noqa: E402
from trtsmith.converter.model.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.bench.kernel_bench import LEAST_COUNT  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug  # noqa: E402
from trtsmith.importers.problem import Problem  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402

FORMAT = 1
DTYPES = ("float32", "float16")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    if arguments.worker:
        request = json.loads(arguments.worker.read_text(encoding="utf-8"))
        items = [(number, Item(**item)) for number, item in request["items"]]
        work(items, request["count"], Pipe(request["descriptor"]))
        return 0
    try:
        return measure_all(arguments)
    except TrtsmithError as error:
        print(error.problems[0], file=sys.stderr)
        return error.exit_code


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [op.name for op in OPS if op.benchmarks]
    cases = list(dict.fromkeys(case.name for op in OPS for case in op.benchmarks))
    parser.add_argument("--op", nargs="+", choices=names, default=names, help="these operators only")
    parser.add_argument("--case", nargs="+", choices=cases, default=cases, help="these sizes only")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES, help="of both")
    parser.add_argument(
        "--count", type=int, default=LEAST_COUNT, help="timed runs of each (default %(default)d)"
    )
    parser.add_argument("--seconds", type=float, default=140.0, help="for all together (default %(default)g)")
    parser.add_argument(
        "--item-seconds", type=float, default=40.0, help="for one case in one dtype (default %(default)g)"
    )
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def select(ops: Sequence[str], cases: Sequence[str], dtypes: Sequence[str]) -> list[Item]:
    """What is timed, the first case of every operator first, so that what is ended early has something of each."""
    by_op = [
        [Item(op.name, case.name, dtype) for case in op.benchmarks if case.name in cases for dtype in dtypes]
        for op in OPS
        if op.name in ops
    ]
    return [item for turn in zip_longest(*by_op) for item in turn if item is not None]


class Record:
    """The document, as events come in. A row: the item, `plugin` and `native` (figures, or why there are none) and
    `ratio`, how many times the plugin's time the native form takes."""

    def __init__(self, items: Sequence[Item], head: dict[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = [asdict(item) for item in items]
        self.head = head

    def add(self, event: dict[str, Any]) -> None:
        if event["event"] == "ready":
            self.head["tensorrt"] = event["tensorrt"]
            return
        row = self.rows[event["item"]]
        if event["event"] == "lost":
            for side in ("plugin", "native"):
                row.setdefault(side, {"unavailable": event["reason"]})
        elif event["event"] != "begin":
            row[event["event"]] = event["figures"]
        ratio = ratio_of(row.get("plugin", {}), row.get("native", {}))
        if ratio is not None:
            row["ratio"] = ratio

    def to_json(self) -> dict[str, Any]:
        order = {op.name: number for number, op in enumerate(OPS)}
        done = [row for row in self.rows if "plugin" in row or "native" in row]
        return {"format": FORMAT, **self.head, "rows": sorted(done, key=lambda row: order[row["op"]])}


def measure_all(arguments: argparse.Namespace) -> int:
    """Exit code 1 if a figure is missing."""
    end = time.monotonic() + arguments.seconds
    gpu = find_gpu()
    flavour = choose_flavour("auto", gpu)
    _require(gpu)
    items = select(arguments.op, arguments.case, arguments.dtype)
    head = describe(ROOT, [plugin_library()], arguments.commit) | {"command": _command(arguments)}
    output = arguments.output or ROOT / "benchmarks" / slug(head["gpu"]) / "plugin_vs_native.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    record = Record(items, head)

    def tell(event: dict[str, Any]) -> None:
        record.add(event)
        write_report(output, record.to_json(), "--output")
        if event["event"] in ("native", "lost"):
            print(_line(record.rows[event["item"]]), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="plugin-vs-native-") as folder:
        environment = child_environment(flavour, Path(folder))

        def spawn(numbers: Sequence[int], descriptor: int) -> subprocess.Popen[bytes]:
            request = Path(folder) / "request.json"
            chosen = [(number, asdict(items[number])) for number in numbers]
            request.write_text(
                json.dumps({"items": chosen, "count": arguments.count, "descriptor": descriptor})
            )
            return subprocess.Popen(
                [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--worker", str(request)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                pass_fds=(descriptor,),
                start_new_session=True,
            )

        run_items(range(len(items)), spawn, arguments.item_seconds, end, tell)
    missing = sum("ratio" not in row for row in record.rows)
    print(f"{len(items) - missing} of {len(items)} measured on {head['gpu']}; recorded in {output.name}")
    return 1 if missing else 0


def _require(gpu: Gpu | None) -> None:
    where, fix = "scripts/plugin_vs_native.py", "run it where there are both"
    if gpu is None:
        raise UsageError(Problem("no GPU is found", where, "an NVIDIA GPU with a driver, and PyTorch", fix))
    if find_spec("torch") is None:
        raise UsageError(Problem("PyTorch is not installed", where, "PyTorch with CUDA", "pip install torch"))


def _line(row: dict[str, Any]) -> str:
    sides = []
    for side in ("plugin", "native"):
        figures = row.get(side, {})
        reason = figures.get("unavailable", "")
        sides.append(
            f"{side} {reason or '{:g} us, error {:.1e}'.format(figures['median_us'], figures['error'])}"
        )
    ratio = f", x{row['ratio']:g}" if "ratio" in row else ""
    return f"{row['op']}, {row['case']}, {row['dtype']}: {'; '.join(sides)}{ratio}"


def _command(arguments: argparse.Namespace) -> str:
    """The command without what changes nothing that is measured."""
    words = ["python3", "scripts/plugin_vs_native.py"]
    defaults = parse([])
    for name in ("op", "case", "dtype"):
        if getattr(arguments, name) != getattr(defaults, name):
            words += [f"--{name}", *getattr(arguments, name)]
    return shlex.join([*words, "--count", str(arguments.count)])


if __name__ == "__main__":
    sys.exit(main())
