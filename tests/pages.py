"""The pages of the documentation, as tests read them."""

import re
import shlex
from pathlib import Path

import yaml
from generated import ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
ELSEWHERE = SITE["extra"]["elsewhere"]  # page of the site -> files of this repository
FILES = {ROOT / source for sources in ELSEWHERE.values() for source in sources}
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *FILES})


def prose(text: str) -> str:
    """Return the text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[tuple[str, str]]:
    """Return (path, anchor) of the links of a page that stay in this repository; "" for the page itself."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page.read_text())))
    inside = [target for target in targets if "://" not in target]
    return [(target.partition("#")[0], target.partition("#")[2]) for target in inside]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MkDocs name them."""
    titles = re.findall(r"^#+ (.*)$", prose(page.read_text()), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {re.sub(r"[- ]+", "-", name.strip()) for name in words}


def commands(text: str) -> list[list[str]]:
    """Return the commands of a page, as words: of its bash blocks, and of what stands in backticks."""
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    parts = [part for line in lines for part in re.split(r" && | \| ", line)]
    parts += re.findall(r"`((?:redco|redco-new|python -m my_\w+\.\w+|make) [^`]+)`", prose(text))
    return [words for part in parts if (words := shlex.split(part, comments=True))]
