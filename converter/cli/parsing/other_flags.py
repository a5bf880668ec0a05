"""Maps flags of trtexec, Polygraphy and exporters to trtsmith's.

Sources: trtexec's own help (samples/common/sampleOptions.cpp of https://github.com/NVIDIA/TensorRT, and `trtexec --help` of
TensorRT 10), and `polygraphy run --help` and `polygraphy convert --help` of Polygraphy 0.50. A test holds that every flag
of ours that is named here exists, and every one of Polygraphy's. Exporters: export.py of
https://github.com/ultralytics/yolov5 and `optimum-cli export onnx` of https://github.com/huggingface/optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.engine.builder.deployment import SETTABLE

TRTEXEC = "trtexec"
POLYGRAPHY = "Polygraphy"
BOTH = f"{TRTEXEC} and {POLYGRAPHY}"
EXPORTERS = "exporters to ONNX"


@dataclass(frozen=True)
class OurWay:
    """trtsmith's equivalent of a flag. words: the flag, with VALUE for the value. commands: that take it, the usual one
    first.
    """

    words: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Other:
    """A flag of another tool.

    ways:  to do the same here; none: `note` says why nothing does.
    value: stands for a value that was not given. take: a pattern whose first group is the part of the value that is ours.
    """

    tool: str
    ways: tuple[OurWay, ...] = ()
    note: str = ""
    value: str = "FILE"
    take: str = ""


_READERS = "convert check rewrite"
_PROFILED = "convert verify bench"
_LOADING = "convert check run bench verify"
_ALWAYS_TYPED = "networks are strongly typed always"
_NO_MIXING = f"{_ALWAYS_TYPED}: --precision and --keep-fp32 choose the types of nodes"
_LOADED = "plugin libraries are loaded by --plugins, and those of the manifest by themselves"
_CALIBRATED = "it is calibrated: --inputs or --calibration"
_NO_CACHE = "inputs, and not a calibration cache"
_NO_DATA = "preprocessed inputs, and not a data set"
_NO_FLAG = "an argument without a flag"
_OURS = r"(?!)()"
"""Matches nothing: of the value that was given no part is ours."""


def _flags(
    trtexec: str,
    polygraphy: str,
    *ways: tuple[str, str],
    exporters: str = "",
    note: str = "",
    value: str = "FILE",
    take: str = "",
) -> dict[str, Other]:
    """Entries for the flags of other tools for one purpose. ways: trtsmith's flag, and its commands."""
    mine, theirs = trtexec.split(), polygraphy.split()
    exported = exporters.split()
    tools = dict.fromkeys(exported, EXPORTERS)
    tools |= {name: f"{TRTEXEC} and {EXPORTERS}" if name in exported else TRTEXEC for name in mine}
    tools |= {name: BOTH if name in mine else POLYGRAPHY for name in theirs}
    ours = tuple(OurWay(words, tuple(commands.split())) for words, commands in ways)
    return {name: Other(tool, ours, note, value, take) for name, tool in tools.items()}


