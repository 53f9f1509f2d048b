"""Look through the built pages as a reader would, in a browser: ``make docs-check``.

Every page is opened on a phone (390 px) and on a desktop (1280 px), those written by hand and the
gallery also in the dark, those of source code on the phone only. The script prints: requests to
other hosts, errors on the console, dead links and anchors, pictures that do not load, a header of
two lines, pages and tables that are wider than the screen and cannot be scrolled, examples of code
that are cut on a desktop, cut names of the API, missing or shared pictures of the gallery, and a
search without results. The exit status is 1 if anything was printed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from browser import browser

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
# A header of one line; the theme gives it 64 to 80 px.
ONE_LINE = 90
# What is wider than the screen and cannot be scrolled.
TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  const moves = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (p.matches(".bd-article-container")) return false;  // it holds the whole page
    else if (["auto", "scroll"].includes(getComputedStyle(p).overflowX) && p !== document.body) return true;
    return false; };
  const wide = [...document.querySelectorAll("article *, footer *, header *")].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && box.right > room + 1 && e.checkVisibility() && !moves(e);
  });
  if (document.documentElement.scrollWidth > room) wide.push(document.documentElement);
  return wide.slice(0, 3).map(e => `${e.tagName.toLowerCase()}.${e.className}`);
}"""
CUT = """() => ["table.autosummary td:first-child code", ".bd-breadcrumbs .ellipsis", ".api-names a"]
  .flatMap(name => [...document.querySelectorAll(name)])
  .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden")
  .map(e => e.textContent)"""
# An example of code that has to be scrolled sideways on a desktop.
CUT_CODE = """() => [...document.querySelectorAll("article pre")]
  .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map(e => `${e.scrollWidth} > ${e.clientWidth} px: ${e.textContent.split("\\n").sort(
    (a, b) => b.length - a.length)[0]}`)"""
EAGER = """addEventListener("DOMContentLoaded",
  () => document.querySelectorAll("img").forEach(e => { e.loading = "eager"; }))"""
BROKEN = "() => [...document.images].filter(e => e.complete && !e.naturalWidth).map(e => e.src)"


