"""Presents a serialised model in memory as a file, for code that reads and maps model files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from trtsmith.converter.base.errors import InvalidModelError, UsageError
from trtsmith.converter.model.tensors import Reference
from trtsmith.converter.model.weights import MappedFile

NAME = "<model>"
"""What messages call a model that has no file."""


@dataclass(frozen=True, eq=False)
class ModelBytes:
    """A serialised onnx.ModelProto. folder: of its external data; None: it may have none."""

    data: bytes = field(repr=False)
    folder: Path | None = None

    @property
    def path(self) -> Path:
        """The path that the model's file would have."""
        return (self.folder or Path()) / NAME

    def __str__(self) -> str:
        return NAME


ModelSource = Path | ModelBytes
"""A model file, or the bytes of one."""


def map_bytes(source: ModelBytes) -> MappedFile:
    """Maps the bytes as a file in memory, which is freed with its last user."""
    descriptor = os.memfd_create("trtsmith-model", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            stream.write(source.data)
        return MappedFile(Path(f"/proc/self/fd/{descriptor}"))
    except OSError as error:
        raise UsageError(
            f"the model cannot be held in memory: {error.strerror}",
            NAME,
            f"room for {len(source.data)} bytes",
            "save the model, and give the path of the file",
        ) from error
    finally:
        os.close(descriptor)


def no_folder(reference: Reference, where: str) -> InvalidModelError:
    """Returns the message for external data of a model without a folder."""
    return InvalidModelError(
        f"The model's weights are in the file {reference.location[:200]!r}, and the model has no folder: "
        "it was given as bytes or as a ModelProto.",
        where,
        "a model that holds its weights, or the folder of its external data",
        "name the folder: data_folder=..., or give the path of the model's file",
    )
