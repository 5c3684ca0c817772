"""What MkDocs asks while it makes the site: which pages there are, how they hang together, and what is added to them.

The pages are README.md, those of docs/, and whatever these lead to by links, from anywhere in the repository. A file
that is no page becomes one that shows it; so does a folder without a README. The navigation is docs/README.md: a
heading is a section, a link of its table a page. A README in it brings the pages of its own folder to which it links.
A page of docs/ that is in none of them ends the build."""

import functools
import html
import json
import os
import pathlib
import posixpath
import re

import pygments.lexers
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME, ALL_PAGES = "README.md", "docs/README.md"
PIECES = "docs/reference/notes/"  # of pages that `make reference` writes
PICTURES = (".svg", ".png")
IGNORED = ("node_modules", "__pycache__")
GROUPED_ABOVE = 20  # pages of one README are grouped by its headings if there are more
DESCRIPTION_MAX = 160

# Code in a line, or the end of a link.
IN_LINE = re.compile(r"`+[^`\n]*`+|\]\((?P<link>[^)\s]+)\)")
BLOCK = re.compile(r"(?ms)^ *(`{3,})[^`\n]*\n.*?^ *\1 *$")
FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
DARK_RULES = re.compile(r"@media *\(prefers-color-scheme: *dark\) *\{((?:[^{}]*\{[^{}]*\})*[^{}]*)\}")
ITEM = re.compile(r"(?P<indent> *)(?:[-*]|\d\.) ")
IMAGE = re.compile(r'(?:src|srcset)="([^"]+)"')


# --- The repository ---------------------------------------------------------------------------------------------------


def is_page(path):
    return path.endswith(".md")


def is_file_of(page):
    """Is it a file of the repository, and not made to show one?"""
    return (ROOT / page).is_file()


def leads_to(page, link):
    """The file to which a link of a page leads, from the root on, and its anchor. None if that is another site."""
    path, _, anchor = link.partition("#")
    if re.match("[a-z]+:", link):
        return None, anchor
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if target.startswith("../"):
        raise PluginError(f"{page}: a link leaves the repository: {link}")
    if (ROOT / target).is_dir():
        target = posixpath.join(target, "README.md")
    elif not is_page(target) and not target.endswith(PICTURES):
        target += ".md"  # the page that shows it
    return target, anchor


@functools.cache
def text_of(page):
    """The Markdown of a page: a file, or what shows a file or a folder."""
    path = ROOT / page
    if is_file_of(page):
        return path.read_text()
    if (ROOT / page.removesuffix(".md")).is_file():
        return shown_file(page.removesuffix(".md"))
    if path.name == "README.md" and path.parent.is_dir():
        return shown_folder(path.parent)
    raise PluginError(f"{page}: there is no such file")


def shown_file(name):
    text = (ROOT / name).read_text()
    try:
        lexer = pygments.lexers.get_lexer_for_filename(name)
    except pygments.util.ClassNotFound:
        lexer = pygments.lexers.guess_lexer(text) if text.startswith("#!") else pygments.lexers.TextLexer()
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text) or [""]))
    return f"# {posixpath.basename(name)}\n\n`{name}`\n\n{fence}{lexer.aliases[0]}\n{text.rstrip()}\n{fence}\n"


def shown_folder(folder):
    entries = [entry for entry in sorted(folder.iterdir()) if entry.name not in IGNORED and entry.name[0] != "."]
    name = str(folder.relative_to(ROOT))
    lines = [f"- [{title_of(f'{name}/{entry.name}')}]({entry.name})" for entry in entries]
    return f"# {folder.name.capitalize()}\n\n`{name}`\n\n" + "\n".join(lines) + "\n"


def title_of(page):
    found = re.search(r"^# +(.*)$", text_of(page), re.MULTILINE) if is_page(page) else None
    return plain(found[1]) if found else posixpath.basename(page)


def plain(text):
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"<[^>]*>|\*\*|`", "", text).split())


def links_of(page):
    """Where its links lead, in their order."""
    found = IN_LINE.finditer(BLOCK.sub("", text_of(page)))
    return [leads_to(page, one["link"])[0] for one in found if one["link"]]


