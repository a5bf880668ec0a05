"""Explains errors in loading or running an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from trtsmith.converter.engine.builder.explain import Explanation, explain
from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.device import DeviceError
from trtsmith.importers.problem import Problem


@dataclass(frozen=True)
class EngineIdentity:
    """The engine that a message is about. built_version, targets: from its manifest; "" and () without one."""

    where: str
    plugin_libraries: tuple[Path, ...] = ()
    built_version: str = ""
    targets: tuple[str, ...] = ()


_REBUILD = "convert the model again with this TensorRT, on or for this GPU"
# The first row whose fragments all occur in the message wins.
_LOADING = (
    *(
        Explanation(
            (fragment,),
            "The engine was built by another version of TensorRT.",
            "the version that built it",
            _REBUILD,
        )
        for fragment in (
            "not compatible with this version of tensorrt",
            "version tag does not match",
            "version_mismatch",
        )
    ),
    Explanation(
        ("magic",),
        "The file is no engine of this TensorRT: another kind of file, or an engine of another TensorRT.",
        "an engine that this TensorRT built",
        "correct the path, name the other TensorRT with --flavour, or convert the model again",
    ),
    Explanation(
        ("incompatible device",),
        "The engine was built for another GPU.",
        "an engine for this machine's GPU",
        "convert the model again with --target for this GPU, or on this machine",
    ),
    Explanation(
        ("unsupported_cc",),
        "The engine was built for another GPU, or this TensorRT does not run on this machine's GPU.",
        "an engine for this machine's GPU",
        "convert the model again with --target for this GPU, or on this machine",
    ),
    Explanation(
        ("host code",),
        "The engine has embedded plugin libraries, which it may not load without permission: they run code of their own.",
        "an engine without libraries inside, or the permission to load them",
        "if you trust the engine: trtsmith run --embedded-plugins",
    ),
    *(
        Explanation(
            fragments,
            "The engine needs a plugin that no library here has.",
            "the plugin library with which it was built",
            "put the library beside the engine with the engine's manifest, or name it with --plugins",
        )
        for fragments in (("creator", "not found"), ("getplugincreator",))
    ),
)
_MEMORY = Explanation(
    ("memory",),
    "",
    "enough free memory on the GPU",
    "end other programs on the GPU (`nvidia-smi` lists them), or build with a smaller --workspace or smaller --shapes",
)


def loading_problem(
    said: Sequence[str], diagnosis: str, origin: EngineIdentity, flavour: Flavour, gpu: Gpu | None
) -> Problem:
    """Says why TensorRT did not load an engine. diagnosis: TensorRT-RTX's finding on the file's header, or ""."""
    text = " ".join([*said, diagnosis]).strip() or "no message"
    if _is_memory(text):
        return memory_problem("to load the engine", text, origin)
    here = f"{flavour.title}" + (f" on {gpu.name} ({gpu.target})" if gpu else "")
    built = f"{flavour.name} {origin.built_version}" if origin.built_version else "an unknown TensorRT"
    built += f" for {', '.join(origin.targets)}" if origin.targets else ""
    found = next((row for row in _LOADING if all(part in text.lower() for part in row.fragments)), None)
    if found is None:
        found = Explanation(
            (),
            "TensorRT could not load the engine: it is damaged, or not an engine.",
            "a whole engine",
            _REBUILD,
        )
    return Problem(
        f"{found.cause} It was built by {built}; here is {here}. TensorRT says: {_short(text)}",
        origin.where,
        found.expected,
        found.fix,
    )


def memory_problem(purpose: str, said: str, origin: EngineIdentity) -> Problem:
    return Problem(
        f"There is not enough GPU memory {purpose}. {_short(said)}",
        origin.where,
        _MEMORY.expected,
        _MEMORY.fix,
    )


def context_problem(said: Sequence[str], device_memory: int, origin: EngineIdentity) -> Problem:
    """Says why TensorRT made no execution context."""
    text = " ".join(said) or "no message"
    if _is_memory(text):
        purpose = f"for an execution context of {device_memory / 2**20:.1f} MiB"
        return memory_problem(purpose, text, origin)
    return explain(text, origin.where)


def kernel_problem(error: DeviceError, origin: EngineIdentity) -> Problem:
    """Reports a failed kernel: CUDA tells of it at the next wait, and then answers nothing more in this process."""
    if error.code == "CUDA_ERROR_OUT_OF_MEMORY":
        return memory_problem("to run the engine", str(error), origin)
    libraries = ", ".join(map(str, origin.plugin_libraries))
    test = "; ".join(f"trtsmith plugin test {path}" for path in origin.plugin_libraries)
    return Problem(
        f"A kernel of the engine failed: {error}. CUDA cannot be used again in the process that ran it.",
        origin.where + (f", with the plugins of {libraries}" if libraries else ""),
        "kernels that read and write only inside their tensors",
        (f"{test} finds a plugin that does not; " if test else "")
        + f"compute-sanitizer --target-processes all trtsmith run {quote(origin.where)} --inputs FILE.npz names the kernel",
    )


def run_problem(said: Sequence[str], origin: EngineIdentity) -> Problem:
    """Reports that TensorRT refused to queue the engine's work."""
    text = " ".join(said) or "no message"
    if _is_memory(text):
        return memory_problem("to run the engine", text, origin)
    if "cuda" in text.lower() and ("illegal" in text.lower() or "launch fail" in text.lower()):
        return kernel_problem(DeviceError("TensorRT", _short(text)), origin)
    return explain(text, origin.where)


def _is_memory(text: str) -> bool:
    low = text.lower()
    return any(
        part in low
        for part in (
            "out of memory",
            "outofmemory",
            "out_of_memory",
            "insufficient_gpu_memory",
            "insufficient memory",
        )
    )


def _short(text: str, limit: int = 400) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
