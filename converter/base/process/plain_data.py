"""Converts dataclasses to JSON for other processes, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class PlainData:
    """A dataclass of numbers, texts, paths, and dataclasses and collections of them."""

    def to_json(self) -> dict[str, Any]:
        import msgspec  # takes milliseconds, which a command that starts no child does without

        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return plain

    def to_text(self) -> str:
        return json.dumps(self.to_json())

    @classmethod
    def from_json(cls, data: str | Mapping[str, Any]) -> Self:
        """Reads the value from JSON that `to_json` wrote, as text or as parsed."""
        import msgspec

        plain = json.loads(data) if isinstance(data, str) else data
        return msgspec.convert(plain, cls, dec_hook=_read)


def _read(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
