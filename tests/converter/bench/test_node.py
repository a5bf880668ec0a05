"""The figures of one plugin node: what is missing is said, and a ratio needs both times."""

from __future__ import annotations

from trtsmith.converter.bench.node_worker import MESSAGE, ratio_of, tried


def test_the_ratio_is_natives_time_over_the_plugins() -> None:
    assert ratio_of({"median_us": 2.0}, {"median_us": 7.0}) == 3.5
    assert ratio_of({"unavailable": "x"}, {"median_us": 7.0}) is None
    assert ratio_of({"median_us": 2.0}, {}) is None


def test_what_fails_is_a_finding() -> None:
    def fails() -> dict[str, float]:
        raise RuntimeError("first line " + "x" * 300 + "\nsecond line")

    found = tried(fails)
    assert found["unavailable"].startswith("RuntimeError: first line xxx")
    assert len(found["unavailable"]) == MESSAGE and "second" not in found["unavailable"]
    assert tried(lambda: {"median_us": 1.0}) == {"median_us": 1.0}
