"""The report of a plan: on standard output as tables or JSON, and in a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from redco_new.inspect import page, text
from redco_new.inspect.document import plan_document

if TYPE_CHECKING:
    from redco_plan import Plan


def report_plan(model: str, plan: Plan, *, as_json: bool = False, html: Path | None = None) -> None:
    """Print a plan, as tables or as JSON; write its page to `html`.

    Raises RedcoError if the disk does not let it.
    """
    doc = plan_document(model, plan)
    if html:
        page.write_page(html, doc)
    if as_json:
        print(json.dumps(doc, indent=2))
    else:
        text.print_document(doc)
        if html:
            print(f"\nWrote {html}: open it in a browser.")
