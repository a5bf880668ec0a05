"""Commands on good input: stdout, stderr and exit code together."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.converter.cli.commands.running import COMMAND, CONTROL, Cli, Ran, refused, shell, snapshot
from tests.converter.cli.terminal.screen import convolutions
from tests.converter.models import attention, convolution, inverse, relu, written
from tests.converter.plugin import fixtures
from tests.processes import checkout_environment
from trtsmith.converter.base.errors import EXIT_DISAGREE
from trtsmith.converter.cli import main
from trtsmith.converter.cli.commands import check, doctor
from trtsmith.converter.engine import libraries
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.importers.opdef import TYPE_VARIABLES
from trtsmith.importers.registry import OPS


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    inverse(here / "m.onnx")
    return here


CHECKED = """\
nodes  operator                route   how
1      Neg                     native  imported by TensorRT's ONNX parser
1      com.microsoft::Inverse  plugin  plugin trtsmith::MatrixInverse version 1
1 native, 1 plugin; every node has a route; building was not tried (--build)
"""


def test_check(cli: Cli) -> None:
    assert cli("check m.onnx") == Ran(0, CHECKED, "")
    assert cli("check m.onnx -q") == Ran(0, CHECKED, "")
    assert cli("check m.onnx -v").out == (
        "node  operator                route   how\n"
        "neg   Neg                     native  imported by TensorRT's ONNX parser\n"
        "inv   com.microsoft::Inverse  plugin  plugin trtsmith::MatrixInverse version 1\n"
        "1 native, 1 plugin; every node has a route; building was not tried (--build)\n"
    )


def test_check_of_a_model_that_is_not_convertible(cli: Cli) -> None:
    written(Path("u.onnx"), "(float[1] x) => (float[] y) { [f] y = bar.Foo (x) }")
    assert cli("check u.onnx") == Ran(
        1,
        "nodes  operator  route        how\n"
        "1      bar::Foo  unsupported  no importer for operator bar::Foo\n"
        "1 unsupported; not convertible: 1 problem\n",
        "error: no importer for operator bar::Foo\n"
        "  where:    node 'f' (bar::Foo)\n"
        "  expected: an operator that TensorRT's ONNX parser imports, or one that `trtsmith ops` lists\n"
        "  fix:      write one of your own, from `trtsmith op new Foo --domain bar --from-model u.onnx --node f`; or name "
        "a package that has it with --ops, or a library with --plugins\n",
    )


def test_check_as_json(cli: Cli, folder: Path) -> None:
    ran = cli("check m.onnx --json --report r.json")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert json.loads((folder / "r.json").read_text()) == document
    assert (document["convertible"], document["routes"], document["problems"]) == (
        True,
        {"native": 1, "plugin": 1},
        [],
    )
    assert document["nodes"][1] == {
        "name": "inv", "op_type": "com.microsoft::Inverse", "route": "plugin",
        "how": "plugin trtsmith::MatrixInverse version 1", "foreign": False,
    }  # fmt: skip
    assert document["plugins"][0]["name"] == "MatrixInverse" and document["rewrites"][0]["node"] == "inv"
    convolution(Path("bad.onnx"), foo=1)
    ran = cli("check bad.onnx --json")
    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out)["problems"][0]["what"] == "unknown attribute 'foo' = 1"


def test_check_with_a_library_of_others(cli: Cli) -> None:
    def model(field: str = "") -> None:
        written(
            Path("f.onnx"), f"(float[2,2] x) => (float[2,2] y) {{ y = theirs.MatrixInverse {field} (x) }}"
        )

    library = libraries.plugin_library()
    model()
    assert cli("check f.onnx").code == 1
    ran = cli("check f.onnx --plugins", library)
    assert ran.code == 1 and 'plugin_namespace="trtsmith"' in ran.err  # TensorRT would not find it either
    model('<plugin_namespace = "trtsmith">')
    ran = cli("check f.onnx --plugins", library)
    assert ran.code == 0 and f"plugin trtsmith::MatrixInverse version 1 of {library}" in ran.out


@pytest.mark.parametrize(("flavour", "route"), [("tensorrt", "native"), ("tensorrt_rtx", "plugin")], ids=str)
def test_check_and_rewrite_for_a_flavour(cli: Cli, flavour: str, route: str) -> None:
    """TensorRT has a layer for NonZero, TensorRT-RTX none."""
    written(Path("n.onnx"), "(float[2,3] x) => (int64[] y) { y = NonZero (x) }")
    ran = cli("check n.onnx --flavour", flavour)
    assert ran.code == 0 and f"1 {route}; every node has a route" in ran.out
    assert cli("rewrite n.onnx -o r.onnx --flavour", flavour).code == 0
    kinds = {n.op_type for n in onnx.load("r.onnx").graph.node}
    assert ("NonZeroPositions" in kinds) is (route == "plugin")


CONVERTED = r"""engine:   e\.plan \(\d+\.\d MiB, tensorrt_rtx [\d.]+, sm86\)
plugins:  libtrtsmith_plugins\.so
manifest: e\.manifest\.json
nodes:    1 native, 1 plugin
verdict: agree \(graph only\): largest relative error \d\.\de-\d\d \(inputs: generated\)
output +shape +relative +max +mean +p99 +cosine +worst at
y +2x4x4 +[-+.e\d ]+ \d,\d,\d: -?[.e\d-]+, expected -?[.e\d-]+ +agrees
input x: matrices near a multiple of the identity, because Inverse 'inv' reads matrices that can be inverted
the graph from which the engine is built was run in onnxruntime; the engine itself was not run: --verify graph
"""


def test_convert(cli: Cli, folder: Path) -> None:
    ran = cli("convert m.onnx -o e.plan -q --report r.json --target SM86,sm86 --verify graph")  # fmt: skip
    assert (ran.code, ran.err) == (0, "") and re.fullmatch(CONVERTED, ran.out), ran.out
    manifest = json.loads((folder / "e.manifest.json").read_text())
    files = {
        name: "sha256:" + hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in manifest["files"]
    }
    assert manifest["files"] == files and set(files) == {"e.plan", "libtrtsmith_plugins.so"}
    assert manifest["plugins"] == ["trtsmith::MatrixInverse version 1"] and manifest["targets"] == ["sm86"]
    assert manifest["verdict"]["status"] == "agree" and manifest["verdict"]["engine_run"] is False
    report = json.loads((folder / "r.json").read_text())
    assert report["converted"] is True and report["engine"]["engine_path"] == "e.plan"
    assert set(report["seconds"]) == {"load", "rewrite and plan", "build", "verify", "bundle"}
    assert set(os.listdir()) == {"m.onnx", "e.plan", "e.manifest.json", "libtrtsmith_plugins.so", "r.json"}


def test_progress_of_convert(cli: Cli) -> None:
    short = cli("convert m.onnx -o e.plan --no-verify")
    lines = [line.strip() for line in short.err.splitlines()]
    assert [line for line in lines if line.startswith(("load:", "rewrite and plan:", "build:", "bundle:"))]
    assert "building the engine" in lines and "Building engine (6 steps)" in lines
    assert len(lines) == len(set(lines)) and sum("/6)" in line for line in lines) <= 1
    assert short.out.endswith("verdict: not asked for (--no-verify)\n")
    full = cli("convert m.onnx -o e.plan --no-verify -v")
    assert "  TensorRT: " in full.err and "Producer name" not in full.err
    assert len(full.err.splitlines()) < 40


def test_dry_run_is_check(cli: Cli, folder: Path) -> None:
    assert cli("convert m.onnx -o e.plan --dry-run") == Ran(0, CHECKED, "")
    assert os.listdir() == ["m.onnx"]
    ran = cli("convert m.onnx -o e.plan --dry-run --report r.json -v")
    assert ran.code == 0 and json.loads((folder / "r.json").read_text())["convertible"] is True


def test_outputs_that_disagree(cli: Cli, folder: Path) -> None:
    x = np.eye(4, dtype=np.float32) * np.ones((2, 1, 1), np.float32) * 2
    np.savez("x.npz", x=x)
    np.savez("y.npz", y=-x / 4)
    convert = "convert m.onnx -o e.plan -q --inputs x.npz --expected y.npz"
    ran = cli(convert)
    assert ran.code == 0 and "(inputs: x.npz, outputs expected: y.npz)" in ran.out
    np.savez("y.npz", y=x)
    ran = cli(f"{convert} --report r.json")
    assert ran.code == EXIT_DISAGREE
    assert "verdict: disagree (graph only): y: relative error 1.2e+00, allowed 0.0001" in ran.out
    report = json.loads((folder / "r.json").read_text())
    assert report["verdict"]["status"] == "disagree" and (folder / "e.plan").is_file()
    assert cli(f"{convert} --atol y:100").code == 0


def test_report_of_a_failure(cli: Cli, folder: Path) -> None:
    convolution(Path("bad.onnx"), foo=1)
    refused(cli("convert bad.onnx -o e.plan --report r.json"), 1)
    report = json.loads((folder / "r.json").read_text())
    assert report["converted"] is False and report["problems"][0]["what"] == "unknown attribute 'foo' = 1"
    assert not (folder / "e.plan").exists()


def test_dynamic_model_with_options(cli: Cli, folder: Path) -> None:
    inverse(Path("d.onnx"), ("n", 4, 4))
    ran = cli(
        "convert d.onnx -o e.plan -q --minShapes x:1x4x4 --optShapes x:2x4x4 --maxShapes x:8x4x4 --target sm86,sm89 "
        "--workspace 64 --optimization-level 1 --timing-cache cache --timeout 300 --embed-plugins"
    )
    assert ran.code == 0 and ", sm86, sm89)" in ran.out, ran
    assert json.loads((folder / "e.manifest.json").read_text())["inputs"][0]["shape"] == [-1, 4, 4]
    assert (folder / "cache").stat().st_size > 0
    assert (folder / "e.plan").stat().st_size > libraries.plugin_library().stat().st_size


@pytest.mark.parametrize("make", [inverse, convolution, attention])
def test_rewrite_expanded_runs_in_plain_onnxruntime(make: object, cli: Cli, folder: Path) -> None:
    make(Path("in.onnx"))  # type: ignore[operator]
    ran = cli("rewrite in.onnx -o out.onnx --expand -q")
    assert ran == Ran(0, "out.onnx: 1 node rewritten\n", "")
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for spec in session.get_inputs():
        feeds[spec.name] = rng.uniform(size=spec.shape).astype(np.float32)
    if make is attention:
        feeds |= {"shapes": np.array([[5, 7], [3, 2]]), "starts": np.array([0, 35])}
    (y,) = session.run(["y"], feeds)
    assert np.isfinite(y).all() and np.abs(y).max() > 0
    if make is inverse:
        np.testing.assert_allclose(y, np.linalg.inv(-feeds["x"]), rtol=1e-2, atol=1e-3)


def test_rewrite(cli: Cli, folder: Path) -> None:
    ran = cli("rewrite m.onnx -o out.onnx")
    assert ran == Ran(
        0,
        "out.onnx: 1 node rewritten\n",
        "  inv (com.microsoft::Inverse): plugin MatrixInverse, an alias of onnxruntime contrib\n",
    )
    assert [(n.op_type, n.domain) for n in onnx.load("out.onnx").graph.node] == [
        ("Neg", ""),
        ("MatrixInverse", "trtsmith"),
    ]
    (folder / "out.onnx").unlink()
    convolution(Path("bad.onnx"), foo=1)
    before = snapshot(folder)
    refused(cli("rewrite bad.onnx -o out.onnx"), 1, "unknown attribute 'foo'")
    assert snapshot(folder) == before


def test_rewrite_of_what_needs_nothing(cli: Cli, folder: Path) -> None:
    relu(Path("r.onnx"))
    assert cli("rewrite r.onnx -o out.onnx") == Ran(0, "out.onnx: 0 nodes rewritten\n", "")
    written(Path("nz.onnx"), "(float[3] x) => (int64[1,n] y) { y = NonZero (x) }")
    ran = cli("rewrite nz.onnx -o provider.onnx --for onnxruntime")
    assert "# TensorRT runs NonZero. CUDA may be faster: the option 'trt_op_types_to_exclude'" in ran.out
    assert "provider.onnx: 0 nodes rewritten: TensorRT's ONNX parser imports every node as it is\n" in ran.out
    assert "node rewritten\n" in cli("rewrite m.onnx -o provider.onnx --for ort --force").out
    before, after = onnx.load("r.onnx"), onnx.load("out.onnx")
    assert list(after.graph.node) == list(before.graph.node) and after.opset_import == before.opset_import


def test_rewrite_for_v2_plugins(cli: Cli) -> None:
    attention(Path("in.onnx"))
    assert cli("rewrite in.onnx -o out.onnx --plugin-v2").code == 0
    nodes = onnx.load("out.onnx").graph.node
    assert [n.op_type for n in nodes] == ["Cast", "Cast", "MultiscaleDeformableAttention"]
    attributes = {a.name: a for a in nodes[-1].attribute}
    assert attributes["plugin_version"].type == onnx.AttributeProto.STRING
    assert (attributes["plugin_version"].s, attributes["plugin_namespace"].s) == (b"1", b"trtsmith")


def test_names_from_the_file_cannot_speak_to_the_terminal(cli: Cli) -> None:
    evil = "e\x1b]0;t\x07\nerror: fake"
    inverse(Path("evil.onnx"), name=evil)
    for command in ("check evil.onnx -v", "rewrite evil.onnx -o o.onnx", "convert evil.onnx -o e.plan"):
        ran = cli(command)
        assert ran.code == 0 and not CONTROL.search(ran.out + ran.err)
        assert "\nerror: fake" not in f"\n{ran.out}\n{ran.err}"
    assert json.loads(cli("check evil.onnx --json").out)["nodes"][1]["name"] == evil


def test_ops(cli: Cli) -> None:
    ran = cli("ops")
    assert (ran.code, ran.err) == (0, "")
    rows = ran.out.splitlines()
    assert rows[0].split() == ["operator", "plugins", "dtypes", "alias", "opsets", "defined", "by"]
    first = {row.split()[0]: row.split() for row in rows[1:-2] if row[0] != " "}
    assert list(first) == [op.name for op in OPS]
    for op in OPS:
        shown = " ".join(first[op.name])
        assert f"{op.name} {' '.join(op.interfaces)} {' '.join(TYPE_VARIABLES[op.key])} " in shown
        assert any(row.split()[:1] == [op.onnx] for row in rows) is bool(op.onnx)
        for alias in op.aliases:
            assert any(alias.op_type in row for row in rows)
    document = json.loads(cli("ops --json").out)
    assert [entry["name"] for entry in document] == [op.name for op in OPS]
    assert [entry["name"] for entry in document if "V2" not in entry["interfaces"]] == [
        op.name for op in OPS if op.data_dependent
    ]
    for op, entry in zip(OPS, document, strict=True):
        assert entry["onnx"] == (op.onnx or None)
        assert [port["name"] for port in entry["outputs"] if port["size"]] == [port.name for port in op.sizes]
    aliases = {s["alias"] for entry in document for s in entry["aliases"]}
    assert {"com.microsoft::Inverse", "InverseTRT", "mmdeploy::MMCVModulatedDeformConv2d"} <= aliases


@pytest.mark.parametrize(
    "name", ["MatrixInverse", "trtsmith::MatrixInverse", "inversetrt", "com.microsoft::Inverse"]
)
def test_one_operator_is_shown_by_any_of_its_names(name: str, cli: Cli) -> None:
    (op,) = (op for op in OPS if op.name == "MatrixInverse")
    ran = cli("ops", name)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"MatrixInverse: {op.doc}"
    shown = [line.split()[:2] for line in lines[2 : 2 + len(op.inputs) + len(op.outputs) + len(op.fields)]]
    assert shown == [
        *(["input", port.name] for port in op.inputs),
        *(["output", port.name] for port in op.outputs),
        *(["field", field.name] for field in op.fields),
    ]
    assert "com.microsoft::Inverse" in ran.out and "NonMaxSuppression" not in ran.out
    assert [entry["name"] for entry in json.loads(cli("ops", name, "--json").out)] == ["MatrixInverse"]


def test_an_operator_that_is_none_of_ours(cli: Cli) -> None:
    refused(cli("ops MatrixInvers"), 2, "no operator of this name", "fix:      trtsmith ops MatrixInverse\n")
    refused(cli("ops Einsum"), 2, "those that TensorRT imports itself are none", "trtsmith check MODEL")
    refused(cli("ops --stock MatrixInverse"), 2, "--stock lists all plugins")


def test_plugin_path_and_list(cli: Cli) -> None:
    assert cli("plugin path") == Ran(0, f"{libraries.plugin_library()}\n", "")
    assert cli("plugin path --v2").out == f"{libraries.plugin_library_v2()}\n"
    ran = cli("plugin list", libraries.plugin_library(), "--json")
    assert {c["name"] for c in json.loads(ran.out)["creators"]} == {op.name for op in OPS}
    ran = cli("plugin list", fixtures.library("init_functions"), "--init", "initInNamespace")
    assert "1 creator through initInNamespace\n  acme::RepeatDynamicExt0 version 1" in ran.out
    for action in ("list", "inspect"):
        ran = cli("plugin", action, libraries.plugin_library_v2())
        assert ran.code == 0
        assert [op.name for op in OPS if op.name not in ran.out] == [
            op.name for op in OPS if op.data_dependent
        ]


def test_doctor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = cli("doctor")
    assert (ran.code, ran.err) == (0, "") and "ok      tensorrt_rtx" in ran.out
    assert f"V2DynamicExt, {sum(not op.data_dependent for op in OPS)} operators" in ran.out
    found = json.loads(cli("doctor --json").out)
    assert {entry["what"] for entry in found} >= {"trtsmith", "python", "onnx", "gpu", "trtsmith_host"}
    monkeypatch.setattr(doctor, "find_gpu", lambda: Gpu("NVIDIA H200", (9, 0)))
    ran = cli("doctor")
    assert re.search(r"^ok +cuda-core +\d[\s\S]*^ok +running engines", ran.out, re.M)
    monkeypatch.setitem(sys.modules, "cuda.core", None)  # not to be imported
    monkeypatch.setattr(doctor, "find_gpu", lambda: None)
    ran = cli("doctor")
    assert ran.code == 0  # converting needs none of it
    assert re.search(
        r"^absent +running engines .*missing: GPU, cuda-core +fix: pip install .cuda-core", ran.out, re.M
    )
    monkeypatch.setattr(doctor, "installed_flavours", tuple)
    ran = cli("doctor")
    assert "missing: GPU, TensorRT, cuda-core" in ran.out
    assert ran.code == 2 and re.search(r"^missing +tensorrt .*pip install tensorrt-rtx", ran.out, re.M)


def test_doctor_tells_what_nothing_works_without_from_what_is_optional(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    version = doctor.metadata.version

    def installed(package: str) -> str:
        if package in ("onnxruntime", "polygraphy"):
            raise doctor.metadata.PackageNotFoundError(package)
        return version(package)

    with monkeypatch.context() as without:
        without.setattr(doctor.metadata, "version", installed)
        ran = cli("doctor")
    assert ran.code == 2 and re.search(r"^missing +onnxruntime .*pip install onnxruntime", ran.out, re.M)
    assert re.search(r"^absent +polygraphy ", ran.out, re.M)
    (folder / "libraries").mkdir()
    monkeypatch.setenv("TRTSMITH_LIBRARY_DIR", str(folder / "libraries"))
    (folder / "libraries" / "libtrtsmith_host.so").write_bytes(b"no library")
    ran = cli("doctor")
    assert ran.code == 2 and re.search(r"^missing +trtsmith_plugins .*is missing +fix: ", ran.out, re.M)
    assert re.search(r"^absent +trtsmith_plugins_v2 ", ran.out, re.M)
    assert re.search(r"^missing +trtsmith_host +cannot be loaded: ", ran.out, re.M)


def test_no_tensorrt(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtsmith.converter.engine.builder.flavour.installed_flavours", tuple)
    before = snapshot(folder)
    refused(cli("convert m.onnx -o e.plan"), 2, "pip install tensorrt-rtx")
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("heard", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143), (None, 130)], ids=str
)
@pytest.mark.parametrize("where", ["build_parser", "show"])
def test_a_signal_while_a_module_is_imported_or_a_command_runs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, heard: BaseException | None, code: int, where: str
) -> None:
    """From a library in C that is imported meanwhile, pybind11 raises an error of its own."""

    def interrupted(*arguments: object, **options: object) -> int:
        if heard is None:
            raise KeyboardInterrupt
        raise ImportError("initialization failed") from heard

    monkeypatch.setattr(main if where == "build_parser" else check, where, interrupted)
    assert cli("check m.onnx") == Ran(code, "", "interrupted\n" if code == 130 else "")


def test_mistakes_of_ours_are_messages_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> int:
        raise KeyError("a\x1bname")

    monkeypatch.setattr(check, "show", fail)
    refused(cli("check m.onnx"), 1, "internal error: KeyError", "test_commands.py, line ", "with -v")
    ran = cli("check m.onnx -v")
    assert ran.code == 1 and "Traceback (most recent call last)" in ran.err and "KeyError" in ran.err


def test_as_a_process(folder: Path) -> None:
    assert shell(f"{COMMAND} check m.onnx") == Ran(0, CHECKED, "")
    refused(shell(f"{COMMAND} check none.onnx"), 2, "does not exist")
    ran = shell(f"{COMMAND} --version")
    assert ran.code == 0 and re.fullmatch(r"trtsmith \S+\n", ran.out)
    # neither the user's folder nor an ASCII terminal stands in the way
    (folder / "json.py").write_text("raise SystemExit(9)")
    name = os.fsdecode(b"\xff\xc3\xbc.plan")
    ran = shell(f"PYTHONIOENCODING=ascii:strict PYTHONSAFEPATH=1 {COMMAND} convert m.onnx -q -o '{name}'")
    assert ran.code == 0 and r"\udcff" in ran.out and (folder / name).is_file()


def test_reader_that_goes_away() -> None:
    ran = shell(f"{COMMAND} ops | head -n 1; echo ${{PIPESTATUS[0]}}")
    first, code = ran.out.splitlines()
    assert first.strip() and code in ("0", "141") and ran.err == ""
    refused(shell(f"{COMMAND} ops > /dev/full"), 2, "No space left on device", "standard output")


@pytest.mark.parametrize(
    ("number", "code", "last"), [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, ""), (signal.SIGHUP, 129, "")]
)  # fmt: skip
@pytest.mark.usefixtures("default_signals")
def test_signals_during_a_build_leave_nothing(
    folder: Path, start: Callable[..., subprocess.Popen[str]], number: int, code: int, last: str
) -> None:
    """Ended as soon as TensorRT is at work: no engine, no temporary file, no child."""
    convolutions(Path("big.onnx"), 150, 64)
    (folder / "tmp").mkdir()
    before = snapshot(folder)
    command = [sys.executable, "-m", "trtsmith", "convert", "big.onnx", "-o", "e.plan", "--no-verify"]
    child = start(command, env=checkout_environment(TMPDIR=folder / "tmp"), stderr=subprocess.PIPE)
    assert child.stderr is not None
    for line in child.stderr:
        if "building the engine" in line:
            break
    child.send_signal(number)
    rest = child.stderr.read()  # ends when the build's own process is gone as well
    assert child.wait(timeout=120) == code
    assert rest.endswith(last) and "Traceback" not in rest
    after = snapshot(folder)
    after.pop("tmp/.ses", None)  # onnxruntime's own
    assert after == before


@pytest.mark.parametrize("command", ["check m.onnx", "rewrite m.onnx -o out.onnx"])
def test_a_note_of_many_nodes_is_one_line(command: str, cli: Cli) -> None:
    layer = "m{0} = MatMul (x{0}, w) p{0} = Add (m{0}, b) a{0} = Relu (p{0}) x{1} = Mul (x{0}, a{0})"
    body = " ".join(layer.format(i, i + 1) for i in range(3))
    weights = "<float[2,2] w = {1, 2, 3, 4}, float[2] b = {1, 2}>"
    written(Path("m.onnx"), f"(float[2,2] x0) => (float[2,2] x3) {weights} {{ {body} }}")
    counts = []
    for flags in ("", " -v"):
        ran = cli(command + flags)
        told = ran.out + ran.err
        counts.append((ran.code, told.count(" and 2 more: TensorRT"), told.count("note: ")))
    assert counts == [(0, 1, 1), (0, 0, 3)]