@functools.cache
def reached():
    """All pages and pictures of the site, in order."""
    pages = {HOME, ALL_PAGES}
    pages.update(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    waiting = sorted(page for page in pages if not page.startswith(PIECES))
    found = set(waiting)
    while waiting:
        page = waiting.pop()
        images = [leads_to(page, link)[0] for link in IMAGE.findall(text_of(page))]
        new = {path for path in [*links_of(page), *images] if path} - found
        found |= new
        waiting.extend(path for path in new if is_page(path))
    return sorted(found)


# --- The navigation ---------------------------------------------------------------------------------------------------


def sections_of(page):
    """(heading, text) of each section; what is before the first has none."""
    parts = re.split(r"^## +(.*)$", text_of(page), flags=re.MULTILINE)
    return [("", parts[0]), *zip(map(plain, parts[1::2]), parts[2::2])]


def entries_of(page, text, is_wanted):
    """(name, page) of the links in a text to pages. A link that begins a row or an item is its page's name."""
    for line in text.splitlines():
        for found in re.finditer(r"\[([^]]*)\]\(([^)\s]+)\)", line):
            target, _ = leads_to(page, found[2])
            if target and is_page(target) and is_wanted(target):
                begins = re.fullmatch(r"(?:[|*-] *)?", line[: found.start()])
                yield (plain(found[1]) if begins else title_of(target)), target


def navigation():
    """The sections of docs/README.md, behind the home page and what it leads to before its first heading."""
    named = {target for _, text in sections_of(ALL_PAGES) for _, target in entries_of(ALL_PAGES, text, bool)}
    placed = {HOME, ALL_PAGES}

    def place(words, page):
        placed.add(page)
        if posixpath.basename(page) != "README.md":
            return {words: page}
        folder = posixpath.dirname(page) + "/"

        def is_below(target):
            return target.startswith(folder) and target not in named and is_file_of(target)

        groups = []
        for heading, text in sections_of(page):
            rows = []
            for entry in entries_of(page, text, is_below):
                if entry[1] not in placed:
                    rows.append(place(*entry))
            if rows:
                groups.append((heading, rows))
        if sum(len(rows) for _, rows in groups) > GROUPED_ABOVE and len(groups) > 1:
            below = [{heading: rows} for heading, rows in groups]
        else:
            below = [row for _, rows in groups for row in rows]
        return {words: [page, *below] if below else page}

    nav = []
    (_, before), *sections = sections_of(ALL_PAGES)
    for heading, text in sections:
        rows = [place(*entry) for entry in entries_of(ALL_PAGES, text, lambda target: True) if entry[1] not in placed]
        nav.append({heading: rows})
    others = [place(*entry) for entry in entries_of(ALL_PAGES, before, lambda target: True) if entry[1] not in placed]
    nav = [{"Home": HOME}, {title_of(ALL_PAGES): [ALL_PAGES, *others]}, *nav]
    lost = [page for page in reached()
            if page.startswith("docs/") and is_page(page) and is_file_of(page) and page not in placed]
    if lost:
        raise PluginError(f"neither docs/README.md nor a README in it leads to {', '.join(lost)}")
    return nav


# --- What MkDocs asks -------------------------------------------------------------------------------------------------


def on_config(config):
    for cached in (text_of, reached):
        cached.cache_clear()  # `make docs-serve` builds again and again
    config["nav"] = navigation()
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def slug(heading, _separator):
    """The name that a code host gives to a heading, which is the one that links use."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_files(files, config):
    files.append(File("icon.svg", str(ROOT / "src/ui/web"), config["site_dir"], use_directory_urls=False))
    for path in reached():
        file = File(path, str(ROOT), config["site_dir"], use_directory_urls=False)
        if path == HOME:
            file.url = "index.html"  # and not its folder, which shows no page without a server
        files.append(file)
    return files


def on_page_read_source(page, config):
    return text_of(page.file.src_path)


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_path
    page.meta["title"] = title_of(name) if name != HOME else None
    page.meta["description"] = description_of(markdown)
    if name == HOME:
        page.meta["hide"] = ["navigation"]

    return written_for_python_markdown(markdown, functools.partial(link_in_site, name))


def link_in_site(page, link):
    target, anchor = leads_to(page, link)
    if target is None:
        return link
    path = os.path.relpath(target, posixpath.dirname(page) or ".")
    return f"{path}#{anchor}" if anchor else path


def written_for_python_markdown(markdown, link_of):
    """The same text, with other links, as Python-Markdown wants it: a list does not follow a paragraph at once, what
    belongs to an item is indented by four, no bar in the code of a table is escaped, and a block's name is a title."""

    def in_line(found):
        if found["link"]:
            return f"]({link_of(found['link'])})"
        if "\\|" in found[0]:
            code = html.escape(found[0].strip("`")).replace("\\|", "&#124;")
            return f"<code>{code}</code>"
        return found[0]

    lines, fence, before, is_in_item, width, more = [], None, "", False, 0, 0
    for line in markdown.splitlines():
        begins, item = FENCE.match(line), ITEM.match(line)
        if fence is None:
            if item and before.strip() and not is_in_item:
                lines.append("")
            if item or not before.strip():
                is_in_item = item is not None
            if item and item["indent"] == "":
                width = len(item[0])
            elif line.strip() and line[0] != " " and not before.strip():
                width = 0
            indent = len(line) - len(line.lstrip())
            more = 4 * (indent // width) - indent if width and indent >= width else 0
        if fence:
            is_in_item = False
            fence = None if line.strip() == fence else fence
        elif begins:
            fence = begins["ticks"]
            line = f"{begins['indent']}{fence}{info_of(*begins['info'].split())}"
        else:
            line = IN_LINE.sub(in_line, line)
            line = re.sub(r"^( *\d{2,})\. ", r"\1\. ", line)  # a number that a line happens to begin with
        lines.append(" " * more + line if line else "")
        before = line
    return "\n".join(lines)


def info_of(language="text", *words):
    """What stands behind the backticks, as tests/system/pages.py knows it, for the highlighter."""
    title = " ".join(words) if language != "console" else "in a terminal of its own" if "server" in words else ""
    return f'{language} title="{title}"' if title else language


def description_of(markdown):
    """The first paragraph, cut at the end of a sentence or of a word."""
    text = re.sub(r"(?ms)^ *(`{3,}).*?^ *\1 *$|<!--.*?-->|<[^>]*>", "", markdown)
    paragraphs = (part for part in re.split(r"\n\s*\n", text) if not re.match(r"\s*([#|!>]|[-*] |$)", part))
    words = plain(next(paragraphs, ""))
    if len(words) <= DESCRIPTION_MAX:
        return words
    head = words[: DESCRIPTION_MAX - 1]
    sentence = re.match(r".*[.!?](?=\s)", head)
    return sentence[0] if sentence else head.rsplit(" ", 1)[0] + "…"


def on_page_content(content, page, config, files):
    content = re.sub(r"<picture>.*?</picture>", themes_of_picture, content, flags=re.DOTALL)
    content = re.sub(r'<img [^>]*?\bsrc="([^"]*\.svg)"[^>]*>', functools.partial(themes_of_svg, page), content)
    # A head without words is there because Markdown wants one.
    content = re.sub(r"<thead>(?:\s|</?tr>|<th[^>]*></th>)*</thead>", "", content)
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", content)


def for_theme(image, theme, source):
    """An image for one of the themes; site.css hides it in the other one."""
    image = re.sub(r'\bsrc="[^"]*"', f'src="{source}"', image)
    return image.replace("<img ", f'<img class="only-{theme}" loading="lazy" ', 1)


def themes_of_picture(found):
    dark = re.search(r'<source[^>]*dark[^>]*srcset="([^"]+)"', found[0])[1]
    image = re.search(r"<img [^>]*>", found[0])[0]
    light = re.search(r'\bsrc="([^"]+)"', image)[1]
    return for_theme(image, "light", light) + for_theme(image, "dark", dark)


def themes_of_svg(page, found):
    """A picture that follows the reader's system becomes two, so that it follows the site's switch, too."""
    path, _ = leads_to(page.file.src_path, found[1])
    if not DARK_RULES.search(text_of(path)):
        images = [found[0].replace("<img ", '<img class="is-light" ', 1)]
    else:
        images = [for_theme(found[0], theme, found[1].replace(".svg", f"-{theme}.svg")) for theme in ("light", "dark")]
    return f'<span class="picture">{"".join(images)}</span>'


def on_post_page(output, page, config):
    """The head and the navigation are most of a page, and blanks most of these. And the search gets what those miss who
    don't see it."""
    head, article, rest = output.partition("<article")
    head = head.replace(' role="dialog"', ' role="dialog" aria-label="Search"', 1)
    head = head.replace('class="md-search__scrollwrap"', 'class="md-search__scrollwrap" tabindex="0"', 1)
    return re.sub(r"\s*\n\s*", "\n", head) + article + rest


def on_post_build(config):
    site = pathlib.Path(config["site_dir"])
    for name in ("sitemap.xml", "sitemap.xml.gz"):  # which would name addresses that nobody knows
        (site / name).unlink(missing_ok=True)
    write_search(site)
    for path in reached():
        if path.endswith(".svg") and DARK_RULES.search(text_of(path)):
            light, dark = DARK_RULES.sub("", text_of(path)), DARK_RULES.sub(r"\1", text_of(path))
            (site / path).with_name(pathlib.Path(path).stem + "-light.svg").write_text(light)
            (site / path).with_name(pathlib.Path(path).stem + "-dark.svg").write_text(dark)
            (site / path).unlink()


def write_search(site):
    """The index and the worker as scripts, for search.js. Files that are only shown are not looked through."""
    path = site / "search/search_index.json"
    index = json.loads(path.read_text())
    shown = {path.removesuffix(".md") + ".html" for path in reached() if is_page(path) and not is_file_of(path)}
    entries = each_text_once(index["docs"])
    index["docs"] = [entry for entry in entries if entry["location"].partition("#")[0] not in shown]
    text = json.dumps(index, separators=(",", ":"))
    path.write_text(text)
    path.with_suffix(".js").write_text(f"var __index = {text};\nglobalThis.__searchIndex?.(__index);\n")
    scripts = site / "assets/javascripts"
    (worker,) = scripts.glob("workers/search.*.js")
    path.with_name("search_worker.js").write_text(f"__searchWorker({json.dumps(worker.read_text())});\n")
    if any("__search.index" in script.read_text() for script in scripts.glob("bundle.*.js")):
        path.unlink()  # the theme takes the index from search.js; later ones read this file, or __index


def each_text_once(entries):
    """The search of MkDocs has an entry with the whole text of a page, and one for each heading; that of later themes
    has no text twice. Of a page the search shows what is before its second heading, and so that is all that stays."""
    pages = {}
    for entry in entries:
        address, _, anchor = entry["location"].partition("#")
        if not anchor:
            pages[address] = entry
        elif page := pages.pop(address, None):
            if "".join(entry["text"].split()) in "".join(page["text"].split()):
                page["text"] = entry["text"]
    return entries
