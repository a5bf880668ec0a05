"""Each fault of the fixture libraries is found by its own check, and sound plugins pass all checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.converter.plugin import fixtures as plugin_fixtures
from tests.converter.plugin.fixtures import faults, repeat_case, repeat_gpu_case
from tests.forked_workers import fork
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.cli.reports import plugin_creators
from trtsmith.converter.engine.child import pool
from trtsmith.converter.plugin import creators
from trtsmith.converter.plugin import test as plugin_test
from trtsmith.converter.plugin.checks.checks import (
    LIBRARY_CHECKS,
    CheckFailedError,
    CreatorUnderTest,
    NotTestableError,
)
from trtsmith.converter.plugin.checks.checks_gpu import GPU_CHECKS, compare
from trtsmith.converter.plugin.checks.checks_profile import PROFILE_CHECKS
from trtsmith.converter.plugin.checks.checks_state import any_order, fields_copied
from trtsmith.converter.plugin.contract import CheckResult, CheckStatus, ContractCase, GpuCase, LibraryReport
from trtsmith.converter.plugin.test_worker import CHECKS

SOUND = (
    ("good_v3", ("Repeat0",)),
    ("good_v2", ("RepeatDynamicExt0", "RepeatIOExt", "RepeatExt")),
    ("static_v3", ("Repeat0",)),
)
CONSTANT_SHAPES = {"symbolic shapes", *(check.name for check in PROFILE_CHECKS)}
"""What cannot be tested where an interface takes constant shapes only."""
V3_FAULTS = {
    "kFormatLooksBeyond": ("format rule looks at earlier positions only", "only later positions changed"),
    "kTooManyFormats": ("format combinations", "at most 100"),
    "kAcceptsNoFormat": ("format combinations", "accepts no combination"),
    "kCloneShares": ("clones", "after its original was destroyed"),
    "kCloneWritesBack": ("clone independence", "after its clone was configured"),
    "kCloneIsSelf": ("clones", "the plugin itself"),
    "kLosesField": ("serialisation keeps fields", "weights is not in the serialisation"),
    "kShapeUnset": ("output shapes", "dimension 1 of output 0 unset"),
    "kShapeWrong": ("output shapes", "8x3x4"),
    "kShapeNegative": ("output shapes", "dimension 0 of output 0 negative: -6"),
    "kSizeHasDimensions": (
        "output shapes",
        "output 0 a size tensor, and it is no output without dimensions",
    ),
    "kSizeTypeWrong": ("output shapes", "output 1 is a size tensor of int64"),
    "kShapeDependsOnConstness": ("symbolic shapes", "2x3x4"),
    "kTypeWrong": ("output types", "int32"),
    "kTypeUnset": ("output types", "left output 0 unset"),
    "kSerializeThrows": ("serialisation complete", "the weights are gone"),
    "kConfigureCrashes": ("configuration", "SIGSEGV"),
    "kHangs": ("life in a context", "did not return within"),
    "kAcceptsUnknownField": ("unknown field refused", "no_such_field"),
    "kAcceptsMissingField": ("missing fields refused", "without its field repeats"),
    "kAcceptsWrongType": ("wrong field types refused", "repeats as float32"),
    "kAcceptsWrongLength": ("wrong field lengths refused", "2 elements in its field repeats"),
    "kNameDiffers": ("identity", "'Other'"),
    "kDuplicateFields": ("field list", "repeats"),
    "kFieldsByPosition": ("fields in any order", "in the order weights, repeats has another"),
    "kKeepsFieldPointers": (
        "fields copied",
        "were overwritten after createPlugin has another serialised state",
    ),
    "kRestoresByPosition": ("restored as an engine stores it", "from reversed fields has"),
    "kNeedsAlignedFields": ("restored as an engine stores it", "from reversed fields at odd addresses"),
    "kConfigureReadsDims": (
        "configuration for a profile",
        "with every dimension unknown configurePlugin returned 1",
    ),
    "kConfigureDividesByLeast": ("configuration for a profile", "SIGFPE"),
    "kWorkspaceShrinks": ("workspace for a profile", "for a batch of 1 alone 3072"),
    "kWorkspaceShrinksInRows": (
        "workspace for a profile",
        "in dimension 1 of input 0 the workspace is 96 bytes",
    ),
    "kKeepsLargestShape": ("shapes that change", "with a batch of 1, after others, onShapeChange returned 1"),
    "kCloneUsesGlobal": ("several threads", "of 4 has another"),
}
ONLY_ADVICE = {
    *("kTooManyFormats", "kLosesField", "kNeedsAlignedFields", "kNeedsFinder", "kLeavesBytes"),
    *("kAcceptsUnknownField", "kAcceptsMissingField", "kAcceptsWrongType", "kAcceptsWrongLength"),
    *("kAcceptsTruncated", "kAcceptsPadded", "kRefusesNull", "kRefusesOneAddress", "kWaits"),
}
"""Faults that TensorRT does not forbid; the contract forbids the others."""

V3_GPU_FAULTS = {
    "kRefusesNull": ("kernel with null for tensors without elements", "enqueue returned 1"),
    "kRefusesOneAddress": ("kernel with one address for tensors without elements", "enqueue returned 1"),
    "kWaits": ("kernel in a CUDA graph", "while its stream was captured"),
    "kContextsShareShape": ("kernels of two contexts in turns", "in the other context: output 0: nan where"),
    "kThreadsShareInput": ("kernels of two contexts in two threads", " thread: output 0"),
    "kKeepsFirstShape": ("kernel after other shapes", "behind"),
    "kTrustsPoison": ("kernel with other memory contents", "relative error"),
    "kNeedsMoreAlignment": ("kernel on slices of allocations", "enqueue returned 1"),
    "kRefusesEqualInputs": ("kernel with one address for equal inputs", "enqueue returned 1"),
    "kWritesPastOutput": ("kernel against its reference", "behind output 0"),
    "kLeavesOutput": ("kernel against its reference", "output 0: nan where"),
}
LIBRARY_FAULTS = {
    "kNewCreators": ("creators asked again", "asked again, getCreators gave other creators"),
    "kCreatorsOnce": ("creators asked again", "getCreators gave 1 creators, and then 0"),
    "kNeedsFinder": ("null as logger finder", "SIGSEGV"),
    "kFinderOnce": ("logger finder set again", "SIGABRT"),
}
V2_FAULTS = {
    "kAcceptsTruncated": ("damaged serialisation refused", "cut by one byte"),
    "kAcceptsPadded": ("damaged serialisation refused", "one byte more"),
    "kWritesPastBuffer": ("serialisation complete", "wrote past the 16 bytes"),
    "kLeavesBytes": ("serialisation complete", "left 4 of 16 bytes unset"),
    "kForgetsNamespace": ("namespace kept", "some.namespace"),
    "kShapeUnset": ("output shapes", "dimension 1 of output 0 unset"),
    "kOtherMajor": ("creation", "compiled with TensorRT 8 headers"),
}


def run(
    library: str,
    definitions: Sequence[str | ContractCase] = (),
    *,
    gpu: bool | None = False,
    fake_cuda: bool = False,
    **options: Any,
) -> LibraryReport:
    """definitions: cases, or names of plugins with the usual one."""
    found = plugin_fixtures.on_fake_cuda(library) if fake_cuda else plugin_fixtures.library(library)
    return plugin_test.test_library(
        found,
        gpu=gpu,
        definitions=[repeat_case(one) if isinstance(one, str) else one for one in definitions],
        gpu_cases=lambda name: [
            repeat_gpu_case(name),
            repeat_gpu_case(name, batch=0),
            repeat_gpu_case(name, inputs=2),
        ],
        host=plugin_fixtures.host_on_fake_cuda() if fake_cuda else plugin_fixtures.host(),
        **{"timeout_s": 60.0, **options},
    )


def v3(fault: str) -> str:
    return "Repeat" + faults("repeat_v3.hpp", "Fault")[fault]


@pytest.fixture(scope="module")
def bad_v3() -> LibraryReport:
    # One plugin hangs: the limit is short. Faults end 75 workers.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "start_session", fork)
        return run("bad_v3", [v3(fault) for fault in faults("repeat_v3.hpp", "Fault")], timeout_s=4)


@pytest.fixture(scope="module")
def bad_v2() -> LibraryReport:
    numbers = faults("repeat_v2.hpp", "FaultV2").values()
    return run("bad_v2", tuple(f"RepeatDynamicExt{number}" for number in numbers))


def of(report: LibraryReport, creator: str) -> list[CheckResult]:
    results = [result for result in report.results if result.creator == creator]
    assert results, f"no results for {creator}"
    return results


def require_found(report: LibraryReport, creator: str, fault: str, check: str, words: str) -> None:
    results = of(report, creator)
    # A kernel check may have several cases: the fault shows in one.
    (result, *_) = sorted(
        (result for result in results if result.check == check), key=lambda result: result.problem is None
    )
    assert result.problem is not None, f"{check} passed; failed: {[r.check for r in results if r.problem]}"
    assert result.verdict is (CheckStatus.ADVICE if fault in ONLY_ADVICE else CheckStatus.FAIL)
    assert words in f"{result.problem.what} {result.problem.expected}"
    assert creator in result.problem.where and check in result.problem.where


@pytest.mark.parametrize(("library", "names"), SOUND)
def test_sound_plugins_pass(library: str, names: tuple[str, ...]) -> None:
    report = run(library, names)
    assert report.ok, report.render()
    for name in names:
        passed = {result.check for result in of(report, name) if result.verdict is CheckStatus.PASS}
        skipped = {check.name for check in CHECKS} - passed
        if library == "static_v3":
            skipped -= {check.name for check in LIBRARY_CHECKS}  # it registers by itself
        # What an interface cannot do; everything else must have been tested.
        assert skipped <= {"namespace kept"} | (
            CONSTANT_SHAPES if name in ("RepeatIOExt", "RepeatExt") else set()
        )


@pytest.mark.parametrize("fault", V3_FAULTS)
def test_v3_fault_is_found(bad_v3: LibraryReport, fault: str) -> None:
    check, words = V3_FAULTS[fault]
    require_found(bad_v3, v3(fault), fault, check, words)


def test_every_v3_fault_is_expected_to_be_found() -> None:
    assert {"kNone", *V3_FAULTS, *V3_GPU_FAULTS} == set(faults("repeat_v3.hpp", "Fault"))
    assert {"kNone", *V2_FAULTS} == set(faults("repeat_v2.hpp", "FaultV2"))


def test_sound_plugin_among_crashing_ones_passes(bad_v3: LibraryReport) -> None:
    assert not [result for result in of(bad_v3, "Repeat0") if result.problem is not None]


@pytest.mark.parametrize(
    "fault",
    [
        "kAcceptsUnknownField",
        "kTypeWrong",
        "kShapeWrong",
        "kFormatLooksBeyond",
        "kRestoresByPosition",
        "kNeedsAlignedFields",
        "kWorkspaceShrinks",
        "kKeepsLargestShape",
        "kCloneUsesGlobal",
    ],
)
def test_a_fault_does_not_blame_other_checks(bad_v3: LibraryReport, fault: str) -> None:
    results = of(bad_v3, v3(fault))
    blamed = {result.check for result in results if result.problem is not None}
    also = {"symbolic shapes"} if fault == "kShapeWrong" else set()
    # A rule that looks beyond its position also answers for later positions by mistake.
    also |= {"format combinations", "accepted types"} if fault == "kFormatLooksBeyond" else set()
    assert blamed - also == {V3_FAULTS[fault][0]}


@pytest.mark.parametrize("fault", V2_FAULTS)
def test_v2_fault_is_found(bad_v2: LibraryReport, fault: str) -> None:
    check, words = V2_FAULTS[fault]
    name = "RepeatDynamicExt" + faults("repeat_v2.hpp", "FaultV2")[fault]
    require_found(bad_v2, name, fault, check, words)


@pytest.mark.parametrize("fault", LIBRARY_FAULTS)
def test_fault_of_a_library_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIXTURE_LIBRARY_FAULT", faults("bad_library.cpp", "LibraryFault")[fault])
    check, words = LIBRARY_FAULTS[fault]
    report = run("bad_library", ("Repeat0",))
    require_found(report, "Repeat0", fault, check, words)
    assert report.ok is (fault in ONLY_ADVICE)
    if report.ok:
        assert "advice Repeat0: null as logger finder" in report.render()


def test_library_without_that_fault_passes() -> None:
    report = run("bad_library", ("Repeat0",))
    assert report.ok, report.render()
    assert {"kNone", *LIBRARY_FAULTS} == set(faults("bad_library.cpp", "LibraryFault"))


def test_plugin_that_hangs_again_and_again_is_given_up() -> None:
    hanging = v3("kHangs")
    cases = [repeat_case(hanging, name=name) for name in ("first", "second", "third")]
    report = run("bad_v3", cases, timeout_s=2, only=hanging)
    contexts = [result for result in of(report, hanging) if result.check == "life in a context"]
    ends = [CheckStatus.FAIL, CheckStatus.FAIL, CheckStatus.NOT_TESTABLE]
    assert [result.verdict for result in contexts] == ends
    assert "did not return" in contexts[2].note


def test_only_one_plugin_can_be_tested() -> None:
    report = run("good_v2", ("RepeatExt",), only="RepeatExt")
    assert {result.creator for result in report.results} == {"RepeatExt"}
    with pytest.raises(UsageError, match="no plugin Repaet"):
        run("good_v2", only="Repaet")


def test_unknown_plugin_is_tested_as_far_as_it_goes() -> None:
    report = run("good_v3")
    assert report.ok, report.render()
    verdicts = {result.check: result.verdict for result in report.results}
    assert verdicts["serialisation round trip"] is CheckStatus.PASS
    assert verdicts["clones"] is CheckStatus.PASS
    assert verdicts["output shapes"] is CheckStatus.NOT_TESTABLE
    assert verdicts["missing fields refused"] is CheckStatus.NOT_TESTABLE
    assert "its inputs are not known" in report.render()


def test_results_come_as_they_are_made_and_as_json() -> None:
    seen: list[CheckResult] = []
    report = run("good_v3", progress=seen.append)
    assert tuple(seen) == report.results
    data = json.loads(json.dumps(report.to_json()))
    assert data["passed"] + data["failed"] + data["not_testable"] == len(seen)
    assert data["gpu"] is None


def test_list_and_inspect() -> None:
    library, host = plugin_fixtures.library("good_v2"), plugin_fixtures.host()
    listed = creators.list_creators(library, host=host)
    names = ["RepeatDynamicExt0", "RepeatIOExt", "RepeatExt"]
    assert [creator["name"] for creator in listed["creators"]] == names
    assert "fixture::RepeatIOExt version 1" in plugin_creators.render_creators(listed)
    inspected = creators.inspect_library(library, host=host)
    interfaces = ["V2_DYNAMICEXT", "V2_IOEXT", "V2_EXT"]
    assert [creator["plugin"]["interface"] for creator in inspected["creators"]] == interfaces
    assert "field weights: float32, length 2" in plugin_creators.render_inspection(inspected)


def test_library_that_crashes_while_it_is_loaded() -> None:
    with pytest.raises(UsageError, match=r"loading the library ended the process with SIGSEGV"):
        creators.list_creators(plugin_fixtures.library("broken_load"), host=plugin_fixtures.host())


def test_creators_that_a_function_registers() -> None:
    """NVIDIA's name for such a function is found; another is called in its place where it is named."""
    library, host = plugin_fixtures.library("init_functions"), plugin_fixtures.host()
    for init, how, spaces in (
        (None, "initLibNvInferPlugins", ["fixture", ""]),
        ("initInNamespace", "initInNamespace", ["acme"]),
    ):
        found = creators.inspect_library(library, host=host, init=init)
        assert found["how"] == how
        assert [creator["namespace"] for creator in found["creators"]] == spaces
        assert all(creator["plugin"]["created"] for creator in found["creators"])
        report = plugin_test.test_library(library, host=host, init=init, only="RepeatDynamicExt0")
        assert report.ok and report.how == how


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("initFails", "initFails returned false; the plugin logged: error: no licence"),
        ("initThrows", "initThrows threw: no licence"),
        ("initNothing", "initNothing returned true, and registered no plugin creators"),
        ("initCrashes", "loading the library ended the process with SIGSEGV"),
        ("initAbsent", "it exports no function initAbsent"),
    ],
)
def test_functions_that_register_no_creators(init: str, words: str) -> None:
    library, host = plugin_fixtures.library("init_functions"), plugin_fixtures.host()
    with pytest.raises(UsageError, match=words):
        creators.list_creators(library, host=host, init=init)


