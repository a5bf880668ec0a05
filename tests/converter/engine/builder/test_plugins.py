"""Plugins in a build: loaded libraries, creation from the registry, and plugins that end the process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.builds import FLAVOUR, build_in_pool
from tests.converter.engine.builder.identity import (
    ABORT,
    DIE,
    HANG,
    NO_FORMAT,
    REFUSE,
    SEGFAULT,
    compile_library,
    fields,
    identity,
)
from tests.converter.models import written
from tests.processes import checkout_environment, children, children_of, has_ended
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.builder.build import WORKER, build
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult, PluginUse
from trtsmith.converter.engine.builder.plugins import INIT_FUNCTIONS
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.plugin.creators import held_plugins
from trtsmith.converter.rewrite.target import RTX, TENSORRT
from trtsmith.importers.fields import FieldValue


def request(folder: Path, libraries: Sequence[Path], mode: int = 0, **options: object) -> BuildRequest:
    given = options.pop("fields", fields(mode))
    version, namespace = str(options.pop("version", "1")), str(options.pop("namespace", "trtsmith_test"))
    out = folder / "out"
    out.mkdir(exist_ok=True)
    return BuildRequest(
        onnx_path=written(
            folder / "model.onnx",
            f"(float[2,3] x) => (float[2,3] y) {{ [relu1] a = Relu (x) {identity('a', 'y', mode)} }}",
        ),
        engine_path=out / "m.plan",
        plugin_libraries=tuple(libraries),
        plugins=(PluginUse("identity1", "Identity", version, namespace, given),),  # type: ignore[arg-type]
        **options,  # type: ignore[arg-type]
    )


def run(folder: Path, libraries: Sequence[Path], mode: int = 0, **options: object) -> BuildResult:
    return build_in_pool(request(folder, libraries, mode, flavour=FLAVOUR, **options))


def test_plugin_model(tmp_path: Path, library: Path) -> None:
    result = run(tmp_path, [library])
    assert result.plugin_layers == ("identity1",)
    assert result.engine_path.stat().st_size == result.size


def test_a_worker_of_a_pool_builds_as_a_child_of_its_own_does(tmp_path: Path, library: Path) -> None:
    """What one build leaves in the worker helps no other: neither plugins nor messages."""
    log = tmp_path / "kept.log"
    with Pool(WORKER, flavour="tensorrt_rtx") as pool:

        def run_in_pool(libraries: Sequence[Path], mode: int = 0, **options: object) -> BuildResult:
            return build(request(tmp_path, libraries, mode, **options), pool=pool)

        assert run_in_pool([library], log_path=log).plugin_layers == ("identity1",)
        assert "Successfully created plugin: Identity" in log.read_text()
        with pytest.raises(ConversionError, match="No loaded library has the plugin"):
            run_in_pool([])
        with pytest.raises(ConversionError, match=r"(?s)SIGABRT.*Successfully created plugin: Identity"):
            run_in_pool([library], ABORT)
        with pytest.raises(ConversionError, match="accepts none of the types"):
            run_in_pool([library], NO_FORMAT)
        assert run_in_pool([library]).plugin_layers == ("identity1",)


def test_embedding_makes_the_engine_larger(tmp_path: Path, library: Path) -> None:
    apart = run(tmp_path, [library]).size
    embedded = run(tmp_path, [library], embed_plugins=True).size
    assert embedded - apart > 0.9 * library.stat().st_size


def test_same_library_twice_is_loaded_once(tmp_path: Path, library: Path) -> None:
    assert run(tmp_path, [library, library]).plugin_layers == ("identity1",)


def test_two_libraries_with_one_plugin(tmp_path: Path, library: Path) -> None:
    copy = shutil.copy(library, tmp_path / "libcopy.so")
    with pytest.raises(UsageError, match=r"(?s)registered already.*libcopy.so"):
        run(tmp_path, [library, Path(copy)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), ["'mode' of the plugin Identity is missing", "'scales' of the plugin Identity is missing"]),
        ((*fields(0), FieldValue("scale", "float32", (1.0,))), ["has no field 'scale'"]),
    ],
)
def test_fields_are_strict(
    tmp_path: Path, library: Path, given: tuple[FieldValue, ...], words: list[str]
) -> None:
    with pytest.raises(ConversionError) as error:
        run(tmp_path, [library], fields=given)
    assert len(error.value.problems) == len(words)
    for problem, word in zip(error.value.problems, words, strict=True):
        assert word in problem.what
        assert "node 'identity1' (Identity), field " in problem.where


def test_field_that_the_creator_refuses(tmp_path: Path, library: Path) -> None:
    with pytest.raises(ConversionError) as error:
        run(tmp_path, [library], REFUSE)
    (problem,) = error.value.problems
    assert "refused the fields mode=[-1], scales=[1.0, 2.0]" in problem.what
    assert "node 'identity1' (Identity)" in problem.where


def test_plugin_that_no_library_has(tmp_path: Path, library: Path) -> None:
    with pytest.raises(ConversionError, match="No loaded library has the plugin") as error:
        run(tmp_path, [])
    assert "trtsmith_test::Identity" not in error.value.problems[0].expected
    with pytest.raises(ConversionError, match="Identity version 2") as error:
        run(tmp_path, [library], version="2")
    assert "trtsmith_test::Identity version 1" in error.value.problems[0].expected
    assert "--plugins" in error.value.problems[0].fix
    with pytest.raises(ConversionError, match="trtsmith::Identity") as error:
        run(tmp_path, [library], namespace="trtsmith")
    assert "TRTSMITH_LEAVE_OUT" in error.value.problems[0].fix


def test_plugin_without_formats(tmp_path: Path, library: Path) -> None:
    with pytest.raises(ConversionError, match="accepts none of the types"):
        run(tmp_path, [library], NO_FORMAT)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-DMISSING_SYMBOL"], "undefined symbol: trtsmith_test_nowhere"),
        (["-DNO_CREATORS"], "does not export getCreators or setLoggerFinder"),
    ],
)
def test_libraries_that_cannot_be_used(tmp_path: Path, options: list[str], words: str) -> None:
    broken = compile_library(tmp_path / "libbroken.so", options)
    with pytest.raises(UsageError, match=words) as error:
        run(tmp_path, [broken])
    assert "libbroken.so" in error.value.problems[0].where


def registering(target: Path, registers: str) -> Path:
    """The library with a function that registers its creator, linked with TensorRT-RTX as NVIDIA's own is."""
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    assert spec and spec.origin
    (rtx,) = Path(spec.origin).parent.glob("libtensorrt_rtx.so.*")
    linked = ["-Wl,--no-as-needed", f"-Wl,-rpath,{rtx.parent}", str(rtx)]
    return compile_library(target, ["-DNO_CREATORS", f"-DREGISTERS={registers}", *linked])


