"""The site that `make docs` makes of the pages: each link leads somewhere in it, nothing of it comes from elsewhere, no
page is lost, and in Debian's Chromium (site_pages.mjs) it does what readers need."""

import functools
import html.parser
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

import markdown_it
import pytest
from browser import Browser
from clients import scenarios_of
from conftest import ROOT

TOOLS = ROOT / "docs/site"
PREFIX = "/some/where/"
MARKS = ("h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "pre", "code", "blockquote", "a", "em", "strong")


def build(folder, **environment):
    """The site, in folder/docs."""
    made = subprocess.run(["make", "docs", f"BUILD={folder}"], cwd=ROOT, env={**os.environ, **environment},
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def hooks():
    sys.path.insert(0, str(TOOLS))
    try:
        import hooks
    finally:
        sys.path.remove(str(TOOLS))
    return hooks


class Page(html.parser.HTMLParser):
    """What a page has: .ids .links .loaded .marks .text, and those of its navigation, .listed"""

    def __init__(self, text, is_article=False):
        super().__init__()
        self.ids, self.links, self.loaded, self.listed, self.marks = set(), [], [], [], dict.fromkeys(MARKS, 0)
        self.descriptions, self.title, self.text = [], "", ""
        self.is_article, self.hidden, self.tag, self.depth = is_article, None, "", 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        has = {name: value or "" for name, value in attributes}
        classes = has.get("class", "").split()
        self.tag = tag
        self.ids |= {has["id"]} if "id" in has else set()
        self.is_article |= tag == "article"
        if tag == "meta" and has.get("name") == "description":
            self.descriptions.append(has["content"])
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
            if "md-nav__link" in classes or not classes:
                self.listed.append(has["href"])
        if tag in ("link", "script", "img", "source", "iframe", "use"):
            self.loaded += [has[name] for name in ("href", "src", "srcset") if name in has]
        if {"headerlink", "filename"} & set(classes):
            self.hidden = tag
        elif self.is_article and tag in MARKS:
            self.marks[tag] += 1

    def handle_endtag(self, tag):
        self.tag = ""
        if tag == self.hidden:
            self.hidden = None
        if tag == "article":
            self.is_article = False

    def handle_data(self, data):
        self.title += data if self.tag == "title" and not self.title else ""
        self.text += data if self.is_article and not self.hidden else ""


@pytest.fixture(scope="module")
def pages(site):
    """{path: Page}"""
    return {str(path.relative_to(site)): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def test_each_link_leads_to_a_file_and_a_heading_of_the_site(site, pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            target, _, anchor = link.partition("#")
            if re.match("[a-z]+:", target):
                continue
            to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(target))) if target else path
            if target.startswith("/") or to.startswith("..") or not (site / to).is_file():
                wrong.append(f"{path}: {link}: no such file")
            elif anchor and to in pages and urllib.parse.unquote(anchor) not in pages[to].ids:
                wrong.append(f"{path}: {link}: no such heading")
    assert wrong == []


def test_nothing_comes_from_elsewhere(site, pages):
    assert [(path, link) for path, page in pages.items() for link in page.loaded if re.match("[a-z]*:?//", link)] == []
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", path.read_text()) == [], path


def test_each_page_has_a_title_and_a_description(pages):
    for path, page in pages.items():
        assert page.title == "Tally" if path == "index.html" else re.fullmatch(r"\S.* - Tally", page.title), path
        assert [len(words) for words in page.descriptions if words.strip()], path
    assert len({page.descriptions[0] for page in pages.values()}) > len(pages) * 0.8


def test_each_page_of_the_documents_is_in_the_navigation(pages, hooks):
    listed = {os.path.normpath(link) for link in pages["index.html"].listed}
    for path in (ROOT / "docs").rglob("*.md"):
        name = str(path.relative_to(ROOT))
        if not name.startswith(hooks.PIECES):
            assert re.sub(r"(README)?\.md$", lambda found: "index.html" if found[1] else ".html", name) in listed, name


def test_a_page_that_no_list_has_ends_the_build(tmp_path):
    for name, text in [("README.md", "# Home"), ("docs/README.md", "# All pages\n\n## Tutorials\n- [One](one.md)"),
                       ("docs/one.md", "# One"), ("docs/lost.md", "# Lost")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(TOOLS, tmp_path / "docs/site")
    ask = [sys.executable, "-B", "-c", "import hooks; print(hooks.navigation())"]
    said = subprocess.run(ask, cwd=tmp_path / "docs/site", capture_output=True, text=True)
    assert said.returncode == 1 and "nor a README in it leads to docs/lost.md" in said.stderr
    (tmp_path / "docs/lost.md").unlink()
    said = subprocess.run(ask, cwd=tmp_path / "docs/site", capture_output=True, text=True)
    assert "{'Tutorials': [{'One': 'docs/one.md'}]}" in said.stdout, said.stderr


def test_a_page_says_what_its_markdown_says(site, pages, hooks):
    """Python-Markdown reads some Markdown in its own way; markdown-it reads it as those do who show it in a list of
    files."""
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name in filter(hooks.is_page, hooks.reached()):
        path = re.sub(r"README\.md$", "index.md", name).removesuffix(".md") + ".html"
        meant = Page(parser.render(hooks.text_of(name)), is_article=True)
        assert pages[path].marks == meant.marks, name
        assert "".join(pages[path].text.split()) == "".join(meant.text.split()), name


def test_the_same_pages_make_the_same_site(site, tmp_path):
    again = build(tmp_path, TZ="Asia/Tokyo", PYTHONHASHSEED="7", LC_ALL="C")
    files = sorted(path.relative_to(site) for path in site.rglob("*"))
    assert files == sorted(path.relative_to(again) for path in again.rglob("*"))
    for path in files:
        assert (site / path).is_dir() or (site / path).read_bytes() == (again / path).read_bytes(), path


# --- in a browser -----------------------------------------------------------------------------------------------------


class Under(http.server.SimpleHTTPRequestHandler):
    """A site under a prefix, with its page for what is missing."""

    def translate_path(self, path):
        path = urllib.parse.urlsplit(path).path
        return os.path.join(self.directory, path.removeprefix(PREFIX)) if path.startswith(PREFIX) else "/nonexistent"

    def send_error(self, code, message=None, explain=None):
        body = pathlib.Path(self.directory, "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def addresses(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Under, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {"http": f"http://127.0.0.1:{server.server_port}{PREFIX}", "file": f"file://{site}/"}
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    running = Browser("site_pages.mjs")
    yield running
    running.stop()


@pytest.mark.parametrize("scenario", scenarios_of("site_pages.mjs"))
def test_it(scenario, browser, addresses, pages):
    browser.run(scenario, **addresses, pages=sorted(set(pages) - {"404.html"}))
