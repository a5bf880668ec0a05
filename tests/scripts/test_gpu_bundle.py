"""Bundles in small chunks: packing and restoring, one chunk at a time, and every refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import gpu_bundle
from gpubundle import contents
from gpubundle.chunks import INDEX, BundleError, collect, pack, read_index, restore
from gpubundle.skeleton import fill, strip
from gpubundle.unpack import RTX_PARSER, exports, unpack, with_bundle
from trtsmith.converter.engine import libraries

CHUNK = 1000


def written_wheel(path: Path, files: dict[str, str]) -> Path:
    """A wheel as pip installs it."""
    name, version = path.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in archive.namelist()))
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """One with a module that says 42."""
    path = tmp_path / "tensorrt_rtx_pretended-1.0-py3-none-any.whl"
    return written_wheel(path, {"pretended.py": "ANSWER = 42\n"})


@pytest.fixture
def files(tmp_path: Path, wheel: Path) -> dict[str, Path]:
    noise = tmp_path / "noise.bin"
    noise.write_bytes(np.random.default_rng(0).bytes(3500))
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    return {f"wheels/{wheel.name}": wheel, "lib/noise.bin": noise, "models/empty": empty}


@pytest.fixture
def chunks(tmp_path: Path, files: dict[str, Path]) -> list[Path]:
    made = pack(files, tmp_path / "chunks", CHUNK)
    assert len(made) > 3
    return made


def test_chunks_are_small_and_give_the_files_back(
    tmp_path: Path, files: dict[str, Path], chunks: list[Path]
) -> None:
    for chunk in chunks:
        assert sorted(path.name for path in chunk.iterdir()) == [INDEX, f"part-{chunks.index(chunk) + 1:03d}"]
        assert max(path.stat().st_size for path in chunk.glob("part-*")) <= CHUNK
    parts, missing = collect(chunks, tmp_path / "store")
    assert missing == []
    restore(parts, tmp_path / "store", tmp_path / "out")
    for path, source in files.items():
        assert (tmp_path / "out" / path).read_bytes() == source.read_bytes()


def test_unpack_takes_chunks_one_by_one_and_installs_at_the_last(tmp_path: Path, chunks: list[Path]) -> None:
    target = tmp_path / "target"
    order = [chunks[-1], *chunks[:-1]]
    for number, chunk in enumerate(order, 1):
        assert len(unpack([chunk], target)) == len(chunks) - number
        assert (target / "site").exists() == (number == len(chunks))
    environment = with_bundle(target, {"PYTHONPATH": "/before", "HOME": "/home"})
    assert environment["PYTHONPATH"] == f"{target}/site:/before"
    assert environment["TRTSMITH_LIBRARY_DIR"] == str(target / "lib") and environment["HOME"] == "/home"
    said = subprocess.run(
        [sys.executable, "-c", "import pretended; print(pretended.ANSWER)"],
        env={"PYTHONPATH": environment["PYTHONPATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "42\n"
    before = (target / "site" / "pretended.py").stat().st_mtime_ns
    assert unpack(chunks, target) == []
    assert (target / "site" / "pretended.py").stat().st_mtime_ns == before


def test_exports_are_lines_for_a_shell(tmp_path: Path) -> None:
    script = f"{exports(tmp_path)}\necho $PYTHONPATH $LD_LIBRARY_PATH"
    said = subprocess.run(
        ["sh", "-c", script], env={"PYTHONPATH": "/a"}, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{tmp_path}/site:/a {tmp_path}/lib\n"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_part_is_refused_and_leaves_nothing(tmp_path: Path, chunks: list[Path]) -> None:
    flip(chunks[1] / "part-002")
    with pytest.raises(BundleError, match="damaged: it has another SHA-256") as refused:
        unpack(chunks, tmp_path / "target")
    assert str(chunks[1] / "part-002") in refused.value.problem.where
    assert not (tmp_path / "target" / "site").exists()
    assert sorted(path.name for path in (tmp_path / "target" / "parts").iterdir()) == [INDEX, "part-001"]


def test_a_shortened_part_is_refused(tmp_path: Path, chunks: list[Path]) -> None:
    (chunks[0] / "part-001").write_bytes((chunks[0] / "part-001").read_bytes()[:-1])
    with pytest.raises(BundleError, match="has 999 bytes instead of 1000"):
        unpack(chunks, tmp_path / "target")


def test_chunks_of_two_bundles_do_not_mix(tmp_path: Path, files: dict[str, Path], chunks: list[Path]) -> None:
    other = pack({"lib/noise.bin": files["lib/noise.bin"]}, tmp_path / "other", CHUNK)
    unpack(chunks[:1], tmp_path / "target")
    with pytest.raises(BundleError, match="another bundle"):
        unpack(other[:1], tmp_path / "target")


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": 2}', '{"parts": [1]}', '{"parts": [{"name": "../x", "size": 1, "sha256": ""}]}'],
)
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(BundleError, match="cannot be read"):
        read_index(tmp_path / INDEX)


def test_a_file_that_leads_elsewhere_is_refused(tmp_path: Path, files: dict[str, Path]) -> None:
    chunks = pack({"lib/../../evil": files["lib/noise.bin"]}, tmp_path / "chunks", CHUNK)
    with pytest.raises(BundleError, match=r"not what was packed.*outside the destination"):
        unpack(chunks, tmp_path / "target")
    assert not (tmp_path / "evil").exists() and not (tmp_path / "target" / "site").exists()


def test_another_archive_than_packed_is_refused(tmp_path: Path, chunks: list[Path]) -> None:
    parts, _ = collect(chunks, tmp_path / "store")
    flip(tmp_path / "store" / "part-002")
    with pytest.raises(BundleError, match="not what was packed"):
        restore(parts, tmp_path / "store", tmp_path / "out")


def test_the_command_tells_what_is_missing_and_what_is_wrong(
    chunks: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "target")
    assert gpu_bundle.main(["unpack", str(chunks[0]), "--to", target]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "still missing: part-002" in said.err
    flip(chunks[1] / "part-002")
    assert gpu_bundle.main(["unpack", str(chunks[1]), "--to", target]) == 2
    assert "fix:      copy the chunk again" in capsys.readouterr().err
    assert gpu_bundle.main(["unpack", str(tmp_path / "none"), "--to", target]) == 2


def test_unpacking_needs_the_standard_library_alone(tmp_path: Path, chunks: list[Path]) -> None:
    """-I -S: no site-packages."""
    script = Path(gpu_bundle.__file__)
    command = [sys.executable, "-I", "-S", str(script), "unpack", str(chunks[0]), "--to", str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "still missing" in done.stderr, done.stderr


def test_wheels_are_found_in_folders_and_kept_whole(tmp_path: Path, wheel: Path) -> None:
    assert contents.find_wheel("tensorrt-rtx-pretended==1.0", [tmp_path], tmp_path / "none") == wheel
    stored = contents.stored(wheel, tmp_path / "stored.whl")
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(stored) as after:
        assert before.namelist() == after.namelist()
        assert all(before.read(name) == after.read(name) for name in before.namelist())
        assert all(item.compress_type == zipfile.ZIP_STORED for item in after.infolist())


def model_with(weight: np.ndarray, small: np.ndarray) -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "layer.weight"], ["y"])]
    x = helper.make_tensor_value_info("x", 1, ["n", weight.shape[0]])
    y = helper.make_tensor_value_info("y", 1, None)
    initializers = [numpy_helper.from_array(weight, "layer.weight"), numpy_helper.from_array(small, "small")]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], initializers))


def test_skeletons_lose_the_modules_weights_and_get_those_of_another() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((40, 40), dtype=np.float32)
    small = rng.standard_normal(3, dtype=np.float32)
    whole = model_with(weight, small)
    skeleton = strip(whole, {"layer.weight": weight, "small": small})
    assert skeleton.ByteSize() < weight.nbytes
    assert fill(skeleton, {"layer.weight": weight, "small": small}).graph == whole.graph
    other = fill(skeleton, {"layer.weight": 2 * weight, "small": small + 1})
    for tensor, expected in zip(other.graph.initializer, (2 * weight, small + 1), strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), expected)
    with pytest.raises(ValueError, match=r"no weight 'layer\.weight' of shape \[40, 40\]"):
        fill(skeleton, {"layer.weight": weight[:1]})
    kept = strip(whole, {"layer.weight": weight + 1})
    assert kept == whole  # not the module's own: it stays


def test_a_chunk_folder_of_before_is_replaced(
    tmp_path: Path, files: dict[str, Path], chunks: list[Path]
) -> None:
    again = pack({"models/empty": files["models/empty"]}, chunks[0].parent, CHUNK)
    assert sorted(path.name for path in chunks[0].parent.iterdir()) == ["chunk-1"]
    assert again == [chunks[0]]
    shutil.rmtree(chunks[0].parent)


def test_the_rig_takes_the_place_of_the_parser(tmp_path: Path) -> None:
    files = {
        "tensorrt_rtx/__init__.py": "class OnnxParser:\n    num_errors = 0\n",
        f"tensorrt_rtx_libs/{RTX_PARSER}": "older",
    }
    package = written_wheel(tmp_path / "tensorrt_rtx_cu13-1.0-py3-none-any.whl", files)
    newer = tmp_path / RTX_PARSER
    newer.write_text("newer")
    target = tmp_path / "target"
    packed = pack({f"wheels/{package.name}": package, f"rig/{RTX_PARSER}": newer}, tmp_path / "c", CHUNK)
    assert unpack(packed, target) == []
    assert (target / "site" / "tensorrt_rtx_libs" / RTX_PARSER).read_text() == "newer"
    said = subprocess.run(
        [sys.executable, "-c", "import tensorrt_rtx; print(tensorrt_rtx.OnnxParser.__mro__)"],
        env=with_bundle(target, {"PYTHONPATH": os.pathsep.join(sys.path)}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RigParser" in said.stdout and "tensorrt_rtx.OnnxParser" in said.stdout


def test_a_folder_of_files_travels_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = tmp_path / "sent"
    (sent / "net").mkdir(parents=True)
    (sent / "net/net.onnx").write_bytes(b"graph")
    to = str(tmp_path / "chunks")
    assert gpu_bundle.main(["pack", "--files", str(sent), "--to", to]) == 0
    assert unpack([tmp_path / "chunks/chunk-1"], tmp_path / "there") == []
    assert (tmp_path / "there/net/net.onnx").read_bytes() == b"graph"
    assert gpu_bundle.main(["pack", "--files", str(tmp_path / "nowhere"), "--to", to]) == 2
    said = capsys.readouterr().err
    assert "There is nothing to pack." in said and "nowhere" in said


def test_libraries_without_machine_code_for_the_gpus_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PTX of another GPU would run there, and other kernels would be measured."""
    (tmp_path / "libtrtsmith_plugins.so").touch()
    for built, refused in (("86-real 86", True), ("86-real 90a-real 90", False)):
        monkeypatch.setattr(libraries, "manifest", lambda path, built=built: {"cuda_architectures": built})
        expected: Any = (
            pytest.raises(BundleError, match=f"compiled for {built}") if refused else nullcontext()
        )
        with expected:
            assert contents.library_folder({"TRTSMITH_LIBRARY_DIR": str(tmp_path)}) == tmp_path


def test_a_bundle_without_models(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For scripts that export their networks on the spot: neither references nor a broken library are made."""
    monkeypatch.setattr(contents, "find_wheel", lambda wanted, folders, downloads: wheel)
    monkeypatch.setattr(contents, "_parser_library", lambda folders, work: wheel)
    for name in contents.LIBRARIES:
        (tmp_path / name).write_bytes(b"library")
    work = tmp_path / "work"
    work.mkdir()
    files = contents.gather([], tmp_path, work, models=False)
    assert {Path(path).parts[0] for path in files} == {"wheels", "rig", "lib"}
