"""The browser of our checks notices faults of a page: otherwise no page could fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagecheck.chromium import NAMES, Chromium, PageError


@pytest.mark.program(*NAMES)
def test_requests_errors_keys_and_media_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a page.html"
    path.write_text(
        "<style>@media print {p {color: red}}</style><p>text</p><input>"
        "<script>console.error('said'); fetch('http://127.0.0.1:9/x').catch(() => {}); null.thrown;</script>"
    )
    colour = "getComputedStyle(document.querySelector('p')).color"
    with Chromium() as page:
        page.open(path)
        assert page.evaluate(colour) == "rgb(0, 0, 0)"
        page.look(400, 300, paper=True, dark=True)
        assert page.evaluate(colour) == "rgb(255, 0, 0)" and page.evaluate("innerWidth") == 400
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        page.evaluate("document.querySelector('input').focus()")
        page.type("x")
        assert page.evaluate("document.querySelector('input').value") == "x"
        page.screenshot(tmp_path / "seen.png")
        assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
        page.pdf(tmp_path / "seen.pdf")
        assert (tmp_path / "seen.pdf").read_bytes().startswith(b"%PDF")
        assert page.requests() == ["http://127.0.0.1:9/x"]
        said = page.complaints()
        assert any("said" in one for one in said) and any("thrown" in one for one in said)
        with pytest.raises(PageError, match="missing is not defined"):
            page.evaluate("missing")
