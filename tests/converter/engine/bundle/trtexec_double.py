"""Stands in for trtexec of TensorRT 10.3: takes its flags, parses and builds with TensorRT-RTX, runs with onnxruntime.

It says nothing of a GPU: the engine that TensorRT-RTX builds is dropped, and model.plan holds the graph. DOUBLE_ERROR in the
environment is a relative error of all float outputs. Flags, and what they do, are of NVIDIA/TensorRT's samples/common at
v10.3.0.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np

from trtsmith.converter.base.options.shapes import graph_inputs
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest, Profile
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import runnable

FLAGS = frozenset(
    (
        *(
            "--onnx",
            "--saveEngine",
            "--skipInference",
            "--stronglyTyped",
            "--memPoolSize",
            "--dynamicPlugins",
        ),
        *("--useDLACore", "--allowGPUFallback", "--sparsity"),
        *("--builderOptimizationLevel", "--profilingVerbosity", "--minShapes", "--optShapes", "--maxShapes"),
        *(
            "--loadEngine",
            "--loadInputs",
            "--shapes",
            "--exportOutput",
            "--iterations",
            "--duration",
            "--warmUp",
        ),
    )
)
AARCH64 = b"\xb7\x00"


def main(words: list[str]) -> int:
    given = dict(word.partition("=")[::2] for word in words)
    if unknown := given.keys() - FLAGS:
        print("[E] Unknown option:", *unknown)
        return 1
    plugins = given.get("--dynamicPlugins")
    if plugins and Path(plugins).read_bytes()[18:20] != AARCH64:
        print("[E] Unable to load library:", plugins)
        return 1
    print("&&&& RUNNING TensorRT.trtexec [TensorRT v100300] #", *words)
    if "--onnx" in given:
        built(given, (libraries.plugin_library(),) if plugins else ())
    else:
        ran(given)
    return 0


def sizes_of(text: str) -> dict[str, tuple[int, ...]]:
    pairs = (part.rpartition(":")[::2] for part in text.split(",") if part)
    return {name: tuple(map(int, sizes.split("x"))) for name, sizes in pairs}


def built(given: dict[str, str], plugins: tuple[Path, ...]) -> None:
    assert {"--skipInference", "--stronglyTyped"} <= given.keys()
    low, usual, high = (sizes_of(given.get(f"--{end}Shapes", "")) for end in ("min", "opt", "max"))
    profile = {name: Profile(low[name], usual[name], high[name]) for name in usual}
    model, engine = Path(given["--onnx"]), Path(given["--saveEngine"])
    request = BuildRequest(
        model,
        engine,
        plugins,
        profiles=(profile,) if profile else (),
        targets=("sm86",),
        flavour="tensorrt_rtx",
    )
    build(request)
    shutil.copyfile(model, engine)


def ran(given: dict[str, str]) -> None:
    model = load_model(Path(given["--loadEngine"]))
    files = dict(part.rpartition(":")[::2] for part in given["--loadInputs"].split(","))
    shapes = sizes_of(given.get("--shapes", ""))
    feeds = {
        spec.name: np.frombuffer(Path(files[spec.name]).read_bytes(), spec.dtype).reshape(
            shapes.get(spec.name, tuple(size or 0 for size in spec.shape))
        )
        for spec in graph_inputs(model.proto)
    }
    error = float(os.environ.get("DOUBLE_ERROR", "0"))
    with open(given["--exportOutput"], "w", encoding="utf-8") as file:
        file.write("[\n")
        for number, (name, value) in enumerate(run(runnable(model), feeds).items()):
            value = value * value.dtype.type(1 + error) if value.dtype.kind == "f" else value
            texts = (
                f"{float(one):.6g}" if value.dtype.kind == "f" else str(int(one)) for one in value.ravel()
            )
            file.write(f'{", " if number else "  "}{{ "name" : "{name}"\n  , "dimensions" : "')
            file.write(
                "x".join(map(str, value.shape)) + '"\n  , "values" : [ ' + ", ".join(texts) + " ]\n  }\n"
            )
        file.write("]\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
