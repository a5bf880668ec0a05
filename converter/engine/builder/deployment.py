"""Lists the builder's options for deployment, with trtexec's and Polygraphy's names, and what TensorRT-RTX refuses.

The command line, the Python API, the build, the refusals and the table in docs/guides/deploy.md read this list. The order
of calls is that of trtexec (samples/common/sampleEngines.cpp of https://github.com/NVIDIA/TensorRT).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.options.declared import Group, Option
from trtsmith.converter.base.options.kinds import NUMBER, SWITCH, TEXT, TEXTS, Flag, OptionKind
from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.importers.problem import Problem

_POOLS = {
    "workspace": "workspace",
    "dlasram": "dla_managed_sram",
    "dlalocaldram": "dla_local_dram",
    "dlaglobaldram": "dla_global_dram",
    "tacticdram": "tactic_dram",
    "tacticsharedmem": "tactic_shared_memory",
}
"""trtexec's names in lower case, and the API's, which are Polygraphy's."""

_LEVELS = {"none": "NONE", "ampere+": "AMPERE_PLUS", "samecomputecapability": "SAME_COMPUTE_CAPABILITY"}
_SIZE = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d+)?)([KMG]?)(?:i?B)?", re.IGNORECASE)


def _texts(given: object) -> list[str]:
    """The parts of a text with commas, or of several of them."""
    several = [given] if isinstance(given, str) else given if isinstance(given, Sequence) else []
    return [part.strip() for text in several for part in str(text).split(",") if part.strip()]


def _refused(flag: str, value: object, expected: str, fix: str = "give one of these") -> UsageError:
    return UsageError(f"{value!r} is not a value of {flag}", f"{flag} {value}", expected, fix)


def _level(given: object) -> str:
    name = str(given).lower().replace("_plus", "+").replace("_", "")
    if name not in _LEVELS:
        raise _refused("--hardware-compatibility-level", given, "none, ampere+ or same_compute_capability")
    return _LEVELS[name]


def _pools(given: object) -> dict[str, int]:
    """Bytes by pool, of POOL:SIZE with K, M or G; a number alone is in bytes, as in Polygraphy."""
    pools: dict[str, int] = {}
    for text in _texts(given):
        name, _, size = text.partition(":")
        pool = _POOLS.get(name.lower().replace("_", ""), name.lower())
        found = _SIZE.fullmatch(size)
        if pool not in _POOLS.values() or found is None or pool in pools:
            expected = f"POOL:SIZE, each pool once, as workspace:512M; pools: {', '.join(_POOLS.values())}"
            raise _refused("--memory-pool-limit", text, expected, "give a pool and a size with K, M or G")
        pools[pool] = int(float(found[1]) * 1024 ** " KMG".index(found[2].upper() or " "))
    return pools


def in_mebibytes(text: str) -> str:
    """Converts memory pools as trtexec's flag gives them: a number without a unit is in MiB."""
    return re.sub(r"(:[\d.]+)(?=,|$)", r"\1M", text)


