"""The flavour loader: detection, choice, refusals, and differences between the flavours."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder import flavour as fl
from trtsmith.converter.engine.builder import targets
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.rewrite.target import Target, version_of

HOPPER = Gpu("H200", (9, 0))
ADA = Gpu("L40", (8, 9))
VOLTA = Gpu("V100", (7, 0))


def installed(*names: str) -> Any:
    return lambda: tuple(fl.InstalledFlavour(name, "1", name, Path("/")) for name in names)


def wrapped(name: str, version: str) -> fl.Flavour:
    module = ModuleType(name)
    module.__version__ = version  # type: ignore[attr-defined]
    capability = type("ComputeCapability", (), {"NONE": 0, "CURRENT": 1, "SM75": 2, "SM86": 3, "SM120": 4})
    level = SimpleNamespace(AMPERE_PLUS="ampere plus")
    module.ComputeCapability, module.HardwareCompatibilityLevel = capability, level  # type: ignore[attr-defined]
    return fl.wrap_module(module, name)


def test_installed_rtx_has_a_version() -> None:
    found = {flavour.name: flavour for flavour in fl.installed_flavours()}["tensorrt_rtx"]
    assert version_of(found.version) >= fl.FIRST_RTX_WITH_PLUGINS
    assert found.folder.is_dir()


@pytest.mark.parametrize(
    ("names", "gpu", "chosen"),
    [
        (("tensorrt", "tensorrt_rtx"), None, "tensorrt_rtx"),
        (("tensorrt", "tensorrt_rtx"), ADA, "tensorrt"),
        (("tensorrt",), None, "tensorrt"),
        (("tensorrt_rtx",), ADA, "tensorrt_rtx"),
    ],
)
def test_auto_prefers_what_can_build_here(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], gpu: Gpu | None, chosen: str
) -> None:
    monkeypatch.setattr(fl, "installed_flavours", installed(*names))
    assert fl.choose_flavour("auto", gpu) == chosen


def test_explicit_choice_is_honoured_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fl, "installed_flavours", installed("tensorrt_rtx"))
    assert fl.choose_flavour("tensorrt_rtx", ADA) == "tensorrt_rtx"
    with pytest.raises(UsageError) as error:
        fl.choose_flavour("tensorrt", ADA)
    assert "pip install 'tensorrt" in error.value.problems[0].fix
    assert "it needs a GPU to build; or --flavour tensorrt_rtx" in error.value.problems[0].fix


def test_nothing_installed_and_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fl, "installed_flavours", installed())
    with pytest.raises(UsageError, match="pip install tensorrt-rtx"):
        fl.choose_flavour()
    with pytest.raises(UsageError, match="auto, tensorrt or tensorrt_rtx"):
        fl.choose_flavour("trt")


def test_a_graph_is_written_for_the_flavour_that_is_named_or_would_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fl, "find_gpu", lambda: None)
    monkeypatch.setattr(fl, "installed_flavours", installed("tensorrt_rtx"))
    assert fl.expected_target().flavour == "tensorrt_rtx"
    assert fl.expected_target("tensorrt") == Target("tensorrt")  # for a machine that has it
    monkeypatch.setattr(fl, "installed_flavours", installed())
    assert fl.expected_target() == Target("tensorrt")


def test_installed_but_broken_says_how_to_mend_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tensorrt.py").write_text(
        "raise ImportError('libnvinfer.so.10: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match=r"(?s)libnvinfer.so.10.*LD_LIBRARY_PATH"):
        fl.load_flavour("tensorrt")


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fl, "parser_library", lambda: None)  # another test may have loaded one
    assert version_of("10.13.3.9.post1") == (10, 13, 3, 9)
    assert version_of("1.7.1.116") == (1, 7, 1, 116)
    with pytest.raises(UsageError, match="too old"):
        wrapped("tensorrt", "8.6.1")
    assert not wrapped("tensorrt_rtx", "1.6.1.5").imports_plugins
    assert wrapped("tensorrt_rtx", "1.7.1.116").imports_plugins
    assert wrapped("tensorrt", "10.0.1").imports_plugins


def test_the_parser_that_is_loaded_says_whether_it_imports_plugins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parser, maps = tmp_path / "libtensorrt_onnxparser_rtx.so.1", tmp_path / "maps"
    maps.write_text(
        f"7f00-7f01 r-xp 00000000 08:01 12 /lib/libc.so.6\n7f02-7f03 r--p 00000000 08:01 13 {parser}\n"
    )
    assert fl.parser_library(maps) == parser and fl.parser_library(tmp_path / "none") is None
    monkeypatch.setattr(fl, "parser_library", lambda: parser)
    for text, expected in ((b"\0attribute tensorrt_plugin_shape_input_indices\0", True), (b"no such", False)):
        parser.write_bytes(text)
        assert wrapped("tensorrt_rtx", "1.6.1").imports_plugins is expected
        assert wrapped("tensorrt_rtx", "1.7.1").imports_plugins is expected


def test_the_installed_parser_imports_plugins() -> None:
    code = (
        "from trtsmith.converter.engine.builder.flavour import any_tensorrt, load_flavour, parser_library; "
        "found = load_flavour('tensorrt_rtx'); print(parser_library().name, found.imports_plugins)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["libtensorrt_onnxparser_rtx.so.1", "True"]


def test_rtx_targets() -> None:
    rtx = wrapped("tensorrt_rtx", "1.7.1")
    assert targets.supported_targets(rtx) == ("sm75", "sm86", "sm120")
    assert targets.plan_targets(rtx, (), None) == (("sm86",), ())
    assert targets.plan_targets(rtx, ("sm120", "sm75", "sm120"), None) == (("sm120", "sm75"), ())
    chosen, warnings = targets.plan_targets(rtx, (), HOPPER)
    assert chosen == ("sm86",)
    assert "will not run here" in warnings[0]
    with pytest.raises(UsageError, match="cannot build for sm90"):
        targets.plan_targets(rtx, ("sm86", "sm90"), None)


@pytest.mark.parametrize(("target", "names"), [("sm90", "H100, H200"), ("sm100", "B200"), ("sm103", "B300")])
def test_for_gpus_that_rtx_does_not_build_for_the_way_is_told_and_no_other_gpu(
    target: str, names: str
) -> None:
    rtx, trt = wrapped("tensorrt_rtx", "1.7.1"), wrapped("tensorrt", "10.16.1")
    for flavour, asked in ((rtx, (target,)), (rtx, ("sm86", target)), (trt, (target,))):
        with pytest.raises(UsageError) as error:
            targets.plan_targets(flavour, asked, None)
        (problem,) = error.value.problems
        assert f"An engine for {target} (" in problem.fix and names in problem.fix
        assert "on a machine with such a GPU: there pip install 'tensorrt" in problem.fix
        assert f"--flavour tensorrt --target {target}" in problem.fix and "--target sm120" not in problem.fix
        assert ("Leave it out here." in problem.fix) is (len(asked) > 1)
    _, warnings = targets.plan_targets(rtx, (), HOPPER)
    assert "An engine for sm90 (H100" in warnings[0]


def test_a_target_that_is_none_is_said_to_be_none() -> None:
    with pytest.raises(UsageError, match="No GPU of the compute capability sm1 is known"):
        targets.plan_targets(wrapped("tensorrt_rtx", "1.7.1"), ("sm1",), None)


def test_older_rtx_builds_for_a_gpu_that_it_does_not_list() -> None:
    older, newer = wrapped("tensorrt_rtx", "1.6.1.120"), wrapped("tensorrt_rtx", "1.7.1")
    for asked in ((), ("sm90",)):
        chosen, warnings = targets.plan_targets(older, asked, HOPPER)
        assert chosen == ("sm90",) and "for this GPU only" in warnings[0]
    for asked, gpu in ((("sm90",), ADA), (("sm86", "sm90"), HOPPER)):
        with pytest.raises(UsageError, match="cannot build for sm90"):
            targets.plan_targets(older, asked, gpu)
    with pytest.raises(UsageError, match="cannot build for sm90"):
        targets.plan_targets(newer, ("sm90",), HOPPER)
    given: list[tuple[int, int]] = []
    config = SimpleNamespace(set_compute_capability=lambda *at: given.append(at) or True)
    targets.set_targets(older, config, ("sm90",), HOPPER)
    assert given == [(1, 0)] and config.num_compute_capabilities == 1


def test_tensorrt_targets() -> None:
    trt = wrapped("tensorrt", "10.16.1")
    assert targets.plan_targets(trt, (), ADA) == (("sm89",), ())
    chosen, warnings = targets.plan_targets(trt, ("sm90",), ADA)
    assert chosen == ("sm90",)
    assert "ampere plus" in warnings[0]
    with pytest.raises(UsageError, match="only on a machine with a GPU"):
        targets.plan_targets(trt, (), None)
    with pytest.raises(UsageError, match="cannot build for sm90"):
        targets.plan_targets(trt, ("sm90",), VOLTA)


def test_tensorrt_hardware_compatibility_only_for_other_targets() -> None:
    trt = wrapped("tensorrt", "10.16.1")
    same, other = SimpleNamespace(), SimpleNamespace()
    targets.set_targets(trt, same, ("sm89",), ADA)
    targets.set_targets(trt, other, ("sm90",), ADA)
    assert vars(same) == {}
    assert other.hardware_compatibility_level == "ampere plus"


def test_rtx_refusing_a_target_is_an_error() -> None:
    config = SimpleNamespace(set_compute_capability=lambda capability, index: False)
    with pytest.raises(ValueError, match="sm86"):
        targets.set_targets(wrapped("tensorrt_rtx", "1.7.1"), config, ("sm86",), None)


def test_real_rtx_loads() -> None:
    rtx = fl.load_flavour("tensorrt_rtx")
    assert rtx.is_rtx
    assert "sm86" in targets.supported_targets(rtx)
    assert fl.network_flags(rtx) > 0


def test_what_is_missing_on_arm_is_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT-RTX has no wheels there."""
    for machine, word in (("x86_64", "tensorrt-rtx"), ("aarch64", "JetPack")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert word in fl.any_tensorrt() and ("rtx" in fl.any_tensorrt()) == (machine == "x86_64")
