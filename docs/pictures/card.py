"""Draw the pictures of a card that README.md and docs/tutorial.md show, from the page of a real run, by Chromium.

``python docs/pictures/card.py PAGE card.png`` draws the first card of a page down to its drawing; with ``--marks`` down to the remedy, and the
numbers stand on it that the table of the tutorial explains. Both are of ``icequake prove undelete``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

WIDTH, SCALE = 1000, 0.9
MARKS = {
    ".card summary b": "1",
    ".card .consequence": "2",
    ".card .why": "3",
    ".card svg.plot .bar": "4",
    ".card svg.plot .commit-name": "5",
    ".card svg.plot .reads": "6",
    ".card svg.plot .held": "7",
    ".card table tbody tr": "8",
    ".card .beside dl": "9",
}
"""What each number stands at: the first element that the selector finds."""
LOOK = """
header, nav, .top, main > :not(#anomalies), #anomalies > :not(.card:first-of-type), #anomalies h2 { display: none !important }
body, main { margin: 0 !important; padding: 6px 10px !important; background: white }
.card > .body ol:not(dd ol) { display: none !important }
.card details, .card pre, .card .scroll:has(table) ~ .scroll, .card .scroll:has(table) ~ p { display: none !important }
SHORT { display: none !important }
body { padding-left: 28px !important }
.mark { position: absolute; width: 20px; height: 20px; border-radius: 10px; background: #b3261e; color: white;
        font: bold 13px/20px sans-serif; text-align: center; z-index: 9 }
"""
SCRIPT = """
for (const [selector, number] of Object.entries(MARKS)) {
  const found = document.querySelector(selector);
  if (!found) continue;
  const at = found.getBoundingClientRect(), mark = document.createElement("span");
  mark.className = "mark"; mark.textContent = number;
  const x = found.matches(".reads") ? at.right + 6 : at.left - 24, y = found.matches(".reads") ? at.bottom - 20 : at.top - 1;
  mark.style.left = Math.max(0, x) + scrollX + "px"; mark.style.top = y + scrollY + "px";
  document.body.append(mark);
}
document.title = Math.ceil(document.querySelector(".card").getBoundingClientRect().bottom + 10);
"""


def shown(page: str, marks: bool) -> str:
    """The page with nothing but its first card, and with the numbers."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    look = LOOK.replace("SHORT", ".nothing" if marks else ".card table, .card .beside dl")
    page = page.replace("</head>", f"<style>{look}</style></head>", 1)
    script = f"const MARKS = {json.dumps(MARKS if marks else {})};{SCRIPT}"
    return page.replace("</body>", f"<script>{script}</script></body>", 1)


def chromium(*words: str) -> str:
    """What a Chromium without a window prints."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"]
    return subprocess.run([program, *flags, *words], capture_output=True, text=True, check=True, timeout=60).stdout


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("page", type=Path)
    options.add_argument("picture", type=Path)
    options.add_argument("--marks", action="store_true", help="with the numbers of the tutorial")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "card.html")
        file.write_text(shown(given.page.read_text(encoding="utf-8"), given.marks), encoding="utf-8")
        height = re.search(r"<title>(\d+)</title>", chromium(f"--window-size={WIDTH},800", "--dump-dom", file.as_uri()))
        assert height is not None, f"{given.page} has no card"
        chromium(
            f"--window-size={WIDTH},{height[1]}",
            f"--force-device-scale-factor={SCALE}",
            f"--screenshot={given.picture.resolve()}",
            file.as_uri(),
        )


if __name__ == "__main__":
    main()