def _core(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise _refused("--use-dla-core", given, "the number of a DLA core, from 0", "give a core's number")
    return given


def _sparsity(given: object) -> str:
    if given == "force":
        fix = "polygraphy surgeon prune MODEL -o PRUNED, then --sparsity enable"
        raise _refused("--sparsity", given, "enable or disable: 'force' overwrites weights", fix)
    if given not in ("enable", "disable"):
        raise _refused("--sparsity", given, "enable or disable")
    return str(given)


def _set_level(trt: Any, builder: Any, config: Any, level: str) -> None:
    known = getattr(trt.HardwareCompatibilityLevel, level, None)
    if known is None:
        raise _refused("--hardware-compatibility-level", level.lower(), "a level that this TensorRT has")
    config.hardware_compatibility_level = known


def _set_pools(trt: Any, builder: Any, config: Any, pools: Mapping[str, int]) -> None:
    for pool, size in pools.items():
        # as trtexec does: TensorRT wants a power of two there
        limit = 1 << max(size.bit_length() - 1, 0) if pool == "dla_managed_sram" else size
        config.set_memory_pool_limit(getattr(trt.MemoryPoolType, pool.upper()), limit)


def _set_tactics(trt: Any, builder: Any, config: Any, sources: Sequence[str]) -> None:
    """Signed sources change TensorRT's choice, as in trtexec; unsigned ones stand for all of it, as in Polygraphy."""
    signed = [source[0] in "+-" for source in sources]
    bits = config.get_tactic_sources() if any(signed) else 0
    for source in sources:
        name = source.lstrip("+-").upper()
        names = trt.TacticSource.__members__
        if name not in names or any(signed) != all(signed):
            expected = f"all with + or -, or none, of {', '.join(names)}"
            raise _refused("--tactic-sources", ",".join(sources), expected, "correct the sources")
        bit = 1 << int(names[name])
        bits = bits & ~bit if source[0] == "-" else bits | bit
    if not config.set_tactic_sources(bits):
        raise _refused("--tactic-sources", ",".join(sources), "sources that TensorRT takes together")


def _set_dla(trt: Any, builder: Any, config: Any, core: int) -> None:
    if core >= builder.num_DLA_cores:
        expected = f"a machine with DLA cores; this one has {builder.num_DLA_cores}"
        raise _refused("--use-dla-core", core, expected, "build on the Jetson, or leave the flag out")
    config.default_device_type = trt.DeviceType.DLA
    config.DLA_core = core
    config.set_flag(trt.BuilderFlag.GPU_FALLBACK)


@dataclass(frozen=True)
class DeploymentOption:
    """One option of the builder.

    name:   the option's; its flag is --the-name. trtexec, polygraphy: their flags for it. metavar: of a value.
    read:   checks and normalises a value from the command line or Python: plain data. UsageError.
    ask:    what it asks of the builder: (module, builder, config, value). None: nothing, or another module does it.
    rtx:    why TensorRT-RTX refuses it; "" where it takes it. fix: what to do instead there.
    gpu:    whether TensorRT-RTX refuses it only where there is no GPU.
    kind:   of its value. more: other flags, that have values of another form.
    note:   for the table.
    """

    name: str
    trtexec: str = ""
    polygraphy: str = ""
    help: str = ""
    metavar: str = ""
    read: Callable[[object], Any] = bool
    ask: Callable[[Any, Any, Any, Any], object] | None = None
    rtx: str = ""
    fix: str = ""
    gpu: bool = False
    note: str = ""
    kind: OptionKind = SWITCH
    more: tuple[Flag, ...] = ()

    def declared(self) -> Option:
        """Returns the option of `convert`."""
        others = {flag for one in self.more for flag in one.names}
        names = (flag for flag in self.flags if flag not in others)
        kind, flag = self.kind, Flag(self.help, self.metavar, *names)
        optional = " | None" if kind.default is None else ""
        return Option(
            self.name, self.name, kind.annotation + optional, kind, kind.default, (flag, *self.more)
        )

    @property
    def flags(self) -> tuple[str, ...]:
        ours = f"--{self.name.replace('_', '-')}"
        return tuple(dict.fromkeys((ours, *self.trtexec.split(), *self.polygraphy.split())))


_NEEDS_GPU = "it runs code on a GPU while it compiles layers whose weights can be refitted"

DEPLOYMENT = (
    DeploymentOption("profile", "--profile", "", note="Polygraphy repeats --trt-min-shapes and its like"),
    DeploymentOption(
        "memory_pool_limit",
        "--memPoolSize",
        "--memory-pool-limit --pool-limit",
        "limit a memory pool of the builder, as workspace:512M; bytes without a unit; may be repeated",
        "POOL:SIZE",
        read=_pools,
        ask=_set_pools,
        kind=TEXTS,
        more=(
            Flag(
                "the same, in MiB without a unit",
                "POOL:SIZE",
                "--memPoolSize",
                dest="memory_pool_limit",
                action="append",
                type=in_mebibytes,
            ),
        ),
        note="TensorRT-RTX refuses the pools of DLA",
    ),
    DeploymentOption("workspace", "--memPoolSize=workspace:MIB", "--pool-limit workspace:SIZE"),
    DeploymentOption("optimization_level", "--builderOptimizationLevel", "--builder-optimization-level"),
    DeploymentOption(
        "timing_cache",
        "--timingCacheFile",
        "--load-timing-cache",
        note="TensorRT-RTX times nothing while it builds: the file stays without timings",
    ),
    DeploymentOption(
        "refit",
        "--refit",
        "--refittable",
        "allow the engine's weights to be replaced later",
        ask=lambda trt, builder, config, value: config.set_flag(trt.BuilderFlag.REFIT),
        rtx=_NEEDS_GPU,
        fix="build on a machine with a GPU, or leave the flag out",
        gpu=True,
    ),
    DeploymentOption(
        "strip_plan",
        "--stripWeights",
        "--strip-plan",
        "leave weights that can be refitted out of the engine; they must be refitted before it runs",
        ask=lambda trt, builder, config, value: config.set_flag(trt.BuilderFlag.STRIP_PLAN),
        rtx=_NEEDS_GPU,
        fix="build on a machine with a GPU, or leave the flag out",
        gpu=True,
    ),
    DeploymentOption(
        "version_compatible",
        "--versionCompatible --vc",
        "--version-compatible",
        "build an engine that later versions of the same major TensorRT load",
        ask=lambda trt, builder, config, value: config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE),
        rtx="such an engine carries TensorRT's lean runtime, libnvinfer_lean.so, which TensorRT-RTX does not have",
        fix="build with --flavour tensorrt, or once for each version of TensorRT-RTX",
    ),
    DeploymentOption(
        "sparsity",
        "--sparsity",
        "",
        "enable: use weights with two zeros in every four where that is faster",
        "enable|disable",
        kind=TEXT,
        read=_sparsity,
        ask=lambda trt, builder, config, value: (
            config.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS) if value == "enable" else None
        ),
        note="Polygraphy: --sparse-weights",
    ),
    DeploymentOption(
        "use_dla_core",
        "--useDLACore",
        "",
        "run layers on this DLA core of a Jetson where it can, and the others on the GPU",
        "N",
        kind=NUMBER,
        read=_core,
        ask=_set_dla,
        rtx="it builds for GPUs only, not for DLA",
        fix="build on the Jetson, with --flavour tensorrt",
        note="with trtexec's --allowGPUFallback; Polygraphy: --use-dla --allow-gpu-fallback",
    ),
    DeploymentOption(
        "tactic_sources",
        "--tacticSources",
        "--tactic-sources",
        "where tactics may come from: +NAME,-NAME changes TensorRT's choice, NAME,NAME replaces it",
        "SOURCES",
        kind=TEXTS,
        read=_texts,
        ask=_set_tactics,
    ),
    DeploymentOption(
        "hardware_compatibility_level",
        "--hardwareCompatibilityLevel",
        "--hardware-compatibility-level",
        "other GPUs that the engine is to run on: none, ampere+ (from sm80 up) or same_compute_capability",
        "LEVEL",
        kind=TEXT,
        read=_level,
        ask=_set_level,
        rtx="its engines are for the GPUs that --target lists",
        fix="--target sm80,sm86,sm89,sm120 in its place",
    ),
    DeploymentOption(
        "weight_streaming",
        "--allowWeightStreaming",
        "--weight-streaming",
        "allow weights to stay in host memory at run time",
        ask=lambda trt, builder, config, value: config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING),
    ),
    DeploymentOption(
        "strongly_typed",
        "--stronglyTyped",
        "--strongly-typed",
        "changes nothing: networks are strongly typed always",
        note="always on",
    ),
)
"""In the order of trtexec's calls."""

