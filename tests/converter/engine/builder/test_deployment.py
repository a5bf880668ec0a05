"""The builder's deployment options: trtexec's calls for the same flags, refusals, and built engines."""

from __future__ import annotations

import argparse
import os
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import trtsmith
from tests.converter.models import inverse
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.build_worker import _write_cache
from trtsmith.converter.engine.builder.deployment import (
    SETTABLE,
    apply_settings,
    check_settings,
    settings_of,
)
from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.converter.engine.bundle.manifest import read_document
from trtsmith.flags import add_options


class TacticSource(IntEnum):
    """As in TensorRT 11."""

    EDGE_MASK_CONVOLUTIONS = 3
    JIT_CONVOLUTIONS = 4


class Names:
    """An enumeration of any members, each of which is its name."""

    def __getattr__(self, name: str) -> str:
        return name


class Config:
    """A builder's configuration that writes down what it is asked for."""

    def __init__(self) -> None:
        vars(self)["calls"] = []

    def __setattr__(self, name: str, value: object) -> None:
        self.calls.append((name, value))

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, *given)) is None

    def get_tactic_sources(self) -> int:
        return 0b11000


def given(words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser, CONVERSION, **dict.fromkeys(("inputs", "plugins", "refused"), ""))
    return parser.parse_args(words.split())


def calls(words: str, dla_cores: int = 2) -> list[tuple[object, ...]]:
    module = ModuleType("tensorrt")
    for name in ("BuilderFlag", "HardwareCompatibilityLevel", "MemoryPoolType", "DeviceType"):
        setattr(module, name, Names())
    module.TacticSource = TacticSource  # type: ignore[attr-defined]
    config = Config()
    builder = SimpleNamespace(num_DLA_cores=dla_cores)
    apply_settings(Flavour(module, "tensorrt", (11, 0, 0)), builder, config, settings_of(given(words)))
    found: list[tuple[object, ...]] = config.calls
    return found


# What setupNetworkAndConfig of trtexec asks of the builder for the same flags, in its order.
TRTEXEC = [
    ("", []),
    ("--versionCompatible", [("set_flag", "VERSION_COMPATIBLE")]),
    ("--vc", [("set_flag", "VERSION_COMPATIBLE")]),
    ("--refit --stripWeights", [("set_flag", "REFIT"), ("set_flag", "STRIP_PLAN")]),
    ("--allowWeightStreaming", [("set_flag", "WEIGHT_STREAMING")]),
    ("--sparsity=enable", [("set_flag", "SPARSE_WEIGHTS")]),
    ("--sparsity=disable", []),
    ("--hardwareCompatibilityLevel=none", [("hardware_compatibility_level", "NONE")]),
    ("--hardwareCompatibilityLevel=ampere+", [("hardware_compatibility_level", "AMPERE_PLUS")]),
    (
        "--hardwareCompatibilityLevel=sameComputeCapability",
        [("hardware_compatibility_level", "SAME_COMPUTE_CAPABILITY")],
    ),
    ("--tacticSources=-JIT_CONVOLUTIONS", [("set_tactic_sources", 0b01000)]),
    ("--tacticSources=-jit_convolutions,+JIT_CONVOLUTIONS", [("set_tactic_sources", 0b11000)]),
    (
        "--memPoolSize=workspace:1024,dlaSRAM:0.75,tacticSharedMem:48K",
        [
            ("set_memory_pool_limit", "WORKSPACE", 1 << 30),
            ("set_memory_pool_limit", "DLA_MANAGED_SRAM", 1 << 19),
            ("set_memory_pool_limit", "TACTIC_SHARED_MEMORY", 48 << 10),
        ],
    ),
    ("--stronglyTyped", []),
    (
        "--allowWeightStreaming --hardwareCompatibilityLevel=ampere+ --useDLACore=1 --vc --memPoolSize=dlaGlobalDRAM:1G",
        [
            ("set_memory_pool_limit", "DLA_GLOBAL_DRAM", 1 << 30),
            ("set_flag", "VERSION_COMPATIBLE"),
            ("default_device_type", "DLA"),
            ("DLA_core", 1),
            ("set_flag", "GPU_FALLBACK"),
            ("hardware_compatibility_level", "AMPERE_PLUS"),
            ("set_flag", "WEIGHT_STREAMING"),
        ],
    ),
]
POLYGRAPHY = [
    ("--refittable --strip-plan", [("set_flag", "REFIT"), ("set_flag", "STRIP_PLAN")]),
    ("--hardware-compatibility-level ampere_plus", [("hardware_compatibility_level", "AMPERE_PLUS")]),
    ("--tactic-sources JIT_CONVOLUTIONS", [("set_tactic_sources", 0b10000)]),
    ("--pool-limit dla_local_dram:1e9", [("set_memory_pool_limit", "DLA_LOCAL_DRAM", 1_000_000_000)]),
    ("--memory-pool-limit workspace:16M", [("set_memory_pool_limit", "WORKSPACE", 16 << 20)]),
    ("--use-dla-core 0", [("default_device_type", "DLA"), ("DLA_core", 0), ("set_flag", "GPU_FALLBACK")]),
]


