"""Lists flags of trtexec and Polygraphy, and what does the same here.

Sources: trtexec's own help (samples/common/sampleOptions.cpp of https://github.com/NVIDIA/TensorRT, and `trtexec --help` of
TensorRT 10), and `polygraphy run --help` and `polygraphy convert --help` of Polygraphy 0.50. A test holds that every flag
of ours that is named here exists, and every one of Polygraphy's.
"""

from __future__ import annotations

from dataclasses import dataclass

TRTEXEC = "trtexec"
POLYGRAPHY = "Polygraphy"
BOTH = f"{TRTEXEC} and {POLYGRAPHY}"


@dataclass(frozen=True)
class Way:
    """words: what to write, with VALUE for the flag's own value. commands: of ours, that take it; the usual one first."""

    words: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Other:
    """A flag of another tool.

    ways:  to do the same here; none: `note` says why nothing does.
    value: stands for a value that was not given. take: a pattern whose first group is the part of the value that is ours.
    """

    tool: str
    ways: tuple[Way, ...] = ()
    note: str = ""
    value: str = "FILE"
    take: str = ""


_CONVERT = ("convert",)
_MODEL_READERS = ("convert", "check", "rewrite")
_BUILDERS = ("convert", "check")
_RUNNERS = ("run", "bench", "verify", "locate")


def _precision(name: str, tool: str = BOTH, note: str = "") -> Other:
    return Other(tool, (Way(f"--precision {name}", _MODEL_READERS),), note)


_ENGINE_IN = Other(
    TRTEXEC,
    (Way("VALUE", ("run", "bench")), Way("MODEL VALUE", ("verify",))),
    "an argument without a flag",
    "ENGINE",
)
_ENGINE_OUT = (Way("-o VALUE", _CONVERT),)
_LAYERS = Other(TRTEXEC, (Way("--layers 10", ("bench",)),))
_CACHE = (Way("--timing-cache VALUE", _CONVERT),)
_LEVEL = (Way("--optimization-level VALUE", _BUILDERS),)
_WORKSPACE = (Way("--workspace VALUE", _CONVERT),)
_INPUTS = (Way("--inputs VALUE", ("run", "bench", "verify", "convert", "locate")),)
_ALWAYS_TYPED = "networks are strongly typed always"
_NO_MIXING = f"{_ALWAYS_TYPED}: --precision and --keep-fp32 choose the types of nodes"
_LOADED = "plugin libraries are loaded by --plugins, and those of the manifest by themselves"

