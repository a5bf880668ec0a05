"""Chooses the GPUs to build for: any for TensorRT-RTX, this machine's GPU for TensorRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.gpu_names import DEVICES, gpus_of
from trtsmith.converter.engine.builder.flavour import PIP, Flavour
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.importers.problem import Problem

DEFAULT_TARGET = "sm86"  # what TensorRT-RTX builds for on a machine without a GPU

FIRST_RTX_FOR_LISTED_ONLY = (1, 7)
"""1.4.0 and 1.6.1 build for, and run on, a GPU that they do not list (an H200, as CURRENT); 1.7.1 refuses the engine."""

# Names that only TensorRT-RTX has; each is used below behind a test of the flavour's name.
RTX_ONLY = frozenset(
    {
        "ComputeCapability",
        "ComputeCapability.CURRENT",
        "IBuilderConfig.num_compute_capabilities",
        "IBuilderConfig.set_compute_capability",
    }
)


DATA_CENTRE_AND_JETSON = frozenset({"sm70", "sm72", "sm87", "sm90", "sm100", "sm103", "sm110"})
"""What no TensorRT-RTX builds for: 1.4.0 to 1.7.1 list 7.5, 8.0, 8.6, 8.9, 12.0 and, the last, 12.1."""


def supported_targets(flavour: Flavour) -> tuple[str, ...]:
    """Lists the values of `--target` for TensorRT-RTX: ("sm75", "sm80", ...); () for TensorRT, which asks the GPU."""
    if not flavour.is_rtx:
        return ()
    trt: Any = flavour.module
    names = [name for name in dir(trt.ComputeCapability) if name.startswith("SM")]
    return tuple(sorted((name.lower() for name in names), key=lambda name: int(name[2:])))


def plan_targets(
    flavour: Flavour, asked: Sequence[str], gpu: Gpu | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Decides (targets, warnings) from the user's request and the machine's GPU.

    Raises UsageError for a target that this flavour cannot build for.
    """
    if flavour.is_rtx:
        return _plan_rtx(flavour, asked, gpu)
    if gpu is None:
        raise UsageError(_no_gpu(flavour, asked))
    targets = tuple(asked) or (gpu.target,)
    if targets == (gpu.target,):
        return targets, ()
    if all(_sm(target) >= 80 for target in (*targets, gpu.target)):
        return targets, (
            f"the engine is built on {gpu.target} for {', '.join(targets)} with hardware compatibility "
            "'ampere plus', which can be slower than an engine built on the GPU that runs it",
        )
    raise UsageError(
        f"{flavour.title} on {gpu.target} cannot build for {', '.join(targets)}.",
        f"--target {','.join(targets)}",
        f"{gpu.target}, or targets from sm80 up on a GPU from sm80 up",
        "build on the GPU that will run the engine, or use --flavour tensorrt_rtx",
    )


def set_targets(flavour: Flavour, config: Any, targets: Sequence[str], gpu: Gpu | None) -> None:
    """Sets the targets in the builder's configuration. Raises ValueError if TensorRT refuses one."""
    trt: Any = flavour.module
    if flavour.is_rtx:
        config.num_compute_capabilities = len(targets)
        for index, target in enumerate(targets):
            capability = getattr(trt.ComputeCapability, target.upper(), trt.ComputeCapability.CURRENT)
            if not config.set_compute_capability(capability, index):
                raise ValueError(f"TensorRT refused the target {target}")
    elif gpu is not None and tuple(targets) != (gpu.target,):
        config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS


def _plan_rtx(
    flavour: Flavour, asked: Sequence[str], gpu: Gpu | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = supported_targets(flavour)
    unlisted = gpu is not None and gpu.target not in known and tuple(asked) in ((), (gpu.target,))
    if gpu is not None and unlisted and flavour.version < FIRST_RTX_FOR_LISTED_ONLY:
        return (gpu.target,), (
            f"{flavour.title} does not list this machine's GPU ({gpu.name}, {gpu.target}): the engine is for this GPU only",
        )
    unknown = [target for target in asked if target not in known]
    if unknown:
        raise UsageError(
            f"{flavour.title} cannot build for {', '.join(unknown)}.",
            f"--target {','.join(asked)}",
            f"any of {', '.join(known)}",
            " ".join(_where_built(target) for target in unknown)
            + (" Leave it out here." if len(unknown) < len(asked) else ""),
        )
    if asked:
        return tuple(dict.fromkeys(asked)), ()
    if gpu is None:
        return (DEFAULT_TARGET,), ()
    if gpu.target in known:
        return (gpu.target,), ()
    return (DEFAULT_TARGET,), (
        f"{flavour.title} cannot build for this machine's GPU ({gpu.name}, {gpu.target}): "
        f"the engine is for {DEFAULT_TARGET} and will not run here. {_where_built(gpu.target)}",
    )


def _no_gpu(flavour: Flavour, asked: Sequence[str]) -> Problem:
    """TensorRT builds on GPUs alone; TensorRT-RTX does not, but not for all of them either."""
    elsewhere = [target for target in asked if target in DATA_CENTRE_AND_JETSON]
    return Problem(
        f"{flavour.title} builds only on a machine with a GPU, and this machine has none.",
        f"--target {','.join(asked)}" if elsewhere else "the build",
        "an NVIDIA GPU with a driver" + ("" if elsewhere else ", or TensorRT-RTX"),
        " ".join(map(_where_built, elsewhere)) or f"{PIP['tensorrt_rtx']}, then --flavour tensorrt_rtx",
    )


def _where_built(target: str) -> str:
    """What one does for a GPU that TensorRT-RTX does not build for."""
    names = gpus_of(target)
    if not names:
        return f"No GPU of the compute capability {target} is known: correct the number."
    if device := next((name for name, sm in DEVICES.items() if sm == target), ""):
        return (
            f"An engine for {target} ({names}) is built by TensorRT on the device itself: --bundle-for {device} in the "
            "place of --target writes a folder with a script that builds, runs and compares it there."
        )
    return (
        f"An engine for {target} ({names}) is built by TensorRT, on a machine with such a GPU: there "
        f"{PIP['tensorrt']}, then --flavour tensorrt --target {target}."
    )


def _sm(target: str) -> int:
    return int(target[2:]) if target.startswith("sm") and target[2:].isdigit() else 0
