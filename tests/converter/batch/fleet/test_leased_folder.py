"""A folder that processes share goes with the last of them, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import checkout_environment, has_ended
from trtsmith.converter.batch.fleet.leased_folder import LeasedFolder

HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from trtsmith.converter.batch.fleet.leased_folder import LeasedFolder
lease = LeasedFolder("kind-", "one", Path(sys.argv[1]))
(lease.path / "file").write_text("x")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True,
                         env={**os.environ, "TMPDIR": str(lease.path / "tmp")})
print(child.pid, flush=True)
time.sleep(600)
"""


def is_gone(path: Path) -> bool:
    for _ in range(1200):
        if not path.exists() and not [*path.parent.glob("*.gone")]:
            return True
        time.sleep(0.05)
    return False


def test_it_stays_until_nobody_uses_it(tmp_path: Path) -> None:
    first = LeasedFolder("kind-", "one", tmp_path)
    second = LeasedFolder("kind-", "one", tmp_path)
    (first.path / "folder").mkdir()
    assert first.path == second.path == tmp_path / "kind-one"
    first.release()
    first.release()
    time.sleep(0.5)
    assert (second.path / "folder").is_dir()
    second.release()
    assert is_gone(second.path)
    third = LeasedFolder("kind-", "one", tmp_path)
    assert third.path.is_dir() and not (third.path / "folder").exists()
    third.remove()
    assert not third.path.exists()


def test_it_goes_with_a_process_that_is_killed_and_with_what_that_left(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    holder = start(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=checkout_environment(),
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    assert (tmp_path / "kind-one/file").exists()
    os.kill(holder.pid, signal.SIGKILL)
    assert is_gone(tmp_path / "kind-one") and has_ended(child)


def test_what_a_machine_left_that_stopped_is_removed_by_the_next(tmp_path: Path) -> None:
    old, empty, other, used = (tmp_path / name for name in ("kind-old", "kind-new", "others", "kind-used"))
    for path in (old, empty, other):
        path.mkdir()
    (old / "lock").touch()
    (old / "file").touch()
    using = LeasedFolder("kind-", "used", tmp_path)
    lease = LeasedFolder("kind-", "next", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kind-new",
        "kind-next",
        "kind-used",
        "others",
    ]
    using.remove()
    lease.remove()
    assert not used.exists()


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kind-one").mkdir()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(PermissionError):
        LeasedFolder("kind-", "one", tmp_path)