def test_library_that_is_none(tmp_path: Path) -> None:
    for path in (plugin_fixtures.library("no_creators"), tmp_path / "absent.so"):
        with pytest.raises(UsageError) as caught:
            plugin_test.test_library(path, host=plugin_fixtures.host())
        assert str(path) in caught.value.problems[0].where


def gpu_case(expected: np.ndarray, tolerance: float = 1e-3) -> GpuCase:
    return GpuCase("P", "c", {}, (), (expected,), (tolerance,))


def test_comparison_with_a_reference() -> None:
    wanted = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert "0" in compare([wanted.astype(np.float32)], gpu_case(wanted))
    with pytest.raises(CheckFailedError, match=r"worst element \(1, 0\) is 3.5"):
        compare([np.array([[1, 2], [3.5, 4]], np.float32)], gpu_case(wanted))
    with pytest.raises(CheckFailedError, match=r"nan where 2.0 is expected; its worst element \(0, 1\)"):
        compare([np.array([[1, np.nan], [3, 4]], np.float32)], gpu_case(wanted))
    with pytest.raises(CheckFailedError, match="shape"):
        compare([np.zeros((4,), np.float32)], gpu_case(wanted))
    with pytest.raises(CheckFailedError, match="2 outputs"):
        compare([wanted, wanted], gpu_case(wanted))
    with pytest.raises(CheckFailedError, match="4 elements beyond rtol 0"):
        compare([np.full((2, 2), 0.5)], gpu_case(np.zeros((2, 2))))
    assert compare([np.zeros((0, 3))], gpu_case(np.zeros((0, 3)))) == "empty outputs"
    infinite = np.array([1.0, np.inf])
    assert "relative" in compare([infinite.copy()], gpu_case(infinite))
    with pytest.raises(CheckFailedError, match="where inf is expected"):
        compare([np.array([1.0, -np.inf])], gpu_case(infinite))