def test_function_that_registers_with_tensorrt(tmp_path: Path) -> None:
    """In a build; and the host finds in TensorRT's registry only what the function added."""
    plugins = registering(tmp_path / "libplugins.so", "true")
    assert run(tmp_path, [plugins]).plugin_layers == ("identity1",)
    (held,) = held_plugins([plugins])
    assert (held.how, [creator.name for creator in held.creators]) == (INIT_FUNCTIONS[1], ["Identity"])
    assert held.unloadable(RTX) is None
    problem = held.unloadable(TENSORRT)
    assert (
        problem
        and "register by initLibNvTensorRTRtxPlugins, and it is linked with libtensorrt_rtx" in problem.what
    )


def test_function_that_registers_nothing(tmp_path: Path) -> None:
    failing = registering(tmp_path / "libfailing.so", "false")
    with pytest.raises(UsageError, match="initLibNvTensorRTRtxPlugins of the library returned false"):
        run(tmp_path, [failing])
    with pytest.raises(UsageError, match="initLibNvTensorRTRtxPlugins returned false"):
        held_plugins([failing])


def test_library_that_is_none(tmp_path: Path) -> None:
    text = tmp_path / "libtext.so"
    text.write_text("words")
    with pytest.raises(UsageError, match=r"(?s)does not load.*libtext.so"):
        run(tmp_path, [text])


