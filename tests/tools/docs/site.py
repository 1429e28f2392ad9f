"""The site's pages that lie elsewhere in this repository, and links that leave docs/: a hook of mkdocs.yml.

On GitHub a link leads to the file; the site has the page of that file, or else its path.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of `extra.elsewhere`."""
    from mkdocs.structure.files import File  # here: tests read links without mkdocs

    for path, sources in config.extra["elsewhere"].items():
        files.append(File.generated(config, path, content=join(sources)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the links that leave docs/ into those of the site."""
    elsewhere = config.extra["elsewhere"]
    sources = elsewhere.get(page.file.src_uri, [f"docs/{page.file.src_uri}"])
    return site_links(markdown, page.file.src_uri, sources[0], elsewhere)


def join(sources: Sequence[str]) -> str:
    """Return the files as one page: the titles of further ones are its sections."""
    first, *others = [(ROOT / source).read_text() for source in sources]
    return "\n".join([first, *(re.sub("^#", "##", x, flags=re.MULTILINE) for x in others)])


def site_links(text: str, page: str, source: str, elsewhere: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a page of the site whose links are written as from the file `source`."""
    pages = {x: path for path, sources in elsewhere.items() for x in sources}

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))
        there = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if there is None:
            return words if path in words else f"{words} (`{path}`)"
        return f"[{words}]({os.path.relpath(there, os.path.dirname(page) or '.')}{anchor})"

    return LINK.sub(link, text)
