"""Reads a file of torch.export.save without running its content: only weights, JSON and tensors.

torch.export.load trusts its file: it unpickles objects, evaluates size expressions as Python, calls functions of `torch` by
the names that the file gives, and runs source code that it makes of names in it. So nothing reaches it but a copy, in which
every text is one of the few forms that a program needs (program_texts.py), and every pickle was loaded with weights_only
and written anew.

The layout is that of torch/export/pt2_archive of PyTorch 2.9 to 2.13: <name>/models/model.json,
<name>/data/weights/..., <name>/data/constants/..., <name>/data/sample_inputs/model.pt.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.convert.pytorch.program_texts import ProgramTextError, checked_program

_FORMAT, _VERSION = b"pt2", b"0"
_MODEL, _SAMPLES = "models/model.json", "data/sample_inputs/model.pt"
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_CONFIGS = {
    f"{_WEIGHTS}model_weights_config.json": (_WEIGHTS, "weight_"),
    f"{_CONSTANTS}model_constants_config.json": (_CONSTANTS, "tensor_"),
}
_LEFT_OUT = ("extra/", ".data/", "version", ".format_version", ".storage_alignment")
_MOST_JSON = 1 << 30
_MOST_EXPANDED = 1 << 30
"""Bytes that an example input may become of fewer that are stored, as torch.expand makes them."""

_PAYLOAD = re.compile(r"(weight|tensor)_\d+")
_TENSOR_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)


def copy_checked(path: Path, target: Path) -> frozenset[str]:
    """Writes the safe parts of a saved program to `target`. Returns the operators it calls, as namespace::name.overload.

    InvalidModelError for a file that has, or needs, more.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _copy(archive, _records(archive, path), target)
    except InvalidModelError:
        raise
    except ProgramTextError as error:
        raise _refusal(path, str(error)) from error
    except Exception as error:  # of a damaged file: zipfile's, json's, torch's
        raise _damaged(path, error) from error


