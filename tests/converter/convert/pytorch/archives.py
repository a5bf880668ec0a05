"""Makes saved programs, valid and tampered ones."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"


class Small(nn.Module):
    """A layer, an inverse of ours, outputs in a dict, and an argument that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Any, more: Any, factor: float = 2.0) -> Any:
        y = torch.nn.functional.pad(self.layer(x), (0, 1), mode="constant") * factor
        return {"y": y[..., :4] + self.shift, "pair": (torch.linalg.inv(more["m"]), [x])}


def save(path: Path) -> Path:
    """Small as a program, its batch from 1 to 8."""
    batch = Dim("batch", min=1, max=8)
    args = (torch.rand(2, 4), {"m": torch.eye(3).repeat(2, 1, 1) * 2})
    shapes = {"x": {0: batch}, "more": {"m": {0: batch}}, "factor": None}
    program = torch.export.export(Small().eval(), args, {"factor": 3.0}, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)
    return path


def tampered(
    source: Path,
    target: Path,
    change: Callable[[dict[str, Any]], Any] | None = None,
    record: str = MODEL,
    *,
    add: dict[str, bytes] | None = None,
    drop: str = "",
    compression: int = zipfile.ZIP_STORED,
) -> Path:
    """A copy in which the JSON of a record is changed, and records are added or left out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for item in old.infolist():
            root, _, name = item.filename.partition("/")
            if name in {drop, *(add or {})}:
                continue
            data = old.read(item)
            if change is not None and name == record:
                document = json.loads(data)
                change(document)
                data = json.dumps(document).encode()
            new.writestr(f"{root}/{name}", data)
        for name, data in (add or {}).items():
            new.writestr(f"{root}/{name}", data)
    return target


def everywhere(document: Any, key: str, value: Any, found: Callable[[Any], bool] = lambda old: True) -> int:
    """Put a value in every entry of that name; how many there were."""
    count = 0
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for name, old in list(items):
        if name == key and found(old):
            document[name] = value
            count += 1
        else:
            count += everywhere(old, key, value, found)
    return count


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def pickled(path: Path) -> bytes:
    """What torch.save makes of an object that makes the file `path`."""
    stream = io.BytesIO()
    torch.save(((Touch(path),), {}), stream)
    return stream.getvalue()
