"""Write the pages of docs/ that are of the code: those of docs/reference, llms.txt, what servers expect; and that of macros.

python -m docs.reference --all     rewrites them: `make reference`
python -m docs.reference           the same without those that take long: `make golden`
python -m docs.reference --check   names those of these that are not as the code has them
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from docs.commands import cli
from docs.facts import errors, exit_codes, families, launchers
from docs.keys import keys
from docs.macros import page as macros
from docs.settings import config, contract
from servers import page as servers

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
NOTE = "<!-- Written by tests/tools/docs/reference.py of the code: `make reference`. -->\n\n"


def llms() -> str:
    """Return llms.txt: what this is, and its pages, for programs that read."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    readme = (ROOT / "README.md").read_text()
    lines = [f"# {site['site_name']}\n\n> {readme.splitlines()[2]}\n"]
    for section in site["nav"]:
        for title, pages in section.items() if isinstance(section, dict) else ():
            lines.append(f"\n## {title}\n\n")
            lines += [
                f"- [{heading(page, site)}]({page.removesuffix('.md')}.html)\n" for page in pages
            ]
    return "".join(lines)


def heading(page: str, site: Any) -> str:
    """Return the title of a page of the site."""
    sources = site["extra"]["elsewhere"].get(page)
    path = ROOT / sources[0] if sources else DOCS / page
    return next(x for x in path.read_text().splitlines() if x.startswith("# ")).removeprefix("# ")


SLOW: dict[str, Callable[[], str]] = {"reference/families.md": families}
PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": cli,
    "reference/config.md": config,
    "reference/pipeline.md": contract,
    "reference/exit-codes.md": exit_codes,
    "reference/launch.md": launchers,
    "reference/json.md": keys,
    "reference/errors.md": errors,
    "results/servers.md": servers.page,
    "llms.txt": llms,
    "../templates/models/shared/README.md": macros,
}


def written(page: str, make: Callable[[], str]) -> str:
    """Return a page as its file has it."""
    text = make()
    title, _, rest = text.partition("\n\n")
    return text if page == "llms.txt" else f"{title}\n\n{NOTE}{rest}"


def main(check: bool, everything: bool) -> int:
    """Write the pages, or name those that differ. Returns the exit code."""
    stale = []
    for page, make in ((SLOW if everything else {}) | PAGES).items():
        path, text = DOCS / page, written(page, make)
        if not path.exists() or path.read_text() != text:
            stale.append(page)
            if not check:
                path.write_text(text)
    for page in stale:
        print(f"docs/{page}: {'is not as the code has it: make reference' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:], "--all" in sys.argv[1:]))
