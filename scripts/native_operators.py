"""Writes converter/rewrite/native_operators.json: the operators that the installed TensorRT's ONNX parser imports.

    python scripts/native_operators.py

Asks the parser itself about every operator that onnx and onnxruntime know. Run it again for a new TensorRT.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx.defs
import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

from trtsmith.converter.engine.build.flavour import load_flavour

TARGET = Path(__file__).parent.parent / "converter" / "rewrite" / "native_operators.json"


def main() -> None:
    flavour = load_flavour()
    trt = flavour.module
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    parser = trt.OnnxParser(builder.create_network(0), logger)
    names = {schema.name for schema in onnx.defs.get_all_schemas()}
    names |= {schema.name for schema in ort_state.get_all_operator_schema()}
    native = sorted(name for name in names if parser.supports_operator(name))
    table = {"asked": f"{flavour.name} {'.'.join(map(str, flavour.version))}", "operators": native}
    TARGET.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(native)} of {len(names)} operators, asked {table['asked']}")


if __name__ == "__main__":
    main()
