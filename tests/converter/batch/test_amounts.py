"""Sizes and ages in human notation."""

from __future__ import annotations

import pytest

from trtsmith.converter.batch.amounts import age_text, parse_age, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("0", 0), ("512", 512), ("512b", 512), ("1kB", 1000), ("1K", 1024), ("1KiB", 1024)),
        *(("1.5 GiB", 3 << 29), ("20g", 20 << 30), ("2TB", 2 * 10**12), (".5m", 1 << 19)),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("30", 30 * 86400.0), ("0.5", 43200.0), ("12h", 43200.0), ("4w", 28 * 86400.0)),
        *(("1d", 86400.0), ("2 days", 172800.0), ("45m", 2700.0), ("9s", 9.0)),
    ],
)
def test_ages(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1", "1e3", "1x", "1 2", "nan", "inf", "1..5", "9" * 400, "１０"]
)
def test_what_is_neither(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        parse_size(text)
    with pytest.raises(ValueError, match="is not days"):
        parse_age(text)


def test_as_they_are_shown() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 200_000, 3 << 29, 5 << 40, 2048 << 40)] == [
        "0 B", "1023 B", "1.0 KiB", "195.3 KiB", "1.5 GiB", "5.0 TiB", "2048.0 TiB",
    ]  # fmt: skip
    assert [age_text(s) for s in (-5, 0, 60, 3599, 7200, 86400, 1e7)] == [
        "just now", "just now", "1 minute ago", "59 minutes ago", "2 hours ago", "1 day ago", "115 days ago",
    ]  # fmt: skip
