"""Headless Chromium: a page opened at a given width, and what it looks like there, as numbers."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    "--hide-scrollbars",  # as on a phone, where they take no room
)

PROBE = """
<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" style="width:%dpx;height:2000px;border:0" srcdoc="%s"></iframe>
<pre id="found"></pre>
<script>
document.getElementById("page").addEventListener("load", (event) => {
  const inside = event.target.contentDocument, root = inside.documentElement;
  const round = (n) => Math.round(n * 10) / 10;
  const pictures = [...inside.querySelectorAll("figure")].map((figure) => {
    const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")];
    return {
      name: figure.id, label: svg.getAttribute("aria-label"), role: svg.getAttribute("role"),
      left: round(box.left), right: round(box.right), height: round(box.height),
      texts: texts.map((t) => t.textContent),
      smallest: round(scale * Math.min(
        ...texts.map((t) => parseFloat(inside.defaultView.getComputedStyle(t).fontSize)))),
      outside: texts.filter((t) => { const b = t.getBoundingClientRect();
        return b.left < box.left - 1 || b.right > box.right + 1
          || b.top < box.top - 1 || b.bottom > box.bottom + 1; }).map((t) => t.textContent),
      colour: inside.defaultView.getComputedStyle(texts[0]).fill,
    };
  });
  document.getElementById("found").textContent = JSON.stringify({
    width: root.clientWidth, content: root.scrollWidth, pictures,
    ids: [...inside.querySelectorAll("[id]")].map((e) => e.id),
    fonts: [...inside.querySelectorAll("p, td, th, h1, h2, h3, span")].map(
      (e) => parseFloat(inside.defaultView.getComputedStyle(e).fontSize)),
    missing: [...inside.querySelectorAll("use")].map((e) => e.href.baseVal.slice(1)).filter(
      (id) => !inside.getElementById(id)),
  });
});
</script>
"""


def look(
    chromium: str, page: str, width: int, folder: Path, *, dark: bool = False
) -> tuple[dict[str, Any], str]:
    """(what `page` looks like `width` pixels wide, what the browser's console says).

    The page lies in a frame, since a headless window is never narrower than 500 pixels.
    """
    probe = folder / "probe.html"
    probe.write_text(PROBE % (width, html.escape(page, quote=True)), encoding="utf-8")
    scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run(
        [
            *(chromium, *FLAGS, *scheme, f"--user-data-dir={folder / 'profile'}"),
            *("--window-size=1400,2000", "--virtual-time-budget=10000", "--dump-dom"),
            probe.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    assert found[1], f"the page was not read: {done.stderr[-2000:]}"
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return json.loads(html.unescape(found[1])), console
