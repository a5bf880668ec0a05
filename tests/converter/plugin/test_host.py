"""The plugin host on sound libraries of every interface, and its errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.converter.plugin import fixtures as plugin_fixtures
from trtsmith.converter.base.errors import EXIT_USAGE, UsageError
from trtsmith.converter.plugin.host.abi import Family, Status
from trtsmith.converter.plugin.host.enqueue import run_plugin, time_plugin
from trtsmith.converter.plugin.host.host import Creator, Host, Plugin, PluginLibrary
from trtsmith.converter.plugin.host.host_library import PluginError
from trtsmith.converter.plugin.host.plugin_values import EncodedField, TensorDesc, field_value, field_values

FIELDS = {"repeats": 3, "weights": (1.0, 2.0)}
PLUGINS = (
    ("good_v3", "Repeat0", Family.V3),
    ("good_v2", "RepeatDynamicExt0", Family.V2_DYNAMICEXT),
    ("good_v2", "RepeatIOExt", Family.V2_IOEXT),
    ("good_v2", "RepeatExt", Family.V2_EXT),
)
EVERY = pytest.mark.parametrize(("library", "name", "family"), PLUGINS)


@pytest.fixture(scope="module")
def host() -> Host:
    return Host(plugin_fixtures.host())


@pytest.fixture
def creator(host: Host, library: str, name: str) -> Iterator[Creator]:
    with host.open(plugin_fixtures.library(library)) as opened:
        yield opened.creator(name)


@pytest.fixture
def repeat(host: Host) -> Iterator[Plugin]:
    with (
        host.open(plugin_fixtures.library("good_v3")) as library,
        library.creators[0].create(FIELDS) as plugin,
    ):
        yield plugin


@EVERY
def test_creator_and_plugin_say_who_they_are(
    creator: Creator, library: str, name: str, family: Family
) -> None:
    assert (creator.info.name, creator.info.version, creator.info.namespace) == (name, "1", "fixture")
    assert [(f.name, f.type, f.length) for f in creator.fields] == [
        ("repeats", "int32", 1),
        ("weights", "float32", 2),
    ]
    with creator.create(FIELDS) as plugin:
        info = plugin.info
        assert (info.name, info.version, info.namespace) == (name, "1", "fixture")
        assert info.family is family
        assert info.output_count == 1
        assert info.tensorrt_version // 10000 == (0 if family is Family.V3 else 10)


@EVERY
def test_types_shapes_and_formats(creator: Creator, library: str, name: str, family: Family) -> None:
    case = plugin_fixtures.repeat_case(name)
    with creator.create(FIELDS) as plugin:
        assert plugin.output_types(["float32"]) == ("float32",)
        assert plugin.concrete_shapes([(2, 3, 4)]) == (case.outputs[0].shape,)
        assert plugin.supports_format(0, case.inputs, case.outputs)
        assert not plugin.supports_format(0, [TensorDesc("float32", (2, 3, 4), "chw32")], case.outputs)
        assert not plugin.supports_format(1, case.inputs, [TensorDesc("int8", (2, 3, 4))])


@pytest.mark.parametrize(("library", "name"), [("good_v3", "Repeat0"), ("good_v2", "RepeatDynamicExt0")])
def test_symbolic_shapes(creator: Creator, library: str, name: str) -> None:
    with creator.create(FIELDS) as plugin:
        (shape,) = plugin.output_shapes([(2, 3, -1)], symbolic=[1])
    assert [dim.text for dim in shape] == ["mul(i0.d0, 3)", "3", "i0.d2"]
    assert [dim.value for dim in shape] == [None, 3, None]
    assert [dim.evaluated for dim in shape] == [6, 3, None]


@pytest.mark.parametrize(("library", "name"), [("good_v2", "RepeatIOExt"), ("good_v2", "RepeatExt")])
def test_interfaces_without_unknown_dimensions_say_so(creator: Creator, library: str, name: str) -> None:
    with creator.create(FIELDS) as plugin, pytest.raises(PluginError) as caught:
        plugin.output_shapes([(2, 3, -1)])
    assert caught.value.status is Status.UNSUPPORTED


@EVERY
def test_serialised_restored_cloned_and_attached(
    creator: Creator, library: str, name: str, family: Family
) -> None:
    case = plugin_fixtures.repeat_case(name)
    with creator.create(FIELDS) as plugin:
        state = plugin.serialize()
    assert isinstance(state, tuple) == (family is Family.V3)
    restored = creator.deserialize(state)
    clone = restored.clone().clone()
    restored.close()
    assert clone.serialize() == state
    clone.configure(case.inputs, case.outputs)
    clone.initialize()
    with clone.attach() as attached:
        attached.on_shape_change(case.inputs, case.outputs)
        assert attached.serialize() == state


def test_v3_serialises_to_its_fields(repeat: Plugin) -> None:
    assert repeat.serialize() == (
        EncodedField("repeats", "int32", np.int32(3).tobytes(), 1),
        EncodedField("weights", "float32", np.array([1, 2], np.float32).tobytes(), 2),
    )
    assert repeat.workspace_size([TensorDesc("float16", (2, 3))], [TensorDesc("float16", (6, 3))]) == 12


@EVERY
def test_wrong_fields_are_refused(creator: Creator, library: str, name: str, family: Family) -> None:
    for fields in ({}, {"repeats": 3}, {**FIELDS, "more": 1}, {**FIELDS, "weights": (1.0,)}):
        with pytest.raises(PluginError) as caught:
            creator.create(fields)
        assert caught.value.status is Status.REFUSED
        assert name in caught.value.problems[0].where


@pytest.mark.parametrize("damage", [slice(0, -1), slice(0, 0)])
def test_cut_bytes_are_refused(host: Host, damage: slice) -> None:
    with host.open(plugin_fixtures.library("good_v2")) as library:
        creator = library.creator("RepeatDynamicExt0")
        with creator.create(FIELDS) as plugin:
            state = plugin.serialize()
        assert isinstance(state, bytes)
        with pytest.raises(PluginError) as caught:
            creator.deserialize(state[damage])
    assert caught.value.status is Status.REFUSED


def test_log_of_a_library_is_kept(host: Host) -> None:
    host.native.take_log()
    with host.open(plugin_fixtures.library("good_v3")):
        assert host.native.take_log() == "info: fixture loaded\n"
    assert host.native.take_log() == ""


def test_closed_things_say_so_and_closing_twice_is_fine(host: Host) -> None:
    library: PluginLibrary = host.open(plugin_fixtures.library("good_v3"))
    creator = library.creators[0]
    plugin = creator.create(FIELDS)
    clone = plugin.clone()
    library.close()
    library.close()
    plugin.close()
    assert clone.closed
    for use in (plugin.serialize, clone.serialize, lambda: creator.create(FIELDS)):
        with pytest.raises(PluginError, match="closed"):
            use()


def test_static_registration_is_caught_in_a_process_of_its_own() -> None:
    """In a child, because it makes the process answer getPluginRegistry() for good."""
    program = (
        "import sys; from pathlib import Path; from trtsmith.converter.plugin.host.host import Host\n"
        "with Host(Path(sys.argv[1])).open(sys.argv[2]) as library:\n"
        "    print(library.how, [creator.info.name for creator in library.creators])\n"
    )
    arguments = [str(plugin_fixtures.host()), str(plugin_fixtures.library("static_v3"))]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=plugin_fixtures.ROOT, capture_output=True, text=True
    )
    assert done.stdout == "static registration ['Repeat0']\n", done.stderr


def test_what_is_no_plugin_library(host: Host, tmp_path: Path) -> None:
    text = tmp_path / "notes.so"
    text.write_text("not a library\n" * 100)
    with pytest.raises(
        PluginError, match=r"no plugin creators came .*getPluginCreators, initLibNvInfer"
    ) as caught:
        host.open(plugin_fixtures.library("no_creators"))
    assert (caught.value.status, caught.value.exit_code) == (Status.NO_CREATORS, EXIT_USAGE)
    for path, words in (
        (text, "invalid ELF header"),
        (tmp_path / "absent.so", "no such file"),
        (tmp_path, "no such file"),
        (tmp_path / ("a" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(PluginError, match=words) as caught:
            host.open(path)
        assert caught.value.status is Status.LOAD
        assert caught.value.exit_code == EXIT_USAGE
        assert str(path) in caught.value.problems[0].where


def test_a_library_of_any_name(host: Host, tmp_path: Path) -> None:
    """Linux names are bytes, and not always UTF-8."""
    path = tmp_path / os.fsdecode(b"\xff.so")
    shutil.copyfile(plugin_fixtures.library("good_v2"), path)
    with host.open(path) as library:
        assert library.creators


def test_unknown_creator_names_the_others(host: Host) -> None:
    library = host.open(plugin_fixtures.library("good_v2"))
    with library, pytest.raises(PluginError, match="RepeatDynamicExt0, RepeatIOExt, RepeatExt"):
        library.creator("Nothing")


def test_host_that_is_missing_or_something_else(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing"):
        Host(tmp_path / "absent.so")
    with pytest.raises(UsageError, match="cannot be used"):
        Host(plugin_fixtures.library("no_creators"))


def test_plain_values_become_the_fields_that_the_parser_makes() -> None:
    assert field_value("a", 7) == EncodedField("a", "int32", b"\x07\0\0\0", 1)
    assert field_value("a", "xy") == EncodedField("a", "char", b"xy\0", 3)
    assert field_value("a", (0.5,)).type == "float32"
    assert field_value("a", ()).length == 0
    with pytest.raises(ValueError, match="does not fit int32"):
        field_value("a", 1 << 40)


def test_values_take_the_types_that_the_creator_lists(host: Host) -> None:
    with host.open(plugin_fixtures.library("good_v3")) as library:
        values = field_values({"weights": (1, 2)}, library.creators[0].fields)
    assert values[0].type == "float32"


def test_shape_rule_that_leaves_a_dimension_unset(host: Host) -> None:
    unset = plugin_fixtures.faults("repeat_v3.hpp", "Fault")["kShapeUnset"]
    with host.open(plugin_fixtures.library("bad_v3")) as library:
        plugin = library.creator(f"Repeat{unset}").create(FIELDS)
        with pytest.raises(PluginError, match="dimension 1 of output 0 unset") as caught:
            plugin.output_shapes([(2, 3)])
    assert caught.value.status is Status.BROKEN


def test_shape_rule_that_overflows(repeat: Plugin) -> None:
    with pytest.raises(PluginError, match="overflows 64 bits"):
        repeat.output_shapes([(1 << 62, 3)])
    with pytest.raises(PluginError) as caught:
        repeat.output_shapes([(1,) * 9])
    assert caught.value.status is Status.USAGE


def test_running_without_a_gpu_is_a_cuda_error(host: Host, repeat: Plugin) -> None:
    if host.device_count():
        pytest.skip("there is a GPU")
    with pytest.raises(PluginError, match="cudaMalloc") as caught:
        run_plugin(repeat, [np.ones((2, 3), np.float32)])
    assert caught.value.status is Status.CUDA


@pytest.mark.gpu
@EVERY
def test_runs_and_times_on_a_gpu(creator: Creator, library: str, name: str, family: Family) -> None:
    case = plugin_fixtures.repeat_gpu_case(name)
    with creator.create(FIELDS) as plugin:
        (y,) = run_plugin(plugin, case.inputs)
        np.testing.assert_array_equal(y, case.expected[0].astype(np.float32))
        with creator.deserialize(plugin.serialize()) as restored:
            (again,) = run_plugin(plugin, case.inputs, executor=restored)
        np.testing.assert_array_equal(again, y)
        timing = time_plugin(plugin, case.inputs, warmup=2, count=5, flush_bytes=1 << 20)
    assert len(timing) == 5
    assert min(timing) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(0, 3), (1,), (257, 129)])
def test_odd_and_empty_shapes_on_a_gpu(repeat: Plugin, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float16)
    (y,) = run_plugin(repeat, [x])
    np.testing.assert_array_equal(y, np.concatenate([x, x, x]))


@pytest.mark.gpu
def test_writing_past_an_output_is_noticed_on_a_gpu(host: Host) -> None:
    past = plugin_fixtures.faults("repeat_v3.hpp", "Fault")["kWritesPastOutput"]
    with host.open(plugin_fixtures.library("bad_v3")) as library:
        plugin = library.creator(f"Repeat{past}").create(FIELDS)
        with pytest.raises(PluginError, match="behind output 0"):
            run_plugin(plugin, [np.ones((2, 3), np.float32)])
