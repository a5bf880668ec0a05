"""Reads what tasks need of a machine: cpus, memory, gpu, timeout."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from trtsmith.converter.batch.amounts import bytes_of
from trtsmith.converter.batch.task import Needs
from trtsmith.converter.batch.zoo.option_tables import check_keys, is_table
from trtsmith.converter.batch.zoo.option_words import shown
from trtsmith.converter.batch.zoo.toml_lines import Keys
from trtsmith.converter.batch.zoo.zoo_file import ZooFindings

KEYS = ("cpus", "memory", "gpu", "timeout")

_MOST = 2**31
_MEMORY = re.compile(r"\d+(?:\.\d+)? *[KMGT]i?B")
_TIME = re.compile(r"(?:(\d+)h)? *(?:(\d+)m)? *(?:(\d+(?:\.\d+)?)s)?")
_GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,63}")

NeedsLayer = Mapping[str, Any]
"""Some of KEYS with what was read: float cpus, int MiB or None, str, float seconds or None."""


def read_needs(value: Any, keys: Keys, findings: ZooFindings) -> NeedsLayer:
    """The needs in a table; what is wrong is left out, and a finding."""
    if not is_table(value, keys, findings):
        return {}
    check_keys(value, keys, KEYS, "needs", findings)
    layer: dict[str, Any] = {}
    for name, (read, expected, example) in _READERS.items():
        if name not in value:
            continue
        found = read(value[name])
        if found is None:
            what = f"{name} cannot be {shown(value[name])}"
            findings.add((*keys, name), what, expected, f"{name} = {example}")
        else:
            layer[name] = found
    return layer


def needs_of(*layers: NeedsLayer) -> Needs:
    """What results; a later layer's key is in the place of an earlier one's."""
    all_ = {key: value for layer in layers for key, value in layer.items()}
    return Needs(
        cpus=all_.get("cpus", 1.0),
        memory_mib=all_.get("memory"),
        gpu=all_.get("gpu", ""),
        timeout_s=all_.get("timeout"),
    )


def _cpus(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 4096
    return float(value) if good else None


def _memory(value: Any) -> int | None:
    if not isinstance(value, str) or len(value) >= 40 or not _MEMORY.fullmatch(value):
        return None
    try:
        mib = math.ceil(bytes_of(value) / 2**20)
    except ValueError:  # no computer counts so far
        return None
    return mib if 0 < mib < _MOST else None


def _gpu(value: Any) -> str | None:
    if isinstance(value, bool):
        return "any" if value else ""
    return value if isinstance(value, str) and (value == "" or _GPU.fullmatch(value)) else None


def _timeout(value: Any) -> float | None:
    seconds = 0.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and value and len(value) < 40 and (found := _TIME.fullmatch(value.strip())):
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    return seconds if 0 < seconds < _MOST else None


_READERS = {
    "cpus": (_cpus, "a number of cores", "2"),
    "memory": (_memory, "a size with its unit: KiB, MiB, GiB, TiB, KB, MB, GB or TB", '"8GiB"'),
    "gpu": (_gpu, 'a GPU as Ray calls its type, "any", or "" for none', '"any"'),
    "timeout": (_timeout, 'seconds, or a time such as "90s", "20m", "1h30m"', '"20m"'),
}
