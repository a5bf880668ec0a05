"""Reads from a manifest the model that its engine was built from: files, precision, frozen inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.options.shapes import ShapeRange
from trtsmith.converter.engine.bundle.manifest import dtype, flag, items, mapping, read_manifest, sizes, text
from trtsmith.converter.model.fingerprint import fingerprint
from trtsmith.converter.model.model import INLINE_LIMIT, Model
from trtsmith.converter.rewrite.precision.keep import Kept


@dataclass(frozen=True)
class FrozenInput:
    """An input of the model that is a constant in the engine. value: flat, None for one of 1 KiB and more."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    value: tuple[Any, ...] | None

    @staticmethod
    def of(name: str, array: np.ndarray) -> FrozenInput:
        small = array.nbytes < INLINE_LIMIT
        values = tuple(array.reshape(-1).tolist()) if small else None
        return FrozenInput(name, str(array.dtype), array.shape, _digest(array), values)

    def matches(self, array: np.ndarray) -> bool:
        return str(array.dtype) == self.dtype and array.shape == self.shape and _digest(array) == self.sha256

    def array(self) -> np.ndarray | None:
        """Returns the value; None where the manifest has only its hash."""
        if self.value is None:
            return None
        return np.array(self.value, dtype=np.dtype(self.dtype)).reshape(self.shape)


@dataclass(frozen=True)
class PrecisionSummary:
    """The precision pass's result. kept: nodes that stay in float32; reduced: how many are in the type.

    own: the model had the precision itself, and nothing was changed. float16_sums: whether the engine sums products of
    float16 in float16.
    """

    kept: tuple[Kept, ...]
    reduced: int
    own: bool
    float16_sums: bool = False


@dataclass(frozen=True)
class EngineOrigin:
    """The model behind an engine. precision: the type that was asked for.

    fingerprint: of the model's files; "" if unknown. reduction: None if the precision pass did not run.
    profiles, values: the shapes of inputs, and the values of shape tensors, by which its graph was decided.
    float_lstm, prefer_stock: whether it was converted with --float-lstm, and with --prefer-stock.
    """

    precision: str = "float32"
    fingerprint: str = ""
    frozen: tuple[FrozenInput, ...] = ()
    reduction: PrecisionSummary | None = None
    profiles: tuple[Mapping[str, ShapeRange], ...] = ()
    values: tuple[Mapping[str, ShapeRange], ...] = ()
    float_lstm: bool = False
    prefer_stock: bool = False


def origin_facts(model: Model, frozen: Mapping[str, np.ndarray], name: str) -> dict[str, Any]:
    """Returns the parts of the manifest that `origin_of` reads, without the precision. name: of the model's file, as
    given.
    """
    return {
        "model": {
            "file": name,
            "bytes": sum(file.size for file in model.files.values()),
            "fingerprint": fingerprint(model),
        },
        "frozen": [asdict(FrozenInput.of(name, value)) for name, value in frozen.items()],
    }


def origin_of(engine: Path) -> EngineOrigin:
    """Reads the origin from the manifest beside the engine; defaults without one. Raises UsageError if it is unreadable."""
    return read_manifest(engine, _origin) or EngineOrigin()


def _origin(document: Mapping[str, Any]) -> EngineOrigin:
    return EngineOrigin(
        _precision(document.get("precision")),
        text(mapping(document.get("model", {})).get("fingerprint", "")),
        _frozen(items(document.get("frozen", []))),
        _reduction(document.get("precision_report")),
        tuple(_ranges(profile) for profile in items(document.get("profiles", []))),
        tuple(_ranges(profile) for profile in items(document.get("given_values", []))),
        document.get("float_lstm") is True,
        document.get("prefer_stock") is True,
    )


def _ranges(profile: Any) -> dict[str, ShapeRange]:
    """The shapes of a profile; it has values of shape tensors, too."""
    return {
        name: ShapeRange(*(tuple(map(int, items(range_[end]))) for end in ("min", "opt", "max")))
        for name, range_ in ((name, mapping(entry)) for name, entry in mapping(profile).items())
        if not flag(range_.get("values", False))
    }


def _precision(entry: Any) -> str:
    """The precision pass's report, or the type alone; float32 if no precision was asked for."""
    return str(entry["precision"] if isinstance(entry, dict) else entry or "float32")


def _reduction(entry: Any) -> PrecisionSummary | None:
    if entry is None:
        return None
    report = mapping(entry)
    kept = tuple(
        Kept(text(one["node"]), text(one["op_type"]), text(one["reason"]))
        for one in map(mapping, items(report["kept"]))
    )
    (reduced,) = sizes([report["reduced"]])
    own = flag(report.get("own", False)) or report.get("share") is not None
    return PrecisionSummary(kept, reduced, own, report.get("sums") is not None)


def _frozen(entries: Sequence[Any]) -> tuple[FrozenInput, ...]:
    """The entries, each held to its own hash where it has a value."""
    found = []
    for entry in map(mapping, entries):
        value = None if entry["value"] is None else items(entry["value"])
        name, digest = text(entry["name"]), text(entry["sha256"])
        one = FrozenInput(name, dtype(entry["dtype"]), sizes(entry["shape"]), digest, value)
        array = one.array()
        if array is not None and not one.matches(array):
            raise ValueError(f"the value of the frozen input {one.name!r} does not match its hash")
        found.append(one)
    return tuple(found)


def _digest(array: np.ndarray) -> str:
    return "sha256:" + hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