SETTABLE = {option.name: option for option in DEPLOYMENT if option.help}
"""Those that a conversion takes as they stand here; the others have options of their own."""

DEPLOYED = Group("deployment", tuple(option.declared() for option in SETTABLE.values()))
"""The options of `convert` for them."""


def settings_of(given: object) -> dict[str, Any]:
    """Returns the checked settings. given: has an attribute for each. Raises UsageError with all wrong ones."""
    settings: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, option in SETTABLE.items():
        value = getattr(given, name)
        try:
            if value or type(value) is int:  # a core may be 0
                settings[name] = option.read(value)
        except UsageError as error:
            problems += error.problems
    if getattr(given, "workspace", None) is not None and "workspace" in settings.get("memory_pool_limit", ()):
        what, where = "the workspace's limit is given twice", "--workspace, --memory-pool-limit"
        problems.append(Problem(what, where, "one of the two", "leave one out"))
    if problems:
        raise UsageError(problems)
    return settings


def check_settings(flavour: str, settings: Mapping[str, Any], has_gpu: bool) -> None:
    """Raises UsageError with every setting that this flavour refuses."""
    if flavour != "tensorrt_rtx":
        return
    problems = []
    for name, value in settings.items():
        option = SETTABLE[name]
        why, fix = option.rtx, option.fix
        if name == "memory_pool_limit" and any(pool.startswith("dla") for pool in value):
            why, fix = SETTABLE["use_dla_core"].rtx, "limit other pools, or use --flavour tensorrt"
        if why and not (option.gpu and has_gpu):
            flag = option.flags[0]
            what = f"TensorRT-RTX refuses {flag}: {why}."
            problems.append(Problem(what, flag, "a flag that TensorRT-RTX has", fix))
    if problems:
        raise UsageError(problems)


def apply_settings(flavour: Flavour, builder: Any, config: Any, settings: Mapping[str, Any]) -> None:
    """Applies the settings to the builder, in trtexec's order. Raises UsageError for unsupported ones."""
    trt: Any = flavour.module
    for name, option in SETTABLE.items():
        if name in settings and option.ask is not None:
            option.ask(trt, builder, config, settings[name])