def _records(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members by their names within the common folder."""
    members = archive.infolist()
    names = [member.filename for member in members]
    if "serialized_exported_program.json" in names:
        raise InvalidModelError(
            "the program is in the format of PyTorch 2.8 and before, which needs unpickling",
            str(path),
            "a file of torch.export.save of PyTorch 2.9 or newer",
            "load it where you trust it, with the PyTorch that wrote it, and save it again with a newer one",
        )
    roots = {name.partition("/")[0] for name in names}
    records = {member.filename.partition("/")[2]: member for member in members}
    if len(roots) != 1 or "archive_format" not in records:
        raise _foreign(path)
    if len(records) != len(members):
        raise _refusal(path, "two of its members have one name")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise _refusal(path, "its members are compressed, and PyTorch compresses none")
    if sum(member.file_size for member in members) > os.path.getsize(path):
        raise _refusal(path, "its members overlap")
    if (
        archive.read(records["archive_format"]) != _FORMAT
        or archive.read(records["archive_version"]) != _VERSION
    ):
        raise _refusal(path, "its archive format or version is not supported")
    return records


def _copy(archive: zipfile.ZipFile, records: Mapping[str, zipfile.ZipInfo], target: Path) -> frozenset[str]:
    source = Path(str(archive.filename))
    kept = {name: record for name, record in records.items() if not name.startswith(_LEFT_OUT)}
    for name in (_MODEL, _SAMPLES, *_CONFIGS):
        if name not in kept:
            raise _refusal(source, f"it has no {name}")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name, data in (
            ("archive_format", _FORMAT),
            ("archive_version", _VERSION),
            (".data/version", b"6\n"),
        ):
            copy.writestr(f"model/{name}", data)
        copy.writestr("model/byteorder", b"little")
        if "byteorder" in kept:
            _allow(source, archive.read(kept.pop("byteorder")) == b"little", "byte order")
        del kept["archive_format"], kept["archive_version"]
        program = checked_program(_json(archive, kept.pop(_MODEL)))
        text = json.dumps(program)
        copy.writestr(f"model/{_MODEL}", text)
        copy.writestr(f"model/{_SAMPLES}", _samples(source, archive.read(kept.pop(_SAMPLES))))
        for name, (folder, prefix) in _CONFIGS.items():
            config = _json(archive, kept.pop(name))
            payloads = _payloads(source, config, folder, prefix, records)
            copy.writestr(f"model/{name}", json.dumps(config))
            for payload in payloads:
                _copy_member(archive, kept.pop(payload), copy, f"model/{payload}")
    if kept:
        raise _refusal(
            source, f"it holds {next(iter(kept))[:200]!r}, which no exported program of weights has"
        )
    return frozenset(
        f"{space}::{name}.{overload}"
        for space, name, overload in re.findall(r"\btorch\.ops\.(\w+)\.(\w+)\.(\w+)", text)
    )


def _copy_member(archive: zipfile.ZipFile, record: zipfile.ZipInfo, copy: zipfile.ZipFile, name: str) -> None:
    with archive.open(record) as stream, copy.open(name, "w", force_zip64=True) as out:
        shutil.copyfileobj(stream, out, 1 << 22)


def _json(archive: zipfile.ZipFile, record: zipfile.ZipInfo) -> Any:
    if record.file_size > _MOST_JSON:
        raise ProgramTextError("its JSON is larger than 1 GiB")
    try:
        return json.loads(archive.read(record))
    except RecursionError:
        raise ProgramTextError("its JSON is nested too deeply") from None


def _payloads(
    path: Path, config: Any, folder: str, prefix: str, records: Mapping[str, zipfile.ZipInfo]
) -> tuple[str, ...]:
    """The files of the tensors that a config lists, each checked against its description."""
    _allow(path, isinstance(config, dict) and isinstance(config.get("config"), dict), "list of tensors")
    files: dict[str, None] = {}
    for name, entry in config["config"].items():
        _allow(path, isinstance(entry, dict) and bool(_TENSOR_NAME.fullmatch(name)), f"tensor {name[:200]!r}")
        if entry.get("use_pickle") is not False:
            raise _refusal(path, f"the tensor {name!r} is pickled: it is a tensor subclass or another object")
        payload = entry.get("path_name")
        known = isinstance(payload, str) and payload.startswith(prefix) and _PAYLOAD.fullmatch(payload)
        _allow(path, bool(known) and f"{folder}{payload}" in records, f"file of the tensor {name!r}")
        if records[f"{folder}{payload}"].file_size == 0:  # PyTorch makes zeros of any size of it
            sizes = entry["tensor_meta"]["sizes"]
            _allow(
                path, math.prod(int(size["as_int"]) for size in sizes) == 0, f"size of the tensor {name!r}"
            )
        files[f"{folder}{payload}"] = None
    return tuple(files)


def _samples(path: Path, data: bytes) -> bytes:
    """The example inputs: tensors and plain values, loaded with weights_only and written again. b"" for none."""
    if not data:
        return b""
    anywhere = None if torch.cuda.is_available() else "cpu"
    try:
        loaded = torch.load(io.BytesIO(data), weights_only=True, map_location=anywhere)
    except Exception as error:
        raise _refusal(path, "its example inputs have objects besides tensors and numbers") from error
    _plain(path, loaded)
    out = io.BytesIO()
    torch.save(loaded, out)
    return out.getvalue()


def _plain(path: Path, value: Any) -> None:
    if isinstance(value, (tuple, list)):
        for item in value:
            _plain(path, item)
    elif isinstance(value, dict):
        _allow(path, all(isinstance(key, (str, int)) for key in value), "example input")
        for item in value.values():
            _plain(path, item)
    else:
        kinds = (torch.Tensor, bool, int, float, complex, str, type(None), torch.dtype, torch.device)
        _allow(path, isinstance(value, kinds), "example input")
        if isinstance(value, torch.Tensor) and value.numel() * value.element_size() > _MOST_EXPANDED:
            stored = value.untyped_storage().nbytes() if value.layout == torch.strided else 0
            if value.numel() * value.element_size() > stored:
                why = f"an example input of the sizes {list(value.shape)} is stored as {stored:,} bytes"
                raise _refusal(path, why)


def _allow(path: Path, good: bool, what: str) -> None:
    if not good:
        raise _refusal(path, f"it has a {what} that is not as torch.export.save writes it")


def _refusal(path: Path, why: str) -> InvalidModelError:
    return InvalidModelError(
        f"the program is refused: {why}",
        str(path),
        "a program of tensors and operators, as torch.export.save writes it; nothing in it is ever run as code",
        "save it again with torch.export.save, or convert the module in Python with trtsmith.convert",
    )


def _foreign(path: Path) -> InvalidModelError:
    return InvalidModelError(
        "the file is not a program of torch.export",
        str(path),
        "a file that torch.export.save wrote; one of torch.save or torch.jit.save holds pickles, which are never loaded",
        "torch.export.save(torch.export.export(module, args), 'program.pt2')",
    )


def _damaged(path: Path, error: Exception) -> InvalidModelError:
    said = str(error) or type(error).__name__
    return InvalidModelError(
        f"the file cannot be read as a saved program: {said if len(said) <= 300 else said[:297] + '...'}",
        str(path),
        "a file that torch.export.save wrote",
        "copy or download it again, or save the program again",
    )
