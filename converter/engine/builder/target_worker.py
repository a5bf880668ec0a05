"""Child side of a check before a long export: can the installed TensorRT build for the requested GPUs?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.builder.gpu import find_gpu
from trtsmith.converter.engine.builder.targets import plan_targets
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


def run(text: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Answers the check, or raises UsageError as plan_targets does. text: a flavour and targets, as JSON."""
    name, asked = json.loads(text)
    plan_targets(load_flavour(name), asked, find_gpu())
    return {}


if __name__ == "__main__":
    serve(sys.argv[1:], run)
