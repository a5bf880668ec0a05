"""The deciding parts of the set-up: finders on fake trees, refusals, stamps, explanations."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import cmake
import pytest

import check_wheel
from check_wheel import SDK, contents_problem, gpus_of
from envsetup import ROOT, native
from envsetup.steps import Stamps, digest
from trtsmith.converter.compile import headers, nvcc
from trtsmith.converter.compile.host_compiler import jobs, require_host_compiler
from trtsmith.converter.compile.logged import SetupError, explain_failure, run_logged
from trtsmith.converter.engine.libraries import manifest

FAKE_NVCC = """#!/bin/sh
case "$*" in
*--version*) echo "Cuda compilation tools, release {version}, V{version}.1" ;;
*--dryrun*) echo "#$ TOP={root}/bin/.." >&2 ;;
*) echo "nvcc fatal   : {message}" >&2; exit {code} ;;
esac
"""


def make_nvcc(root: Path, version: str = "13.0", code: int = 0, message: str = "broken") -> Path:
    path = root / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(FAKE_NVCC.format(version=version, root=root, code=code, message=message))
    path.chmod(0o755)
    return path


def make_headers(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    major, minor = version.split(".")
    for name in ("NvInfer.h", "NvInferRuntime.h"):
        (folder / name).write_text("")
    (folder / "NvInferVersion.h").write_text(
        f"#define TRT_MAJOR_ENTERPRISE {major}\n#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE  //!< major\n"
        f"#define NV_TENSORRT_MINOR {minor}  //!< minor\n"
    )
    return folder


# nvcc


def env_with(**extra: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", **extra}


def test_nvcc_on_path_wins_over_cuda_home_and_the_wheels(tmp_path: Path) -> None:
    on_path, in_home = make_nvcc(tmp_path / "a"), make_nvcc(tmp_path / "b")
    wheel = make_nvcc(tmp_path / "site" / "nvidia" / "cu13")
    env = env_with(CUDA_HOME=str(tmp_path / "b"))
    env["PATH"] = f"{on_path.parent}:{env['PATH']}"
    assert list(nvcc.candidates(env, [tmp_path / "site"], tmp_path)) == [
        on_path,
        in_home,
        tmp_path / "usr/local/cuda/bin/nvcc",
        wheel,
    ]


def test_pypi_ignores_the_machines_toolkit(tmp_path: Path) -> None:
    make_nvcc(tmp_path / "a")
    env = env_with(TRTSMITH_CUDA="pypi", CUDA_HOME=str(tmp_path / "a"), CUDACXX=str(tmp_path / "a/bin/nvcc"))
    assert nvcc.find(env, [tmp_path / "site"]) is None
    wheel = make_nvcc(tmp_path / "site" / "nvidia" / "cu13")
    found = nvcc.find(env, [tmp_path / "site"])
    assert found is not None
    assert found.nvcc == wheel


def test_an_old_nvcc_and_one_that_cannot_compile_are_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = make_nvcc(tmp_path / "old", "11.4")
    make_nvcc(tmp_path / "broken", code=1, message="unsupported GNU version")
    good = make_nvcc(tmp_path / "site" / "nvidia" / "cu13", "13.0")
    env = env_with(
        CUDACXX=str(old), CUDA_HOME=str(tmp_path / "broken"), CUDA_PATH=str(tmp_path / "site/nvidia/cu13")
    )
    found = nvcc.find(env, [])
    assert found is not None
    assert found.nvcc == good
    assert found.version == (13, 0)
    said = capsys.readouterr().err
    assert "older than 12.0" in said
    assert "unsupported GNU version" in said


@pytest.mark.parametrize(
    ("version", "code", "why"),
    [("11.4", 0, "11.4, older than"), ("13.0", 1, "broken"), (None, 0, "no working nvcc")],
)
def test_a_named_toolkit_is_never_replaced_in_silence(
    tmp_path: Path, version: str | None, code: int, why: str
) -> None:
    if version:
        make_nvcc(tmp_path / "mine", version, code)
    make_nvcc(tmp_path / "site" / "nvidia" / "cu13")
    with pytest.raises(SetupError, match=why) as caught:
        nvcc.find(env_with(TRTSMITH_CUDA=str(tmp_path / "mine")), [tmp_path / "site"])
    assert "TRTSMITH_CUDA" in caught.value.problem.fix


def test_a_toolkit_that_passed_before_is_not_probed_again(tmp_path: Path) -> None:
    path = make_nvcc(tmp_path / "t", code=1)
    env = env_with(TRTSMITH_CUDA=str(tmp_path / "t"))
    toolkit = nvcc.inspect(path)
    assert toolkit is not None
    assert nvcc.find(env, [], [nvcc.identity(toolkit, env)]) == toolkit


def test_a_wheels_toolkit_is_given_its_library_folder(tmp_path: Path) -> None:
    path = make_nvcc(tmp_path / "cu13")
    (tmp_path / "cu13" / "lib").mkdir()
    (tmp_path / "cu13" / "lib" / "libcudart.so.13").write_text("")
    toolkit = nvcc.Toolkit(path, tmp_path / "cu13", (13, 0))
    flag = f"-L{tmp_path / 'cu13' / 'lib'}"
    assert toolkit.environment({"NVCC_APPEND_FLAGS": "-G"})["NVCC_APPEND_FLAGS"] == f"-G {flag}"
    assert toolkit.environment({"NVCC_APPEND_FLAGS": f"-G {flag}"})["NVCC_APPEND_FLAGS"] == f"-G {flag}"
    assert toolkit.cmake_defines() == {"CUDA_CUDART": str(tmp_path / "cu13/lib/libcudart.so.13")}


def test_an_installed_toolkit_is_left_as_it_is(tmp_path: Path) -> None:
    path = make_nvcc(tmp_path / "cuda")
    for name in ("lib64", "lib"):
        (tmp_path / "cuda" / name).mkdir()
    toolkit = nvcc.Toolkit(path, tmp_path / "cuda", (13, 0))
    assert "NVCC_APPEND_FLAGS" not in toolkit.environment({})
    assert toolkit.cmake_defines() == {}


# headers


def test_headers_of_an_installed_tensorrt_win_over_fetched_ones(tmp_path: Path) -> None:
    fetched = make_headers(tmp_path / "cache" / "tensorrt-headers", "10.14")
    assert headers.find({}, tmp_path / "cache", tmp_path / "root") == fetched
    system = make_headers(tmp_path / "root" / "usr/include/x86_64-linux-gnu", "11.1")
    assert headers.find({}, tmp_path / "cache", tmp_path / "root") == system
    own = make_headers(tmp_path / "own" / "include", "10.3")
    assert (
        headers.find({"TensorRT_ROOT": str(tmp_path / "own")}, tmp_path / "cache", tmp_path / "root") == own
    )


def test_headers_that_are_too_old_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_headers(tmp_path / "root" / "usr/include", "8.6")
    make_headers(tmp_path / "root" / "usr/local/include", "10.2")
    assert headers.find({}, tmp_path / "cache", tmp_path / "root") is None
    said = capsys.readouterr().err
    assert "8.6 is older" in said
    assert "10.2 is older" in said


@pytest.mark.parametrize(("version", "found"), [("10.2", "TensorRT 10.2"), (None, "no TensorRT headers")])
def test_a_named_header_folder_is_never_replaced_in_silence(
    tmp_path: Path, version: str | None, found: str
) -> None:
    make_headers(tmp_path / "root" / "usr/include", "10.14")
    if version:
        make_headers(tmp_path / "mine", version)
    with pytest.raises(SetupError, match=found):
        headers.find({"TRTSMITH_TENSORRT_INCLUDE": str(tmp_path / "mine")}, tmp_path, tmp_path / "root")


def make_wheel(path: Path, files: dict[str, str]) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


HEADER_WHEEL = {
    f"{headers.WHEEL_FOLDER}/NvInfer.h": "",
    f"{headers.WHEEL_FOLDER}/NvInferRuntime.h": "",
    f"{headers.WHEEL_FOLDER}/NvInferVersion.h": "#define NV_TENSORRT_MAJOR 10\n#define NV_TENSORRT_MINOR 14\n",
    f"{headers.WHEEL_FOLDER}/../../evil.h": "",
    "kernel_lens/__init__.py": "",
}


def test_only_the_headers_are_unpacked(tmp_path: Path) -> None:
    sha256 = make_wheel(tmp_path / "w.whl", HEADER_WHEEL)
    target = headers.unpack(tmp_path / "w.whl", sha256, tmp_path / "out")
    assert headers.version_of(target) == (10, 14)
    assert sorted(p.name for p in target.iterdir()) == ["NvInfer.h", "NvInferRuntime.h", "NvInferVersion.h"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "w.whl"]


def test_another_wheel_than_the_pinned_one_is_refused_and_the_old_headers_stay(tmp_path: Path) -> None:
    make_headers(tmp_path / "out", "10.3")
    make_wheel(tmp_path / "w.whl", HEADER_WHEEL)
    with pytest.raises(SetupError, match="SHA-256") as caught:
        headers.unpack(tmp_path / "w.whl", headers.WHEEL_SHA256, tmp_path / "out")
    assert headers.WHEEL_SHA256 in caught.value.problem.expected
    assert headers.version_of(tmp_path / "out") == (10, 3)


def test_a_wheel_without_headers_is_refused(tmp_path: Path) -> None:
    sha256 = make_wheel(tmp_path / "w.whl", {"kernel_lens/__init__.py": ""})
    with pytest.raises(SetupError, match="no TensorRT headers"):
        headers.unpack(tmp_path / "w.whl", sha256, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# steps


def test_stamps_remember_and_survive_a_damaged_file(tmp_path: Path) -> None:
    stamps = Stamps(tmp_path / "sub" / "stamps.json")
    assert not stamps.fresh("lock", "a")
    stamps.mark("lock", "a")
    stamps.mark("venv", "b")
    assert Stamps(tmp_path / "sub" / "stamps.json").fresh("lock", "a")
    assert not stamps.fresh("lock", "b")
    assert stamps.marked("venv") == ["b"]
    (tmp_path / "sub" / "stamps.json").write_text("{")
    assert not stamps.fresh("lock", "a")
    assert stamps.marked("venv") == []


def test_a_digest_depends_on_content_name_and_borders(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    assert digest([tmp_path / "a"]) != digest([tmp_path / "b"])
    before = digest([tmp_path / "a"])
    (tmp_path / "a").write_text("2")
    assert digest([tmp_path / "a"]) != before
    assert digest(["ab", "c"]) != digest(["a", "bc"])


@pytest.mark.parametrize(
    ("output", "code", "fix"),
    [
        ("OSError: [Errno 28] No space left on device", 1, "free some space"),
        ("ERROR: No matching distribution found for torch==2.13.0", 1, "pip's own configuration"),
        ("NewConnectionError: Temporary failure in name resolution", 1, "network"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", 1, "do not use that file"),
        ("cc1plus: all warnings being treated as errors", 1, "CMAKE_COMPILE_WARNING_AS_ERROR=OFF"),
        ("nvcc fatal : Unsupported gpu architecture 'compute_120'", 1, "TRTSMITH_CUDA_ARCHITECTURES"),
        ("g++: fatal error: Killed signal terminated program cc1plus", 1, "TRTSMITH_JOBS=1"),
        ("", -9, "TRTSMITH_JOBS=1"),
        ("kernels/x.cu(3): error: expected a ;", 2, "read the log"),
    ],
)
def test_a_failure_is_explained(output: str, code: int, fix: str) -> None:
    problem = explain_failure("compiling", code, output, Path("x.log"))
    assert fix in problem.fix
    assert str(code) in problem.what
    assert problem.where == "x.log"


def test_a_failed_command_carries_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as caught:
        run_logged("a step", ["sh", "-c", "seq 1 100; exit 3"], tmp_path / "logs" / "x.log")
    assert caught.value.tail.splitlines()[-1] == "100"
    assert "exit code 3" in caught.value.problem.what


def test_a_command_that_is_not_there_fails_like_any_other(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="exit code 127"):
        run_logged("a step", [str(tmp_path / "nothing")], tmp_path / "x.log")


def test_a_machine_without_a_compiler_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="apt install g"):
        require_host_compiler({"PATH": str(tmp_path)})


def test_jobs_follow_the_setting_and_else_the_cores() -> None:
    assert jobs({"TRTSMITH_JOBS": "3"}) == 3
    assert jobs({"TRTSMITH_JOBS": "many"}) == len(os.sched_getaffinity(0))


def test_set_up_runs_with_nothing_but_the_standard_library() -> None:
    script = ROOT / "scripts" / "setup_env.py"
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(script), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--python-only" in done.stdout


def test_a_python_that_is_too_old_is_told_so() -> None:
    text = (ROOT / "scripts" / "setup_env.py").read_text().replace("< (3, 10)", "< (3, 99)")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:]] == [
        "where",
        "expected",
        "fix",
    ]


# the wheel


GOOD = [f"trtsmith/converter/lib/{name}" for name in native.LIBRARIES] + [
    "trtsmith/converter/cli/main.py",
    "trtsmith/importers/__init__.py",
    "trtsmith/api.py",
    "trtsmith/py.typed",
    "trtsmith/converter/base/options/keywords.pyi",
    "trtsmith/converter/convert/report.schema.json",
    "trtsmith/converter/verify/input_generation/pictures.npz",
    "trtsmith/converter/pages/assets/frame.js",
    "trtsmith/converter/samples/detector/detector.onnx",
    *SDK,
    "trtsmith-0.1.0.dist-info/licenses/LICENSE",
]


def test_a_complete_wheel_is_good() -> None:
    assert contents_problem(GOOD) is None


@pytest.mark.parametrize("missing", GOOD)
def test_a_wheel_that_lacks_something_is_not(missing: str) -> None:
    assert contents_problem([name for name in GOOD if name != missing]) is not None


def test_a_wheel_names_the_gpus_that_it_is_for(tmp_path: Path) -> None:
    wheel = tmp_path / "trtsmith-0.1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(
            native.LIBRARY_DIR / native.LIBRARIES[0], f"trtsmith/converter/lib/{native.LIBRARIES[0]}"
        )
    built = manifest(native.LIBRARY_DIR / native.LIBRARIES[0])["cuda_architectures"].split()[0].split("-")[0]
    assert gpus_of(wheel).startswith(f"compute capability {built}")


def test_a_wheel_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trtsmith-0.1.0-py3-none-linux_x86_64.whl").write_bytes(bytes(2 << 20))
    monkeypatch.setattr(check_wheel, "MOST_MIB", 1)
    assert check_wheel.main([str(tmp_path), "--gpus"]) == 1
    assert "The wheel has 2.0 MiB." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "jobs", "gpus", "minutes"),
    [
        ("86", "2", "86", 11),
        ("75;86", "2", "75, 86", 22),
        ("release", "64", "75, 80, 86, 89, 90, 100, 120", 4),
    ],
)
def test_a_build_says_what_it_compiles_and_how_long_that_takes(
    asked: str, jobs: str, gpus: str, minutes: int
) -> None:
    env = os.environ | {"TRTSMITH_CUDA_ARCHITECTURES": asked, "TRTSMITH_JOBS": jobs}
    said = native.expectation(Path(cmake.CMAKE_BIN_DIR) / "cmake", env)
    assert f"for compute capability {gpus}, {jobs} at a time: about {minutes} minutes" in said


def test_a_wheel_that_carries_more_is_not() -> None:
    assert "tests" in str(contents_problem([*GOOD, "tests/conftest.py"]))


@pytest.mark.parametrize(
    ("gpus", "asked", "chosen"),
    [
        ("", "", "86-real;86-virtual"),
        ("echo 6.1", "", "86-real;86-virtual"),
        ("printf '9.0\\n8.9\\n9.0\\n'", "", "89-real;90a-real;90-virtual"),
        ("exit 9", "", "86-real;86-virtual"),
        ("echo 9.0", "75,sm86", "75-real;86-real;86-virtual"),
    ],
)
def test_kernels_are_compiled_for_the_gpus_that_are_here(
    gpus: str, asked: str, chosen: str, tmp_path: Path
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{gpus}\n")
    script.chmod(0o755)
    found = {"PATH": str(tmp_path) if gpus else "/nowhere", "TRTSMITH_CUDA_ARCHITECTURES": asked}
    command = [
        f"{cmake.CMAKE_BIN_DIR}/cmake",
        "-P",
        str(native.SOURCES / "cmake" / "CudaArchitectures.cmake"),
    ]
    said = subprocess.run(command, env=os.environ | found, capture_output=True, text=True, check=True).stdout
    assert said.strip().endswith(f"CUDA architectures: {chosen}")
