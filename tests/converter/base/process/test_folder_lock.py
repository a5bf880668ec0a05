"""Only one process at a time replaces files in a folder, and none waits for ever."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from trtsmith.converter.base.process.folder_lock import folder_lock
from trtsmith.converter.base.process.scratch_folder import ScratchFolder


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most, said = list[int](), list[int](), list[str]()

    def work(number: int) -> None:
        for _ in range(20):
            with folder_lock(tmp_path, said.append):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80 and max(most) == 1 and not said
    assert list(tmp_path.iterdir()) == []


def test_who_keeps_the_lock_stops_nobody(tmp_path: Path) -> None:
    said = list[str]()
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with folder_lock(tmp_path, said.append, wait_s=0.05):
        said.append("done")
    os.close(other)
    assert said == [f"files in {tmp_path} are replaced without a lock: another process keeps it", "done"]
    with folder_lock(tmp_path, said.append):
        pass
    assert len(said) == 2


def test_a_child_that_was_forked_meanwhile_keeps_no_lock(tmp_path: Path) -> None:
    said, (reading, writing) = list[str](), os.pipe()
    with folder_lock(tmp_path, said.append):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    with folder_lock(tmp_path, said.append, wait_s=0.05):
        os.close(writing)
    assert os.waitpid(child, 0)[1] == 0 and not said


def test_a_scratch_folder_is_not_waited_for() -> None:
    """Its owner, this process or the one that started it, holds its lock for as long as it exists."""
    said = list[str]()
    with ScratchFolder("test") as folder, folder_lock(Path(folder), said.append, wait_s=0.0):
        said.append("done")
    assert said == ["done"]
