"""Counts on a GPU how often an engine gives other numbers when it runs again on the same inputs.

    python3 scripts/repeated_runs.py --bundle DIR    # writes benchmarks/<gpu>/repeated_runs.json

Engines of networks of real size (scripts/realnetworks/networks.py) run RUNS times, alone on the GPU and beside a process
that multiplies matrices. What differs from the commonest result is counted, by its relative distance.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpucheck.metrics import relative_error  # noqa: E402
from harness.run_record import gpu_parser, gpu_record  # noqa: E402

RUNS = 200

CLOSE = 1e-5
"""Relative distance up to which results count as the same: sums in another order."""

LOAD = """
import torch
a = torch.randn(4096, 4096, device="cuda")
print("ready", flush=True)
while True:
    a @ a
    torch.cuda.synchronize()
"""

FORMS = ("imported", "imported, in one stream", "converted", "converted to float16")


def main(argv: Sequence[str] | None = None) -> int:
    parser = gpu_parser(__doc__)
    parser.add_argument(
        "--network", nargs="+", default=["resnet50", "deeplabv3_r50, 512", "vit_base, batch 8"]
    )
    arguments = parser.parse_args(argv)
    record = gpu_record(arguments, "repeated_runs.json", arguments.network)
    with tempfile.TemporaryDirectory(prefix="repeated-runs-") as folder:
        for name in arguments.network:
            rows = list(_rows(name, Path(folder)))
            record.add(name, *rows)
            for row in rows:
                print(*row.values(), sep=", ", flush=True)
    return 0


def _rows(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    import torch  # may be in the bundle, as what follows

    import trtsmith
    from realnetworks.networks import export, made

    torch.set_num_threads(4)
    module, (x,) = made(name)
    path = folder / "model.onnx"
    feeds = {export(module, (x,), path).input[0].name: x.numpy()}
    for form in FORMS:
        with trtsmith.Runner.open(_engine(form, path, feeds)) as runner:
            for beside in (False, True):
                with _load(beside):
                    results = [next(iter(runner(feeds).values())) for _ in range(RUNS)]
                different, apart = spread(results)
                row = {"form": form, "beside another process": beside, "runs": RUNS}
                yield {"network": name, **row, "different": different, "apart": apart}


def _engine(form: str, path: Path, feeds: Mapping[str, np.ndarray]) -> bytes:
    import trtsmith
    from gpucheck.engines import check_built
    from onnxcoverage.builder import GPU_TARGET, build_engine, sizes_of

    if form.startswith("imported"):
        streams = 0 if form.endswith("in one stream") else None
        return check_built(build_engine(path, sizes_of(feeds), target=GPU_TARGET, aux_streams=streams))
    half = form.endswith("float16")
    engine = trtsmith.convert(path, verify=None, precision="fp16" if half else "").engine
    assert isinstance(engine, bytes)
    return engine


@contextmanager
def _load(beside: bool) -> Iterator[None]:
    if not beside:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            yield
        finally:
            other.kill()


def spread(results: Sequence[np.ndarray]) -> tuple[int, float]:
    """How many results are further than CLOSE from the commonest, ||y - x|| / ||x||, and how far the furthest is."""
    bits = [result.tobytes() for result in results]
    common = results[bits.index(Counter(bits).most_common(1)[0][0])]
    apart = [relative_error(result, common) for result in results]
    return sum(one > CLOSE for one in apart), max(apart)


if __name__ == "__main__":
    sys.exit(main())
