"""Skips tests that need a GPU where there is none and counts them in the summary; --require-gpu makes them fail.

The rule for tests that need a program, a browser or a shell: skipped without it, or failed where CI sets
TRTSMITH_REQUIRE_PROGRAMS. And what many tests need: signals as a terminal leaves them, processes that do not outlive a test.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any

import pytest

pytest_plugins = ["tests.selection", "tests.forked_workers"]

NO_GPU = "no NVIDIA GPU here"
SKIPPED = "skipped for want of a GPU"
"""A property of reports: under pytest-xdist they are made in one process and counted in another."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-gpu",
        action="store_true",
        help="a test marked gpu that would be skipped, for want of a GPU or for any other reason, fails",
    )


@functools.cache
def gpu_count() -> int:
    """How many CUDA devices the driver sees; 0 without a driver. Needs no CUDA toolkit and no framework."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Conversions that a user's cache has would be none of this checkout's work, and ours are none of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTSMITH_CACHE", str(tmp_path_factory.mktemp("cache") / "batch"))
        yield


@pytest.fixture
def default_signals() -> Generator[None, None, None]:
    """SIGINT, SIGHUP and SIGTERM as a terminal leaves them, here and in children, which inherit what is ignored.

    nohup ignores SIGHUP, and a script's `&` SIGINT.
    """
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGTERM: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def start() -> Generator[Callable[..., subprocess.Popen[str]], None, None]:
    """Starts a command in a session of its own. What runs of it when the test ends, passed or failed, is killed."""
    started = []

    def start(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, text=True, start_new_session=True, **options)
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def pytest_runtest_setup(item: pytest.Item) -> None:
    keep_translations()
    if item.get_closest_marker("gpu") is not None and gpu_count() == 0:
        pytest.skip(NO_GPU)
    for marker in item.iter_markers("program"):
        if not any(map(shutil.which, marker.args)):
            end = pytest.fail if os.environ.get("TRTSMITH_REQUIRE_PROGRAMS") else pytest.skip
            end(f"{marker.args[0]} is not installed here; as root, `make programs` installs it")


def keep_translations() -> None:
    """PyTorch's exporter collects onnxscript's translations anew for every export, which takes a second: here once."""
    module: Any = sys.modules.get("onnxscript._framework_apis.torch_2_11")
    if module is not None and not hasattr(module.get_torchlib_ops, "cache_info"):
        module.get_torchlib_ops = functools.cache(module.get_torchlib_ops)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not report.skipped or hasattr(report, "wasxfail") or item.get_closest_marker("gpu") is None:
        return report
    if item.config.getoption("--require-gpu"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"--require-gpu: this test must run, but: {reason}"
    else:
        report.user_properties.append((SKIPPED, True))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = sum(
        SKIPPED in dict(getattr(report, "user_properties", ()))  # a module that is skipped whole has none
        for report in terminalreporter.getreports("skipped")
    )
    if skipped:
        terminalreporter.write_line(
            f"GPU: {skipped} tests were skipped; on a machine with a GPU, --require-gpu makes sure that they run",
            yellow=True,
        )
