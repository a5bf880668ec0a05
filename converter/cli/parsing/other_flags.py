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
class OurWay:
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
    ways: tuple[OurWay, ...] = ()
    note: str = ""
    value: str = "FILE"
    take: str = ""


_CONVERT = ("convert",)
_MODEL_READERS = ("convert", "check", "rewrite")
_BUILDERS = ("convert", "check")
_RUNNERS = ("run", "bench", "verify", "locate")


def _precision(name: str, tool: str = BOTH, note: str = "") -> Other:
    return Other(tool, (OurWay(f"--precision {name}", _MODEL_READERS),), note)


_ENGINE_IN = Other(
    TRTEXEC,
    (OurWay("VALUE", ("run", "bench")), OurWay("MODEL VALUE", ("verify",))),
    "an argument without a flag",
    "ENGINE",
)
_ENGINE_OUT = (OurWay("-o VALUE", _CONVERT),)
_LAYERS = Other(TRTEXEC, (OurWay("--layers 10", ("bench",)),))
_CACHE = (OurWay("--timing-cache VALUE", _CONVERT),)
_LEVEL = (OurWay("--optimization-level VALUE", _BUILDERS),)
_WORKSPACE = (OurWay("--workspace VALUE", _CONVERT),)
_INPUTS = (OurWay("--inputs VALUE", ("run", "bench", "verify", "convert", "locate")),)
_ALWAYS_TYPED = "networks are strongly typed always"
_NO_MIXING = f"{_ALWAYS_TYPED}: --precision and --keep-fp32 choose the types of nodes"
_LOADED = "plugin libraries are loaded by --plugins, and those of the manifest by themselves"

