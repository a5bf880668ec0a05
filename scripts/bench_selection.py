"""Times box selection beside torchvision's on the same boxes: all of one class, and in eighty classes.

    python3 scripts/bench_selection.py    # writes benchmarks/<gpu>/selection.json

How many boxes are left depends on values, which `trtsmith plugin bench` does not time: here the plugin host enqueues the
plugin, and torchvision's nms and batched_nms run through PyTorch, wait for the host included. Boxes are ten noisy ones an
object on an image of 1333 pixels; as torchvision's batched_nms itself does, those of a class are moved off those of another.
Float32, in one process, medians, the same memory each time.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import gpu_parser, gpu_record  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.plugin.host.enqueue import run_plugin, time_plugin  # noqa: E402
from trtsmith.converter.plugin.host.host import Host, Plugin  # noqa: E402
from trtsmith.importers.registry import standing_for  # noqa: E402

FORMAT = 1
SEED = 20
SIZES = (1_000, 10_000, 50_000)
CLASSES = 80
IMAGE = 1333.0
OVERLAP = 0.5
RUNS = 30


def clustered(boxes: int, rng: np.random.Generator) -> np.ndarray:
    """Boxes [boxes, 4] as x1, y1, x2, y2 in pixels: ten around each object, moved by a tenth of a side per coordinate."""
    objects = max(boxes // 10, 1)
    middle, side = rng.uniform(0, IMAGE, (objects, 2)), rng.uniform(20, 200, (objects, 2))
    corners = np.concatenate([middle - side / 2, middle + side / 2], axis=1)
    which = rng.integers(0, objects, boxes)
    noise = rng.normal(0, 0.1, (boxes, 4)) * np.tile(side[which], 2)
    moved = corners[which] + noise
    return np.concatenate(
        [np.minimum(moved[:, :2], moved[:, 2:]), np.maximum(moved[:, :2], moved[:, 2:])], axis=1
    )


def timed(run: Any) -> float:
    """The median of RUNS in us, between CUDA events."""
    times = []
    for _ in range(RUNS + 5):
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        run()
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended) * 1e3)
    return float(statistics.median(times[5:]))


def row(plugin: Plugin, boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray | None) -> dict[str, Any]:
    """Measures one size. classes: of each box; None: all of one class."""
    on_gpu, scores_on_gpu = (torch.from_numpy(array).cuda() for array in (boxes, scores))
    if classes is None:
        moved = boxes

        def theirs() -> Any:
            return torchvision.ops.nms(on_gpu, scores_on_gpu, OVERLAP)
    else:
        moved = boxes + (classes * (boxes.max() + 1)).astype(np.float32)[:, None]
        classes_on_gpu = torch.from_numpy(classes).cuda()

        def theirs() -> Any:
            return torchvision.ops.batched_nms(on_gpu, scores_on_gpu, classes_on_gpu, OVERLAP)

    inputs = [
        moved[None], scores[None, None], np.array([len(boxes)], np.int64), np.array([OVERLAP], np.float32),
    ]  # fmt: skip
    ours = run_plugin(plugin, inputs)[0][:, 2]
    kept = theirs().cpu().numpy()
    alike = len(np.intersect1d(ours, kept))
    return {
        "boxes": len(boxes),
        "classes": 1 if classes is None else CLASSES,
        "kept": len(ours),
        "kept_by_torchvision": len(kept),
        "kept_by_both": alike,
        "ours_us": statistics.median(time_plugin(plugin, inputs, warmup=5, count=RUNS)) * 1e3,
        "torchvision_us": timed(theirs),
    }


def main() -> int:
    arguments = gpu_parser(__doc__).parse_args()
    op = standing_for("NonMaxSuppression")
    jobs = {f"{size} {classes}": (size, classes) for classes in (1, CLASSES) for size in SIZES}
    record = gpu_record(arguments, "selection.json", list(jobs), format=FORMAT, op=op.name)
    with Host().open(plugin_library()) as library:
        for job, (size, classes) in jobs.items():
            rng = np.random.default_rng(SEED)
            boxes = clustered(size, rng).astype(np.float32)
            scores = rng.permutation(size).astype(np.float32) / size
            of_each = rng.integers(0, CLASSES, size) if classes > 1 else None
            with library.creator(op.name).create({"center_point_box": 0, "most": size}) as plugin:
                record.add(job, row(plugin, boxes, scores, of_each))
            print(*record.found[job], flush=True)
    return 0 if all(abs(r["kept"] - r["kept_by_both"]) <= 0.01 * r["kept"] for r in record.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
