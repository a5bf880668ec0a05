"""Writes converter/rewrite/native_operators.json: the operators that the installed TensorRT's ONNX parser imports.

    python scripts/native_operators.py

Asks the parser itself about every operator that onnx and onnxruntime know, and about TensorRT's own: their names are in the
parser's library where they are longer than 15 letters, and below where they are not. Run it again for a new TensorRT.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx.defs
import onnxruntime.capi.onnxruntime_pybind11_state as ort_state

from trtsmith.converter.engine.builder.flavour import load_flavour, parser_library

TARGET = Path(__file__).parent.parent / "converter" / "rewrite" / "native_operators.json"

SHORT = (
    "DistCollective",
    "TRT_Attention",
    "TRT_Conv",
    "TRT_Deconv",
    "TRT_FloorDiv",
    "TRT_Gather",
    "TRT_MatMul",
    "TRT_MaxPool",
    "TRT_MoE",
    "TRT_Resize",
    "TRT_Scale",
    "TRT_Shuffle",
    "TRT_Slice",
    "TRT_TopK_Min",
)


def main() -> None:
    flavour = load_flavour()
    trt = flavour.module
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    parser = trt.OnnxParser(builder.create_network(0), logger)
    names = {schema.name for schema in onnx.defs.get_all_schemas()}
    names |= {schema.name for schema in ort_state.get_all_operator_schema()}
    library = parser_library()
    assert library is not None
    names |= {text.decode() for text in re.findall(rb"TRT_\w+(?=\0)", library.read_bytes())} | {*SHORT}
    native = sorted(name for name in names if parser.supports_operator(name))
    table = {"asked": f"{flavour.name} {'.'.join(map(str, flavour.version))}", "operators": native}
    TARGET.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(native)} of {len(names)} operators, asked {table['asked']}")


if __name__ == "__main__":
    main()
