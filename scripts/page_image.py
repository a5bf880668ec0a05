"""Takes the image for the guide on pages again: the sample detector's page, with its custom operator selected.

python scripts/page_image.py    # docs/guides/images/page.png; needs Chromium
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from pagecheck.chromium import Chromium  # noqa: E402

IMAGE = ROOT / "docs" / "guides" / "images" / "page.png"
SIZE = (1040, 1620)
CONVERT = "convert detector.onnx -o detector.plan --shapes images=1x3x64x64:2x3x64x64:8x3x128x128 --html detector.html"
CHOOSE = """(async () => {
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    [...document.querySelectorAll("#nodes tr")].find((row) => row.innerText.includes("MMCV")).click();
    await pause(600);
    document.querySelector("[title='show all (0)']").click();
    document.activeElement.blur();
    scrollTo(0, 0);
    await pause(100);
})()"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for words in ("sample detector", CONVERT):
            command = [sys.executable, "-m", "trtsmith", *words.split()]
            subprocess.run(command, cwd=folder, check=True)
        with Chromium(width=SIZE[0], height=SIZE[1]) as page:
            page.open(Path(folder, "detector.html"))
            page.evaluate(CHOOSE)
            page.screenshot(IMAGE)
    with Image.open(IMAGE) as image:  # a quarter of the bytes
        image.convert("P", palette=Image.Palette.ADAPTIVE).save(IMAGE, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