FLAGS: dict[str, Other] = {
    **{
        name: flag
        for option in SETTABLE.values()
        for name, flag in _flags(
            option.trtexec,
            option.polygraphy,
            (f"{option.flags[0]} VALUE" if option.metavar else option.flags[0], "convert"),
            note=option.note,
            value=option.metavar,
        ).items()
    },
    **_flags("--memPoolSize", "", ("--memPoolSize VALUE", "convert"), value="workspace:512"),  # in MiB
    **_flags("--onnx", "", ("VALUE", _READERS), ("VALUE", "bench"), note=_NO_FLAG, value="MODEL"),
    **_flags("--saveEngine", "--save-engine", ("-o VALUE", "convert"), value="ENGINE"),
    **_flags(
        "--loadEngine", "", ("VALUE", "run bench"), ("MODEL VALUE", "verify"), note=_NO_FLAG, value="ENGINE"
    ),
    **_flags("--fp16", "--fp16", ("--precision fp16", _READERS), exporters="--half"),
    **_flags("", "", ("--precision VALUE", _READERS), exporters="--dtype", value="fp16"),
    **_flags("--bf16", "--bf16", ("--precision bf16", _READERS)),
    **_flags("--fp8", "--fp8", ("--precision fp8", _READERS), note=_CALIBRATED),
    **_flags("--int8", "--int8", ("--precision int8", _READERS), note=_CALIBRATED),
    **_flags("--best", "", note="one precision is named: --precision fp16, bf16, int8, fp8, or int8+fp16"),
    **_flags(
        "--noTF32",
        "--tf32",
        note="TensorRT computes float32 in TF32 where the GPU has it, and `trtsmith verify` allows for it; "
        "NVIDIA_TF32_OVERRIDE=0 in the environment, of the build and of each run, turns it off",
    ),
    **_flags(
        "--batch --maxBatch",
        "",
        ("--shapes NAME=VALUEx3x640x640", f"{_READERS} verify bench"),
        exporters="--batch --batch-size --batch_size",
        note="the batch is a size of each input",
        value="4",
    ),
    **_flags(
        "",
        "",
        ("--shapes NAME=1x3xVALUExVALUE", f"{_READERS} verify bench"),
        exporters="--imgsz --img-size",
        note="the image's sizes are those of the input",
        value="640",
    ),
    **_flags(
        "",
        "",
        exporters="--dynamic",
        note="the model says which sizes are dynamic; --shapes gives their ranges",
    ),
    **_flags(
        "",
        "",
        exporters="--nms",
        note="non-maximum suppression is part of the model: the exporter adds it",
    ),
    **_flags(
        "",
        "",
        exporters="--conf --conf-thres --iou --iou-thres --max_det --max-det --agnostic_nms --agnostic-nms",
        note="the exporter takes it, with non-maximum suppression: it is a constant of the model",
    ),
    **_flags("", "", exporters="--simplify", note="the graph is simplified always"),
    **_flags("", "", exporters="--format", note="`trtsmith convert` writes TensorRT engines"),
    **_flags("", "", exporters="--opset", note="the model's opset is raised where that is needed"),
    **_flags("", "", ("--calibration NPZ", _READERS), exporters="--data", note=_NO_DATA),
    **_flags("--explicitBatch", "", note="batches are explicit always"),
    **_flags("--precisionConstraints", "--precision-constraints", note=_NO_MIXING),
    **_flags("--layerPrecisions", "--layer-precisions", ("--keep-fp32 NAME", _READERS), note=_NO_MIXING),
    **_flags("--calib", "--calibration-cache", ("--calibration NPZ", _READERS), note=_NO_CACHE),
    **_flags("--minShapes --maxShapes", "", ("--shapes NAME=MIN:OPT:MAX", _PROFILED)),
    **_flags("--optShapes", "", ("--shapes NAME=SHAPE", _PROFILED)),
    **_flags("", "--trt-min-shapes", ("--minShapes NAME:1x3x8x8", _READERS)),
    **_flags("", "--trt-opt-shapes", ("--optShapes NAME:1x3x8x8", _READERS)),
    **_flags("", "--trt-max-shapes", ("--maxShapes NAME:1x3x8x8", _READERS)),
    **_flags("", "--input-shapes", ("--shapes NAME=SHAPE", f"{_READERS} verify bench")),
    **_flags(
        "--builderOptimizationLevel",
        "--builder-optimization-level",
        ("--optimization-level VALUE", "convert check"),
        value="3",
    ),
    **_flags("--timingCacheFile", "", ("--timing-cache VALUE", "convert")),
    **_flags(
        "",
        "--load-timing-cache --save-timing-cache",
        ("--timing-cache VALUE", "convert"),
        note="it is read and written",
    ),
    **_flags("--plugins --staticPlugins", "--plugins", ("--plugins VALUE", _LOADING), value="LIB"),
    **_flags(
        "--dynamicPlugins", "", ("--plugins VALUE", "run bench verify convert"), note=_LOADED, value="LIB"
    ),
    **_flags("--setPluginsToSerialize", "", ("--embed-plugins", "convert")),
    **_flags("", "", ("--target VALUE", "convert check"), exporters="--gpu", value="l4"),
    **_flags("--computeCapabilities", "", ("--target sm86,sm89", "convert check")),
    **_flags(
        "--inputIOFormats --outputIOFormats",
        "",
        ("--io-precision", "convert rewrite"),
        note="types; layouts stay linear",
    ),
    **_flags(
        "--device", "", exporters="--device", note="the first GPU is used: CUDA_VISIBLE_DEVICES chooses it"
    ),
    **_flags("", "--use-dla", ("--use-dla-core 0", "convert")),
    **_flags(
        "--allowGPUFallback", "--allow-gpu-fallback", note="--use-dla-core falls back to the GPU always"
    ),
    **_flags("", "--sparse-weights", ("--sparsity enable", "convert")),
    **_flags(
        "--skipInference --buildOnly", "", note="`trtsmith convert` times nothing; `trtsmith bench` does"
    ),
    **_flags(
        "--loadInputs",
        "",
        ("--inputs VALUE", "run bench verify convert locate"),
        note="one .npz file with an array for each input, by its name",
        value="NPZ",
        take=_OURS,
    ),
    **_flags("", "--load-inputs", ("--load-inputs VALUE", "verify"), note="or --inputs NPZ", value="JSON"),
    **_flags(
        "", "--load-outputs", ("--load-outputs VALUE", "verify"), note="or --expected NPZ", value="JSON"
    ),
    **_flags("", "--save-inputs", ("--save-inputs VALUE", "verify"), value="JSON"),
    **_flags("", "--save-outputs", ("--save-outputs VALUE", "verify"), value="JSON"),
    **_flags("--exportOutput --dumpOutput", "", ("-o NPZ", "run"), note="an .npz file"),
    **_flags("--warmUp", "", ("--warmup-ms VALUE", "bench"), value="200"),
    **_flags(
        "",
        "--warm-up",
        ("--warmup-ms VALUE", "bench"),
        note="a time, and not a number of runs",
        value="200",
        take=_OURS,
    ),
    **_flags("--duration", "", ("--duration-s VALUE", "bench"), value="3"),
    **_flags("--iterations", "--iterations --iters", ("--iterations VALUE", "bench"), value="10"),
    **_flags("--infStreams --streams", "", ("--streams VALUE", "bench"), value="2"),
    **_flags("--useCudaGraph", "", ("--cuda-graph", "run"), ("--cuda-graph on", "bench")),
    **_flags("--noDataTransfers", "", ("--no-transfers", "bench")),
    **_flags(
        "--useSpinWait", "", note="`trtsmith bench` times with CUDA events, whichever way the host waits"
    ),
    **_flags("--threads", "", note="--streams N of `trtsmith bench` drives all streams from one thread"),
    **_flags("--avgRuns", "", note="`trtsmith bench` shows the median, mean and percentiles of all runs"),
    **_flags("--dumpProfile --separateProfileRun --dumpLayerInfo", "", ("--layers 10", "bench")),
    **_flags("--exportProfile --exportTimes --exportLayerInfo", "", ("--json FILE", "bench")),
    **_flags("--useProfile", "--optimization-profile", ("--profile VALUE", "run"), value="N"),
    **_flags("--runtimeCacheFile", "", ("--runtime-cache VALUE", "run")),
    **_flags(
        "", "--trt --onnxrt", ("MODEL ENGINE", "verify"), note="it compares the engine with onnxruntime"
    ),
    **_flags("", "--validate", ("MODEL ENGINE", "verify"), note="NaN and Inf are faults always"),
    **_flags("", "--trt-outputs --onnx-outputs", ("MODEL", "locate"), note="it finds the node that is wrong"),
    **_flags("", "--convert-to", note="`trtsmith convert` writes engines, `trtsmith rewrite` ONNX models"),
    **_flags("", "--output", ("-o VALUE", "convert rewrite run")),
    **_flags("", "--verbosity", ("-v", "convert check run verify bench")),
}
"""By the flag, as it is typed."""