FLAGS: dict[str, Other] = {
    "--onnx": Other(
        TRTEXEC,
        (OurWay("VALUE", _MODEL_READERS), OurWay("VALUE", ("bench",))),
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
    "--layerPrecisions": Other(TRTEXEC, (OurWay("--keep-fp32 NAME", _MODEL_READERS),), _NO_MIXING),
    "--layer-precisions": Other(POLYGRAPHY, (OurWay("--keep-fp32 NAME", _MODEL_READERS),), _NO_MIXING),
    "--calib": Other(
        TRTEXEC, (OurWay("--calibration NPZ", _MODEL_READERS),), "inputs, and not a calibration cache"
    ),
    "--calibration-cache": Other(
        POLYGRAPHY, (OurWay("--calibration NPZ", _MODEL_READERS),), "inputs, and not a calibration cache"
    ),
    "--minShapes": Other(TRTEXEC, (OurWay("--shapes NAME=MIN:OPT:MAX", ("convert", "verify", "bench")),)),
    "--optShapes": Other(TRTEXEC, (OurWay("--shapes NAME=SHAPE", ("convert", "verify", "bench")),)),
    "--maxShapes": Other(TRTEXEC, (OurWay("--shapes NAME=MIN:OPT:MAX", ("convert", "verify", "bench")),)),
    "--trt-min-shapes": Other(POLYGRAPHY, (OurWay("--minShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--trt-opt-shapes": Other(POLYGRAPHY, (OurWay("--optShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--trt-max-shapes": Other(POLYGRAPHY, (OurWay("--maxShapes NAME:1x3x8x8", _MODEL_READERS),)),
    "--input-shapes": Other(
        POLYGRAPHY, (OurWay("--shapes NAME=SHAPE", ("convert", "check", "rewrite", "verify", "bench")),)
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
    "--plugins": Other(
        BOTH, (OurWay("--plugins VALUE", (*_BUILDERS, "run", "bench", "verify")),), value="LIB"
    ),
    "--staticPlugins": Other(
        TRTEXEC, (OurWay("--plugins VALUE", (*_BUILDERS, "run", "bench", "verify")),), value="LIB"
    ),
    "--dynamicPlugins": Other(
        TRTEXEC, (OurWay("--plugins VALUE", ("run", "bench", "verify", "convert")),), _LOADED, "LIB"
    ),
    "--setPluginsToSerialize": Other(TRTEXEC, (OurWay("--embed-plugins", _CONVERT),)),
    "--computeCapabilities": Other(TRTEXEC, (OurWay("--target sm86,sm89", _BUILDERS),)),
    "--hardwareCompatibilityLevel": Other(
        TRTEXEC, (OurWay("--target sm80,sm90", _BUILDERS),), "the GPUs are named"
    ),
    "--hardware-compatibility-level": Other(
        POLYGRAPHY, (OurWay("--target sm80,sm90", _BUILDERS),), "the GPUs are named"
    ),
    "--inputIOFormats": Other(
        TRTEXEC, (OurWay("--io-precision", ("convert", "rewrite")),), "types; layouts stay linear"
    ),
    "--outputIOFormats": Other(
        TRTEXEC, (OurWay("--io-precision", ("convert", "rewrite")),), "types; layouts stay linear"
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
    "--load-inputs": Other(
        POLYGRAPHY, (OurWay("--load-inputs VALUE", ("verify",)),), "or --inputs NPZ", "JSON"
    ),
    "--load-outputs": Other(
        POLYGRAPHY, (OurWay("--load-outputs VALUE", ("verify",)),), "or --expected NPZ", "JSON"
    ),
    "--save-inputs": Other(POLYGRAPHY, (OurWay("--save-inputs VALUE", ("verify",)),), value="JSON"),
    "--save-outputs": Other(POLYGRAPHY, (OurWay("--save-outputs VALUE", ("verify",)),), value="JSON"),
    "--exportOutput": Other(TRTEXEC, (OurWay("-o NPZ", ("run",)),), "an .npz file"),
    "--dumpOutput": Other(TRTEXEC, (OurWay("-o NPZ", ("run",)),), "an .npz file"),
    "--warmUp": Other(TRTEXEC, (OurWay("--warmup-ms VALUE", ("bench",)),), value="200"),
    "--warm-up": Other(
        POLYGRAPHY,
        (OurWay("--warmup-ms VALUE", ("bench",)),),
        "a time, and not a number of runs",
        "200",
        r"(?!)()",
    ),
    "--duration": Other(TRTEXEC, (OurWay("--duration-s VALUE", ("bench",)),), value="3"),
    "--iterations": Other(BOTH, (OurWay("--iterations VALUE", ("bench",)),), value="10"),
    "--iters": Other(POLYGRAPHY, (OurWay("--iterations VALUE", ("bench",)),), value="10"),
    "--infStreams": Other(TRTEXEC, (OurWay("--streams VALUE", ("bench",)),), value="2"),
    "--streams": Other(TRTEXEC, (OurWay("--streams VALUE", ("bench",)),), value="2"),
    "--useCudaGraph": Other(
        TRTEXEC, (OurWay("--cuda-graph", ("run",)), OurWay("--cuda-graph on", ("bench",)))
    ),
    "--noDataTransfers": Other(TRTEXEC, (OurWay("--no-transfers", ("bench",)),)),
    "--dumpProfile": _LAYERS,
    "--separateProfileRun": _LAYERS,
    "--dumpLayerInfo": _LAYERS,
    "--exportProfile": Other(TRTEXEC, (OurWay("--json FILE", ("bench",)),)),
    "--exportTimes": Other(TRTEXEC, (OurWay("--json FILE", ("bench",)),)),
    "--exportLayerInfo": Other(TRTEXEC, (OurWay("--json FILE", ("bench",)),)),
    "--optimization-profile": Other(POLYGRAPHY, (OurWay("--profile VALUE", ("run",)),), value="N"),
    "--useProfile": Other(TRTEXEC, (OurWay("--profile VALUE", ("run",)),), value="N"),
    "--runtimeCacheFile": Other(TRTEXEC, (OurWay("--runtime-cache VALUE", ("run",)),)),
    "--trt": Other(
        POLYGRAPHY, (OurWay("MODEL ENGINE", ("verify",)),), "it compares the engine with onnxruntime"
    ),
    "--onnxrt": Other(
        POLYGRAPHY, (OurWay("MODEL ENGINE", ("verify",)),), "it compares the engine with onnxruntime"
    ),
    "--validate": Other(POLYGRAPHY, (OurWay("MODEL ENGINE", ("verify",)),), "NaN and Inf are faults always"),
    "--trt-outputs": Other(POLYGRAPHY, (OurWay("MODEL", ("locate",)),), "it finds the node that is wrong"),
    "--onnx-outputs": Other(POLYGRAPHY, (OurWay("MODEL", ("locate",)),), "it finds the node that is wrong"),
    "--convert-to": Other(
        POLYGRAPHY, note="`trtsmith convert` writes engines, `trtsmith rewrite` ONNX models"
    ),
    "--output": Other(POLYGRAPHY, (OurWay("-o VALUE", ("convert", "rewrite", "run")),)),
    "--verbosity": Other(POLYGRAPHY, (OurWay("-v", ("convert", "check", "run", "verify", "bench")),)),
}
"""By the flag, as it is typed."""
