"""Copies files, and shares their blocks where the file system can: weights of a model that are a hard link are refused."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from pathlib import Path
from typing import BinaryIO

_FICLONE = 0x40049409
"""Of linux/fs.h: the target gets the source's blocks, and each its own when one is written to."""

_BLOCK = 1 << 20


def is_of_a_model(name: str) -> bool:
    """Whether a file of a task's folder is a model, or holds weights of one, which is refused where it is a hard link."""
    return Path(name).suffix in (".onnx", ".data")


def copy_content(source: BinaryIO, target: BinaryIO) -> None:
    """What the source has, from its beginning. target: is empty. OSError where that fails."""
    with contextlib.suppress(OSError):  # another file system, or one without
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
        return
    shutil.copyfileobj(source, target, _BLOCK)
    target.flush()