@pytest.mark.parametrize(("words", "asked"), [*TRTEXEC, *POLYGRAPHY])
def test_the_builder_is_asked_for_what_trtexec_asks_for(words: str, asked: list[tuple[object, ...]]) -> None:
    assert calls(words) == asked


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--sparsity=force", "'force' overwrites weights"),
        ("--hardwareCompatibilityLevel=hopper", "none, ampere+ or same_compute_capability"),
        ("--memPoolSize=workspace", "POOL:SIZE"),
        ("--memPoolSize=heap:1", "POOL:SIZE"),
        ("--memPoolSize=workspace:1,workspace:2", "each pool once"),
        ("--memPoolSize=workspace:-1", "POOL:SIZE"),
        ("--memPoolSize=workspace:1 --workspace 1", "one of the two"),
        ("--use-dla-core=-1", "from 0"),
        ("--use-dla-core=2", "this one has 2"),
        ("--tacticSources=+CUDNN", "EDGE_MASK_CONVOLUTIONS, JIT_CONVOLUTIONS"),
        ("--tacticSources=+JIT_CONVOLUTIONS,EDGE_MASK_CONVOLUTIONS", "all with + or -, or none"),
    ],
)
def test_values_that_are_none_are_refused(words: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        calls(words)
    assert any(told in problem.expected for problem in caught.value.problems)


ALL = (
    "--refit --strip-plan --vc --sparsity enable --use-dla-core 0 --tactic-sources JIT_CONVOLUTIONS "
    "--hardware-compatibility-level none --weight-streaming --strongly-typed --memory-pool-limit dla_local_dram:1G"
)


def test_tensorrt_rtx_refuses_what_it_lacks_all_at_once() -> None:
    settings = settings_of(given(ALL))
    assert settings.keys() == SETTABLE.keys()
    check_settings("tensorrt", settings, False)
    refused = {"version_compatible", "use_dla_core", "hardware_compatibility_level", "memory_pool_limit"}
    for has_gpu, more in ((True, set[str]()), (False, {"refit", "strip_plan"})):
        with pytest.raises(UsageError) as caught:
            check_settings("tensorrt_rtx", settings, has_gpu)
        assert {problem.where for problem in caught.value.problems} == {
            SETTABLE[name].flags[0] for name in refused | more
        }
        assert all(problem.fix for problem in caught.value.problems)


BUILT: list[dict[str, Any]] = [
    {"weight_streaming": True},
    {"sparsity": "enable"},
    {"strongly_typed": True},
    {"tactic_sources": "-EDGE_MASK_CONVOLUTIONS"},
    {"memory_pool_limit": ["workspace:512M", "tactic_shared_memory:48K"]},
]


def test_every_option_that_tensorrt_rtx_takes_is_built_below() -> None:
    assert {name for one in BUILT for name in one} == {n for n, option in SETTABLE.items() if not option.rtx}


@pytest.mark.parametrize("options", BUILT)
def test_tensorrt_rtx_builds_an_engine_with_a_plugin(options: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    model = tmp_path / "m.onnx"
    inverse(model, ("n", 4, 4))
    shapes = [{"x": (1, 4, 4)}, {"x": [(2, 4, 4), (3, 4, 4), (4, 4, 4)]}]
    done = trtsmith.convert(
        model,
        tmp_path / "m.plan",
        shapes=shapes,
        flavour="tensorrt_rtx",
        target="sm86",
        verify=None,
        **options,
    )
    assert done.bundle is not None and done.built.plugin_layers
    facts = read_document(done.bundle.manifest)
    assert facts["settings"].keys() == options.keys()
    assert [one["x"]["max"] for one in facts["profiles"]] == [[1, 4, 4], [4, 4, 4]]


class Cache:
    """Timings by name, as a timing cache has them."""

    def __init__(self, data: bytes) -> None:
        self.timings = set(data.split())

    def combine(self, other: Cache, ignore_mismatch: bool) -> None:
        self.timings |= other.timings

    def serialize(self) -> bytes:
        return b" ".join(sorted(self.timings))


def config_with(timings: bytes) -> SimpleNamespace:
    return SimpleNamespace(get_timing_cache=lambda: Cache(timings), create_timing_cache=Cache)


def test_builds_that_share_a_timing_cache_keep_each_others_timings(tmp_path: Path) -> None:
    file, said = tmp_path / ("c" * 255), list[str]()
    for timings in (b"a b", b"c"):  # both began with an empty file
        _write_cache(file, config_with(timings), said.append)
    assert file.read_bytes() == b"a b c" and not said
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("made", ["link", "pipe", "folder"])
def test_nothing_beside_the_timing_cache_is_opened(made: str, tmp_path: Path) -> None:
    file, said, mine, beside = tmp_path / "c", list[str](), tmp_path / "mine", tmp_path / ".c.lock"
    mine.write_bytes(b"mine")
    {
        "link": lambda: beside.symlink_to(mine),
        "pipe": lambda: os.mkfifo(beside),
        "folder": lambda: beside.mkdir(),
    }[made]()
    _write_cache(file, config_with(b"a"), said.append)
    assert (file.read_bytes(), mine.read_bytes(), said) == (b"a", b"mine", [])


def test_a_timing_cache_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, said = tmp_path / "none" / "c", list[str]()
    _write_cache(file, config_with(b"a"), said.append)
    assert [text.partition(": ")[2] for text in said] == ["No such file or directory"] * 2
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(37, "No locks available")))
    _write_cache(tmp_path / "c", config_with(b"a"), said.append)
    assert (tmp_path / "c").read_bytes() == b"a" and said[2:] == [
        f"files in {tmp_path} are replaced without a lock: No locks available"
    ]
