"""What is learned of chats by models' own templates is what the table recorded: TRL need not be here."""

import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1] / "tools/chats"
RECORDED = json.loads((HERE / "recorded.json").read_text())


def _on_a_day(texts):
    """Return texts, some of which say today's date, as of the day on which they were recorded."""
    day = re.search("Current date: [0-9-]{10}", json.dumps(RECORDED))[0]
    return json.loads(re.sub("Current date: [0-9-]{10}", day, json.dumps(texts)))


@pytest.mark.parametrize("name", RECORDED)
def test_chats_are_learned_as_recorded(name, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import learned

    template = (HERE / "templates" / f"{name}.jinja").read_text()
    for chat, row in learned.CHATS.items():
        own, recorded = _on_a_day(learned.ours(template, row)), RECORDED[name][chat]
        assert own == recorded["ours"], chat
        assert learned.verdict(own, recorded["TRL"], True) == recorded["verdict"], chat
