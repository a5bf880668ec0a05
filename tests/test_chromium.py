"""The tests' own browser sees what a page does wrong: else no page could fail."""

from __future__ import annotations

from pathlib import Path

from tests.chromium import chromium_page, needs_chromium


@needs_chromium
def test_requests_errors_clicks_and_media_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "a page.html"
    path.write_text(
        "<style>@media print {p {color: red}}</style><p>text</p><input>"
        "<script>console.error('said'); fetch('http://127.0.0.1:9/x').catch(() => {}); null.thrown;</script>"
    )
    with chromium_page(tmp_path / "profile") as page:
        page.open(path)
        colour = "getComputedStyle(document.querySelector('p')).color"
        assert page.run(colour) == "rgb(0, 0, 0)"
        page.look(400, 300, paper=True, dark=True)
        assert page.run(colour) == "rgb(255, 0, 0)" and page.run("innerWidth") == 400
        assert page.run("matchMedia('(prefers-color-scheme: dark)').matches")
        page.run("document.querySelector('input').focus()")
        page.press("x")
        assert page.run("document.querySelector('input').value") == "x"
        page.screenshot(tmp_path / "seen.png")
        assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
        assert page.pdf().startswith(b"%PDF")
        assert page.requests == ["http://127.0.0.1:9/x"]
        assert any("said" in one for one in page.errors) and any("thrown" in one for one in page.errors)