CUDA = (pytest.param(False, marks=pytest.mark.gpu, id="gpu"), pytest.param(True, id="fake"))
"""With a GPU, and with a fake of CUDA's runtime: fixture plugins only copy, and the checks are the same."""


@pytest.mark.parametrize("fake", CUDA)
@pytest.mark.parametrize(("library", "names"), SOUND)
def test_sound_kernels_pass(library: str, names: tuple[str, ...], fake: bool) -> None:
    if fake and library == "static_v3":
        pytest.skip("the host registers for one of its copies only")
    report = run(library, names, gpu=True, fake_cuda=fake)
    assert report.ok and report.gpu, report.render()
    for name in names:
        passed = {result.check for result in of(report, name) if result.verdict is CheckStatus.PASS}
        assert set(GPU_CHECKS) <= passed


@pytest.mark.parametrize("fake", CUDA)
@pytest.mark.parametrize("fault", V3_GPU_FAULTS)
def test_kernel_fault_is_found(fault: str, fake: bool) -> None:
    check, words = V3_GPU_FAULTS[fault]
    name = v3(fault)
    require_found(run("bad_v3", (name,), gpu=True, only=name, fake_cuda=fake), name, fault, check, words)


def test_gpu_asked_for_without_one() -> None:
    if creators.list_creators(plugin_fixtures.library("good_v3"), host=plugin_fixtures.host())["gpu"]:
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match="no GPU"):
        run("good_v3", ("Repeat0",), gpu=True)


def test_a_plugin_that_is_created_without_its_fields_is_not_said_to_have_none() -> None:
    creator: Any = SimpleNamespace(fields=[SimpleNamespace(name="repeats"), SimpleNamespace(name="weights")])
    none = CreatorUnderTest(creator, bare=())
    for check in (fields_copied, any_order):
        with pytest.raises(NotTestableError, match="values for none of its fields repeats, weights"):
            check(none, None)
    creator.fields = []
    with pytest.raises(NotTestableError, match="it has no fields"):
        fields_copied(none, None)