@pytest.mark.parametrize(("mode", "name"), [(ABORT, "SIGABRT"), (SEGFAULT, "SIGSEGV")])
def test_crash_names_node_and_signal(tmp_path: Path, library: Path, mode: int, name: str) -> None:
    wanted = request(tmp_path, [library], mode)
    wanted.engine_path.write_bytes(b"older engine")
    with pytest.raises(ConversionError) as error:
        build(wanted)
    (problem,) = error.value.problems
    assert name in problem.what
    assert "while parsing the model, last at node 'identity1' (Identity)" in problem.what
    assert "Successfully created plugin: Identity" in problem.what  # the log's tail
    assert os.listdir(wanted.engine_path.parent) == ["m.plan"]
    assert wanted.engine_path.read_bytes() == b"older engine"


def test_creator_that_ends_the_process(tmp_path: Path, library: Path) -> None:
    with pytest.raises(
        ConversionError, match=r"SIGABRT .*while creating the plugin of node 'identity1' \(Identity\)"
    ):
        build(request(tmp_path, [library], DIE))


def test_mistake_of_ours_is_not_blamed_on_tensorrt(tmp_path: Path, library: Path) -> None:
    given = (FieldValue("mode", "int128", (0,)), FieldValue("scales", "float32", (1.0,)))
    with pytest.raises(ConversionError, match=r"(?s)trtsmith failed: KeyError: 'int128'.*plugins.py, line"):
        run(tmp_path, [library], fields=given)


def test_timeout(tmp_path: Path, library: Path) -> None:
    before = children()
    for limit_s in (1, 5, 25):  # a busy machine takes longer to get as far as the plugin
        with pytest.raises(ConversionError, match=f"did not finish within {limit_s} s ") as error:
            build(request(tmp_path, [library], HANG, timeout_s=float(limit_s)))
        assert children() == before
        if "node 'identity1'" in str(error.value):
            return
    raise error.value


def test_child_that_is_killed(tmp_path: Path, library: Path) -> None:
    before = children()

    def kill(text: str) -> None:
        if text == "parsing the model":
            (child,) = children() - before
            os.kill(child, signal.SIGKILL)

    with pytest.raises(ConversionError, match=r"SIGKILL.*out of memory"):
        build(request(tmp_path, [library], HANG, timeout_s=60.0), kill)
    assert children() == before


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.usefixtures("default_signals")
def test_child_ends_with_its_parent(
    tmp_path: Path, library: Path, start: Callable[..., subprocess.Popen[str]], ending: signal.Signals
) -> None:
    """Ctrl-C ends the child and leaves no file; the parent's death leaves only its temporary folder."""
    wanted = request(tmp_path, [library], HANG)
    (tmp_path / "request.json").write_text(wanted.to_text())
    code = (
        "import sys; from pathlib import Path; from trtsmith.converter.engine.builder.build import build; "
        "from trtsmith.converter.engine.builder.build_request import BuildRequest; "
        "build(BuildRequest.from_json(Path(sys.argv[1]).read_text()), lambda text: print(text, flush=True))"
    )
    parent = start(
        [sys.executable, "-c", code, str(tmp_path / "request.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=checkout_environment(TMPDIR=tmp_path),
    )
    assert parent.stdout is not None
    with parent.stdout as lines:
        assert any(line.strip() == "parsing the model" for line in lines)
        (child,) = children_of(parent)
        parent.send_signal(ending)
        parent.wait(timeout=120)
    assert has_ended(child)
    assert os.listdir(wanted.engine_path.parent) == []
    if ending == signal.SIGINT:
        assert list(tmp_path.glob("trtsmith-child-*")) == []
