"""Sets up a bare machine: finds or fetches nvcc and TensorRT's headers, builds the C++ libraries.

Standard library only, and trtsmith.importers.problem: the system's Python runs this before anything is installed.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
