"""Child side of a question: does the installed TensorRT's ONNX parser import an operator?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


def run(text: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Answers the question. text: a flavour and an op_type, as JSON. The parser looks at no domain."""
    name, op_type = json.loads(text)
    trt = load_flavour(name).module
    logger = trt.Logger(trt.Logger.ERROR)
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    return {"imported": bool(parser.supports_operator(op_type))}


if __name__ == "__main__":
    serve(sys.argv[1:], run)
