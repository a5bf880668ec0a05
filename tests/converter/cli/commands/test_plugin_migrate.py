"""`trtsmith plugin migrate` makes V3 packages of V2 libraries, and refuses what it cannot observe.

One package of three of our own plugins is compiled, for one GPU, and passes the tests that it comes with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.converter.cli.commands.running import Cli, refused, shell, snapshot
from tests.converter.plugin import fixtures
from trtsmith.converter.cli.commands.plugin_migrate import _field
from trtsmith.converter.engine.libraries import plugin_library_v2
from trtsmith.converter.operators.loading import load_package
from trtsmith.converter.operators.sources import OperatorSource
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.creators import list_creators
from trtsmith.converter.plugin.host.host_worker import WorkerDiedError
from trtsmith.converter.plugin.migration_check import differences, observed
from trtsmith.converter.plugin.observation import OBSERVE
from trtsmith.converter.scaffold.from_plugin import creator_of

COMPILED = ("MatrixInverse", "PositionSensitiveRegionAlign", "DeformableRegionPool")
REPEAT = ("--example", "x=2x3x4", "--example", "repeats=3", "--example", "weights=1,2")


def migrate(cli: Cli, library: Path, *words: str) -> list[dict[str, object]]:
    """What was observed of each plugin. The package is in the folder `package`."""
    ran = cli("plugin migrate", str(library), "-o", "package", "--json", *words)
    assert ran.code == 0, ran
    plugins: list[dict[str, object]] = json.loads(ran.out)["plugins"]
    return plugins


def test_every_one_of_our_own_plugins_migrates(here: Path, cli: Cli) -> None:
    library = plugin_library_v2()
    plugins = migrate(cli, library)
    assert [one["plugin"] for one in plugins] == [one["name"] for one in list_creators(library)["creators"]]
    rules = {one["plugin"]: one["shapes"] for one in plugins}
    assert rules["FeatureReassembly"] == {
        "output_0": [
            *("input_0[0]", "input_0[1]"),
            *(f'input_0[{axis}] * fields["scale_factor"]' for axis in (2, 3)),
        ]
    }
    divided = 'input_0[1] // (fields["output_height"] * fields["output_width"])'
    assert divided in rules["PositionSensitiveRegionAlign"]["output_0"]  # type: ignore[index]
    loaded = load_package(OperatorSource(str(here / "package" / "trtsmith_v3"), "a test")).operators
    assert [op.name for op in loaded] == [one["operator"] for one in plugins]
    by_hand = [one["plugin"] for one in plugins if one["shapes"] is None]
    assert "SubmanifoldRulebook" in by_hand and len(by_hand) < len(plugins) / 4
    binding = (here / "package" / "ops" / "submanifold_rulebook_v3.cpp").read_text()
    assert "write `shape` in ops/submanifold_rulebook_v3.cpp" in binding


def test_a_compiled_package_passes_its_own_tests(here: Path, cli: Cli) -> None:
    library = plugin_library_v2()
    migrate(cli, library, *(word for name in COMPILED for word in ("--plugin", name)))
    built = cli("op build package --architectures 86")
    assert built.code == 0, built
    tests = f"{sys.executable} -m pytest -q -rs -p no:cacheprovider -p no:xdist package"
    # The workspace of the last one is to be written, and until then the tests say so.
    ran = shell(tests)
    assert ran.code == 1 and "DeformableRegionPoolV3 asks for no workspace" in ran.out, ran.out
    definition = here / "package" / "trtsmith_v3" / "deformable_region_pool_v3.py"
    definition.write_text(definition.read_text().replace("    workspace=True,\n", ""))
    ran = shell(tests)
    assert "failed" not in ran.out and ran.code == 0, ran.out
    assert "there is no GPU to run the kernels on" in ran.out
    new = here / "package" / "trtsmith_v3" / "lib" / "libtrtsmith_v3_plugins.so"
    matrix, regions, _ = load_package(OperatorSource(str(here / "package" / "trtsmith_v3"), "test")).operators
    assert list(differences(library, new, regions, "PositionSensitiveRegionAlign", {})) == []
    (first, *_) = differences(library, new, matrix, "AscendingOrder", {})
    assert "MatrixInverseV3, small" in first


def test_a_plugin_of_others(here: Path, cli: Cli) -> None:
    library = fixtures.library("good_v2")
    (one,) = migrate(cli, library, "--plugin", "RepeatDynamicExt0", *REPEAT)
    assert one["operator"] == "RepeatDynamicExt0"
    assert one["shapes"] == {"output_0": ['input_0[0] * fields["repeats"]', "input_0[1]", "input_0[2]"]}
    assert one["wider"] == [["bfloat16", "bfloat16"]]
    (op,) = load_package(OperatorSource(str(here / "package" / "good_v3"), "a test")).operators
    assert {field.name: field.length for field in op.fields} == {"repeats": None, "weights": 2}
    kernel = (here / "package" / "kernels" / "repeat_dynamic_ext0.cu").read_text()
    assert "cudaErrorNotSupported" in kernel and "bfloat16, bfloat16" in kernel


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("kNone", ""),
        # What only concerns the bytes of V2 ends with them.
        ("kAcceptsTruncated", ""),
        ("kAcceptsPadded", ""),
        ("kLeavesBytes", ""),
        ("kForgetsNamespace", ""),
        ("kWritesPastBuffer", "serialize wrote past the 16 bytes"),
        ("kShapeUnset", "left dimension 1 of output 0 unset"),
        ("kOtherMajor", "compiled with TensorRT 8 headers"),
    ],
)
def test_broken_plugins_are_refused_with_the_reason(here: Path, cli: Cli, fault: str, words: str) -> None:
    number = fixtures.faults("repeat_v2.hpp", "FaultV2")[fault]
    plugin = f"RepeatDynamicExt{number}"
    ran = cli("plugin migrate", str(fixtures.library("bad_v2")), "--plugin", plugin, *REPEAT)
    if not words:
        assert ran.code == 0, ran
        return
    refused(ran, 1, words, f"plugin {plugin} of ", "--plugin NAME")
    assert snapshot(here) == {}


@pytest.mark.parametrize(
    ("library", "arguments", "code", "words"),
    [
        (
            "good_v2",
            "--plugin RepeatIOExt --example x=2x3x4 --example repeats=3 --example weights=1,2",
            1,
            "IPluginV2IOExt",
        ),
        ("good_v3", "--plugin Repeat0 --example x=2x3x4", 1, "it is a V3 plugin already"),
        ("good_v2", "", 2, "a V2 plugin does not say how many it has"),
        ("good_v2", "--plugin Repaet", 2, "one of RepeatDynamicExt0"),
        ("good_v2", "--example x=2x3", 2, "--example is for one plugin"),
        ("good_v2", "--plugin RepeatDynamicExt0 --example x=big", 2, "is not a shape"),
        ("good_v2", "--plugin RepeatDynamicExt0 --example x=2 --example repeats=x", 2, "no value of a field"),
        ("good_v2", "--plugin RepeatDynamicExt0 --example x=2x3", 1, "createPlugin"),
        ("no_creators", "", 2, "getCreators"),
        ("broken_load", "", 2, "loading the library"),
        ("bad_library", "--example x=2", 1, "cannot be migrated"),
    ],
)
def test_what_cannot_be_migrated(
    here: Path, cli: Cli, library: str, arguments: str, code: int, words: str
) -> None:
    refused(cli(f"plugin migrate {fixtures.library(library)} {arguments}"), code, words)
    assert snapshot(here) == {}


def test_a_folder_has_one_library(here: Path, cli: Cli) -> None:
    (here / "sources").mkdir()
    refused(cli("plugin migrate sources"), 2, "the folder has 0 shared libraries: none")
    (here / "sources" / "libgood_v2.so").write_bytes(fixtures.library("good_v2").read_bytes())
    assert migrate(cli, here / "sources", "--plugin", "RepeatDynamicExt0", *REPEAT)


def test_a_version_is_chosen_and_v2_comes_first() -> None:
    """As NVIDIA's own library has them: V3 and V2 plugins of one name."""
    creators = [{"name": "A", "version": v, "family": f} for v, f in (("4", 3), ("1", 2), ("2", 2))]
    found = [creator_of(creators, plugin) for plugin in ("A", "A:2", "A:4", "A:5", "B")]
    assert found == [1, 2, 0, -1, -1]


def test_a_field_of_no_declared_type_takes_that_of_its_value() -> None:
    assert [_field("k", "unknown", text) for text in ("3", "1,-2", "0.5,1")] == [3, (1, -2), (0.5, 1.0)]


def test_a_plugin_that_ends_its_process_at_other_sizes_is_asked_for_its_own() -> None:
    """As NVIDIA's Reorg does, whose sizes must be multiples of a field."""

    class Worker:
        def ask(self, index: int, what: str, case: object) -> dict[str, Any]:
            if what == OBSERVE:
                raise WorkerDiedError("ended the process with SIGABRT")
            return {"samples": [1]}

    worker: Any = Worker()
    case = ContractCase("Reorg", "example", {}, (), ())
    said = "with other sizes it ended the process with SIGABRT"
    assert observed(worker, 0, case) == {"samples": [1], "alone": said}
