"""The memory for measuring every value of a network, and for converting its weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

PROGRAM = """
import json, resource, sys
from pathlib import Path
import numpy as np
from trtsmith.converter.rewrite.precision.widen import measured_run
from tests.converter.rewrite.precision.networks import network
count, size = 40, 5_000_000
lines = [f"v{i} = {'Sin' if i % 2 else 'Cos'} ({f'v{i - 1}' if i else 'x'})" for i in range(count)]
body = "(float[N] x) => (float[N] y) { " + chr(10).join(lines) + f" y = Neg (v{count - 1}) }}"
model = network(Path(sys.argv[1]), body)
x = np.linspace(1, 2, size, dtype=np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
measured = measured_run(model, {"x": x})
assert measured is not None
seen = measured.magnitudes
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"kib": after - before, "value": size * 4 // 1024, "seen": len(seen), "x": seen["x"]}))
"""


def test_values_are_not_held_until_all_are_made(tmp_path: Path) -> None:
    """42 values of 20 MB: held at once they are 840 MB."""
    found = said_by(PROGRAM, str(tmp_path))
    assert found["seen"] == 42 and found["x"] == 2.0
    assert found["kib"] < 15 * found["value"]


WRITE = """
import json, sys
from pathlib import Path
import numpy as np
import onnx
from tests.converter.rewrite.precision.networks import network
folder, count = Path(sys.argv[1]), 24
lines = [f"c{i} = Conv <pads = [1,1,1,1]> ({f'n{i - 1}' if i else 'x'}, w{i}) n{i} = Mul (c{i}, s)" for i in range(count)]
body = "(float[1,512,4,4] x) => (float[1,512,4,4] y) { " + chr(10).join(lines) + f" y = Relu (n{count - 1}) }}"
rng = np.random.default_rng(0)
weights = {f"w{i}": rng.standard_normal((512, 512, 3, 3), dtype=np.float32) for i in range(count)}
model = network(folder, body, {**weights, "s": np.full((512, 1, 1), 0.5, np.float32)})
onnx.save(onnx.load(model.path), folder / "big.onnx", save_as_external_data=True, location="big.data")
size = sum(array.nbytes for array in weights.values())
print(json.dumps({"size": size}))
"""

REDUCE = """
import json, resource, sys
from pathlib import Path
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.precision.formats import FORMATS
from trtsmith.converter.rewrite.precision.reduce import reduce_precision
model = infer_shapes(load_model(Path(sys.argv[1]) / "big.onnx"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = Graph(model)
done = reduce_precision(graph, FORMATS[sys.argv[2]])
reduced = graph.model()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lines = Path("/proc/self/status").read_text().splitlines()
mapped = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssFile"))
print(json.dumps({"grown": (after - before) * 1024, "folded": len(done.report.folded), "mapped": mapped}))
"""


def said_by(program: str, *arguments: str) -> dict[str, int]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("flag", ["fp16", "bf16"])
def test_weights_are_in_memory_once_at_most_while_they_are_folded_and_converted(
    flag: str, tmp_path: Path
) -> None:
    """226 MB of weights, folded into others of that size, which become half as many."""
    size = said_by(WRITE, str(tmp_path))["size"]
    found = said_by(REDUCE, str(tmp_path), flag)
    assert found["folded"] == 24 and found["grown"] < 1.3 * size
    assert found["mapped"] < 0.5 * size  # neither the model's weights nor the folded ones stay
