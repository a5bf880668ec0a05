"""What looking at every value of a network costs in memory: about as much as running it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

PROGRAM = """
import json, resource, sys
from pathlib import Path
import numpy as np
from converter.passes.precision.observe import magnitudes
from tests.converter.passes.precision.networks import network
count, size = 40, 5_000_000
lines = [f"v{i} = {'Sin' if i % 2 else 'Cos'} ({f'v{i - 1}' if i else 'x'})" for i in range(count)]
body = "(float[N] x) => (float[N] y) { " + chr(10).join(lines) + f" y = Neg (v{count - 1}) }}"
model = network(Path(sys.argv[1]), body)
x = np.linspace(1, 2, size, dtype=np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seen = magnitudes(model, {"x": x})
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"kib": after - before, "value": size * 4 // 1024, "seen": len(seen), "x": seen["x"]}))
"""


def test_values_are_not_held_until_all_are_made(tmp_path: Path) -> None:
    """42 values of 20 MB: held at once they are 840 MB."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["seen"] == 42 and found["x"] == 2.0
    assert found["kib"] < 15 * found["value"]