class Links(HTMLParser):
    """The places of a page, and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element is called and what it points at."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)
            elif value and name in ("href", "src"):
                self.targets.add(value)


def pages_of(folder: Path) -> list[Path]:
    """Return the pages, without what the theme is made of."""
    return [
        path
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.relative_to(folder).parts
    ]


def broken_links(folder: Path) -> Iterator[str]:
    """Yield the links between pages that lead nowhere."""
    pages = {}
    for path in pages_of(folder):
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for target in sorted(page.targets):
            address, place = urldefrag(target)
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            if address:
                end = (path.parent / unquote(urlsplit(address).path)).resolve()
            else:
                end = path
            end = end / "index.html" if end.is_dir() else end
            if not end.exists():
                yield f"{path.relative_to(folder)}: {target} is not there"
            elif place and end in pages and unquote(place) not in pages[end].places:
                yield f"{path.relative_to(folder)}: {target} has no such place"


def gallery_pictures(folder: Path) -> Iterator[str]:
    """Yield the examples whose picture is missing, or that of another one too."""
    seen: dict[str, str] = {}
    for path in sorted((folder / "gallery").glob("*.html")):
        if path.stem in ("index", "sg_execution_times"):
            continue
        thumbnail = folder / "_images" / f"sphx_glr_{path.stem}_thumb.png"
        if not thumbnail.exists():
            yield f"gallery/{path.name}: no thumbnail"
            continue
        other = seen.setdefault(hashlib.sha256(thumbnail.read_bytes()).hexdigest(), path.name)
        if other != path.name:
            yield f"gallery/{path.name}: the same thumbnail as {other}"
        if b"no_image" in thumbnail.read_bytes() or is_placeholder(thumbnail):
            yield f"gallery/{path.name}: a placeholder"


def is_placeholder(thumbnail: Path) -> bool:
    """Tell whether a thumbnail is the one that examples without pictures get."""
    import sphinx_gallery
    from PIL import Image, ImageChops

    with Image.open(Path(sphinx_gallery.__file__).parent / "_static" / "no_image.png") as given:
        stock = given.convert("RGB").resize((64, 64))
    with Image.open(thumbnail) as found:
        box = ImageChops.invert(found.convert("RGB")).getbbox()  # without the white around it
        small = found.convert("RGB").crop(box).resize((64, 64))
    stock = stock.crop(ImageChops.invert(stock).getbbox()).resize((64, 64))
    return sum(ImageChops.difference(small, stock).convert("L").histogram()[32:]) < 300


class Quiet(SimpleHTTPRequestHandler):
    """A server that does not talk."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def visits(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the pages in a browser."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}/"
    names = [str(path.relative_to(folder)) for path in pages_of(folder)]
    looks = {"light": (DESKTOP, "light"), "dark": (DESKTOP, "dark"), "phone": (PHONE, "light")}
    with browser() as started:
        for look, (size, scheme) in looks.items():
            page = started.new_context(viewport=size, color_scheme=scheme).new_page()
            heard: list[str] = []
            page.on(
                "request",
                lambda asked, heard=heard: (
                    asked.url.startswith((home, "data:")) or heard.append(f"asks {asked.url}")
                ),
            )
            page.on(
                "response",
                lambda got, heard=heard: (
                    got.status < 400 or heard.append(f"{got.status} {got.url}")
                ),
            )
            page.on(
                "console",
                lambda said, heard=heard: (
                    said.type != "error" or heard.append(f"console: {said.text}")
                ),
            )
            page.on("pageerror", lambda error, heard=heard: heard.append(f"error: {error}"))
            # What is scrolled to is loaded, so that no picture waits to be seen.
            page.add_init_script(EAGER)
            for name in names:
                if look not in looks_at(name):
                    continue
                heard.clear()
                page.goto(urljoin(home, name), wait_until="load")
                yield from (
                    f"{name} ({look}): {trouble}" for trouble in [*heard, *seen_on(page, look)]
                )
            if look == "phone":
                page.goto(home + "search.html?q=holdout")
                page.wait_for_timeout(2000)
                if page.locator("#search-results li").count() == 0:
                    yield "search.html: nothing is found"
            page.context.close()
    server.shutdown()


def looks_at(name: str) -> set[str]:
    """Return how a page is looked at. Many are made alike: one look at each is enough where they cannot differ."""
    if name.startswith("_modules/"):
        return {"phone"}
    if name.startswith("generated/"):
        return {"phone", "light"}
    return {"phone", "light", "dark"}


def seen_on(page: Any, look: str) -> Iterator[str]:
    """Yield what is wrong with a page that is open."""
    yield from (f"no picture {source}" for source in page.evaluate(BROKEN))
    yield from (f"cut: {name}" for name in page.evaluate(CUT))
    yield from (f"too wide: {element}" for element in page.evaluate(TOO_WIDE))
    if look == "phone":
        return
    yield from (f"cut code: {line}" for line in page.evaluate(CUT_CODE))
    header = page.locator(".bd-header").bounding_box()
    if header is None or header["height"] > ONE_LINE:
        yield f"the header is not on one line: {header}"
    if page.evaluate("document.documentElement.dataset.theme") != look:
        yield "the colours are not those asked for"


def main() -> None:
    """Look through a folder of pages."""
    folder = Path(
        sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "_build" / "html"
    ).resolve()
    if not (folder / "index.html").exists():
        raise SystemExit(f"There are no pages in {folder}: make docs builds them.")
    n_found = 0
    for trouble in chain(broken_links(folder), gallery_pictures(folder), visits(folder)):
        print(trouble, flush=True)
        n_found += 1
    print(f"{len(pages_of(folder))} pages looked through; to mend: {n_found}")
    sys.exit(n_found > 0)


if __name__ == "__main__":
    main()