FLAGS: dict[str, Other] = {
    "--onnx": Other(
        TRTEXEC,
        (Way("VALUE", _MODEL_READERS), Way("VALUE", ("bench",))),
        "an argument without a flag",
        "MODEL",
    ),
    "--saveEngine": Other(TRTEXEC, _ENGINE_OUT, value="ENGINE"),
    "--save-engine": Other(POLYGRAPHY, _ENGINE_OUT, value="ENGINE"),
    "--loadEngine": _ENGINE_IN,
    "--fp16": _precision("fp16"),
    "--bf16": _precision("bf16"),
    "--fp8": _precision("fp8", note="it is calibrated: --inputs or --calibration"),
    "--int8": _precision("int8", note="it is calibrated: --inputs or --calibration"),
    "--best": Other(TRTEXEC, note="one precision is named: --precision fp16, bf16, int8 or fp8"),
    "--tf32": Other(POLYGRAPHY, note="TensorRT uses TF32 where the GPU has it"),
    "--noTF32": Other(
        TRTEXEC, note="TensorRT uses TF32 where the GPU has it; `trtsmith verify` allows for it"
    ),
    "--stronglyTyped": Other(TRTEXEC, note=_ALWAYS_TYPED),
    "--strongly-typed": Other(POLYGRAPHY, note=_ALWAYS_TYPED),
    "--explicitBatch": Other(TRTEXEC, note="batches are explicit always"),
    "--precisionConstraints": Other(TRTEXEC, note=_NO_MIXING),
    "--precision-constraints": Other(POLYGRAPHY, note=_NO_MIXING),
    "--layerPrecisions": Other(TRTEXEC, (Way("--keep-fp32 NAME", _MODEL_READERS),), _NO_MIXING),
    "--layer-precisions": Other(POLYGRAPHY, (Way("--keep-fp32 NAME", _MODEL_READERS),), _NO_MIXING),
    "--calib": Other(
        TRTEXEC, (Way("--calibration NPZ", _MODEL_READERS),), "inputs, and not a calibration cache"
    ),
    "--calibration-cache": Other(
        POLYGRAPHY, (Way("--calibration NPZ", _MODEL_READERS),), "inputs, and not a calibration cache"
    ),
    "--minShapes": Other(TRTEXEC, (Way("--shapes NAME=MIN:OPT:MAX", ("convert", "verify", "bench")),)),
    "--optShapes": Other(TRTEXEC, (Way("--shapes NAME=SHAPE", ("convert", "verify", "bench")),)),
    "--maxShapes": Other(TRTEXEC, (Way("--shapes NAME=MIN:OPT:MAX", ("convert", "verify", "bench")),)),
    "--trt-min-shapes": Other(POLYGRAPHY, (Way("--minShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--trt-opt-shapes": Other(POLYGRAPHY, (Way("--optShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--trt-max-shapes": Other(POLYGRAPHY, (Way("--maxShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--input-shapes": Other(
        POLYGRAPHY, (Way("--shapes NAME=SHAPE", ("convert", "check", "rewrite", "verify", "bench")),)
    ),
    "--memPoolSize": Other(
        TRTEXEC,
        _WORKSPACE,
        "the workspace in MiB; other pools have no flag",
        "MIB",
        r"(?:.*,)?workspace:(\d+)(?![\d.GKBgkb])",
    ),
    "--pool-limit": Other(
        POLYGRAPHY, _WORKSPACE, "the workspace in MiB; other pools have no flag", "MIB", r"(?!)()"
    ),
    "--memory-pool-limit": Other(
        POLYGRAPHY, _WORKSPACE, "the workspace in MiB; other pools have no flag", "MIB", r"(?!)()"
    ),
    "--builderOptimizationLevel": Other(TRTEXEC, _LEVEL, value="3"),
    "--builder-optimization-level": Other(POLYGRAPHY, _LEVEL, value="3"),
    "--timingCacheFile": Other(TRTEXEC, _CACHE),
    "--load-timing-cache": Other(POLYGRAPHY, _CACHE, "it is read and written"),
    "--save-timing-cache": Other(POLYGRAPHY, _CACHE, "it is read and written"),
    "--plugins": Other(BOTH, (Way("--plugins VALUE", (*_BUILDERS, "run", "bench", "verify")),), value="LIB"),
    "--staticPlugins": Other(
        TRTEXEC, (Way("--plugins VALUE", (*_BUILDERS, "run", "bench", "verify")),), value="LIB"
    ),
    "--dynamicPlugins": Other(
        TRTEXEC, (Way("--plugins VALUE", ("run", "bench", "verify", "convert")),), _LOADED, "LIB"
    ),
    "--setPluginsToSerialize": Other(TRTEXEC, (Way("--embed-plugins", _CONVERT),)),
    "--computeCapabilities": Other(TRTEXEC, (Way("--target sm86,sm89", _BUILDERS),)),
    "--hardwareCompatibilityLevel": Other(
        TRTEXEC, (Way("--target sm80,sm90", _BUILDERS),), "the GPUs are named"
    ),
    "--hardware-compatibility-level": Other(
        POLYGRAPHY, (Way("--target sm80,sm90", _BUILDERS),), "the GPUs are named"
    ),
    "--inputIOFormats": Other(
        TRTEXEC, (Way("--io-precision", ("convert", "rewrite")),), "types; layouts stay linear"
    ),
    "--outputIOFormats": Other(
        TRTEXEC, (Way("--io-precision", ("convert", "rewrite")),), "types; layouts stay linear"
    ),
    "--device": Other(TRTEXEC, note="the first GPU is used: CUDA_VISIBLE_DEVICES chooses it"),
    "--useDLACore": Other(TRTEXEC, note="no engines for DLA are built"),
    "--use-dla": Other(POLYGRAPHY, note="no engines for DLA are built"),
    "--versionCompatible": Other(TRTEXEC, note="an engine is for the TensorRT that built it"),
    "--version-compatible": Other(POLYGRAPHY, note="an engine is for the TensorRT that built it"),
    "--skipInference": Other(TRTEXEC, note="`trtsmith convert` times nothing; `trtsmith bench` does"),
    "--buildOnly": Other(TRTEXEC, note="`trtsmith convert` times nothing; `trtsmith bench` does"),
    "--loadInputs": Other(
        TRTEXEC, _INPUTS, "one .npz file with an array for each input, by its name", "NPZ", r"(?!)()"
    ),
    "--load-inputs": Other(POLYGRAPHY, (Way("--load-inputs VALUE", ("verify",)),), "or --inputs NPZ", "JSON"),
    "--load-outputs": Other(
        POLYGRAPHY, (Way("--load-outputs VALUE", ("verify",)),), "or --expected NPZ", "JSON"
    ),
    "--save-inputs": Other(POLYGRAPHY, (Way("--save-inputs VALUE", ("verify",)),), value="JSON"),
    "--save-outputs": Other(POLYGRAPHY, (Way("--save-outputs VALUE", ("verify",)),), value="JSON"),
    "--exportOutput": Other(TRTEXEC, (Way("-o NPZ", ("run",)),), "an .npz file"),
    "--dumpOutput": Other(TRTEXEC, (Way("-o NPZ", ("run",)),), "an .npz file"),
    "--warmUp": Other(TRTEXEC, (Way("--warmup-ms VALUE", ("bench",)),), value="200"),
    "--warm-up": Other(
        POLYGRAPHY,
        (Way("--warmup-ms VALUE", ("bench",)),),
        "a time, and not a number of runs",
        "200",
        r"(?!)()",
    ),
    "--duration": Other(TRTEXEC, (Way("--duration-s VALUE", ("bench",)),), value="3"),
    "--iterations": Other(BOTH, (Way("--iterations VALUE", ("bench",)),), value="10"),
    "--iters": Other(POLYGRAPHY, (Way("--iterations VALUE", ("bench",)),), value="10"),
    "--infStreams": Other(TRTEXEC, (Way("--streams VALUE", ("bench",)),), value="2"),
    "--streams": Other(TRTEXEC, (Way("--streams VALUE", ("bench",)),), value="2"),
    "--useCudaGraph": Other(TRTEXEC, (Way("--cuda-graph", ("run",)), Way("--cuda-graph on", ("bench",)))),
    "--noDataTransfers": Other(TRTEXEC, (Way("--no-transfers", ("bench",)),)),
    "--dumpProfile": _LAYERS,
    "--separateProfileRun": _LAYERS,
    "--dumpLayerInfo": _LAYERS,
    "--exportProfile": Other(TRTEXEC, (Way("--json FILE", ("bench",)),)),
    "--exportTimes": Other(TRTEXEC, (Way("--json FILE", ("bench",)),)),
    "--exportLayerInfo": Other(TRTEXEC, (Way("--json FILE", ("bench",)),)),
    "--optimization-profile": Other(POLYGRAPHY, (Way("--profile VALUE", ("run",)),), value="N"),
    "--useProfile": Other(TRTEXEC, (Way("--profile VALUE", ("run",)),), value="N"),
    "--runtimeCacheFile": Other(TRTEXEC, (Way("--runtime-cache VALUE", ("run",)),)),
    "--trt": Other(
        POLYGRAPHY, (Way("MODEL ENGINE", ("verify",)),), "it compares the engine with onnxruntime"
    ),
    "--onnxrt": Other(
        POLYGRAPHY, (Way("MODEL ENGINE", ("verify",)),), "it compares the engine with onnxruntime"
    ),
    "--validate": Other(POLYGRAPHY, (Way("MODEL ENGINE", ("verify",)),), "NaN and Inf are faults always"),
    "--trt-outputs": Other(POLYGRAPHY, (Way("MODEL", ("locate",)),), "it finds the node that is wrong"),
    "--onnx-outputs": Other(POLYGRAPHY, (Way("MODEL", ("locate",)),), "it finds the node that is wrong"),
    "--convert-to": Other(
        POLYGRAPHY, note="`trtsmith convert` writes engines, `trtsmith rewrite` ONNX models"
    ),
    "--output": Other(POLYGRAPHY, (Way("-o VALUE", ("convert", "rewrite", "run")),)),
    "--verbosity": Other(POLYGRAPHY, (Way("-v", ("convert", "check", "run", "verify", "bench")),)),
}
"""By the flag, as it is typed."""
