"""The table of chats: what is learned of five of them by each template that TRL has a copy of, ours beside TRL's.

python tests/tools/chats/table.py   rewrites RESULTS.md, recorded.json and templates

TRL is read and not imported, so that it needs none of what it asks for.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from learned import CHATS, marks_answers, ours, theirs, verdict

HERE = Path(__file__).parent
KEPT = ("deepseekv3", "glm4moe", "gptoss", "phi3", "qwen3")  # of free licences, for the test
HEAD = """# What is learned of a chat, beside TRL

`make table NAME=chats` writes five chats by each template that TRL {version} has a copy of, as models ship them: one turn, with a system message, two turns,
an answer with `reasoning_content`, and a call of a tool. Texts and what is learned of them, ours by the model's own template, TRL's by the training template
that it takes in its place. {same} of {compared} are the same, {more} learn of what invites an answer too with TRL, {rows} are a row for each answer with ours, {refused} are refused by ours and
trained by TRL without what its template leaves out (thoughts, calls, texts that are no parts), {other} differ otherwise; {alone} have no training template, where TRL refuses.

| template | {chats} |
|---|{lines}
"""
FOOT = """
- **TRL learns ... too**: what `add_generation_prompt` writes already, such as gpt-oss's `<|start|>assistant`. Nobody asks a model for it.
- **2 rows**: the template writes an earlier answer otherwise once others follow, without thoughts, or, of gpt-oss, with `<|end|>` in the place of `<|return|>`: each answer is
  learned as the model has to say it, with what ends it (`<|return|>`). TRL learns `<|end|>` behind gpt-oss's first answer.
- **refused**: with a line that names what the template leaves out.
- GLM writes nothing behind an answer: `<|user|>` or `<|observation|>` ends it, which both learn. Gemma 4 stops at a call's `<|tool_response>`.
"""


def templates(folder: Path) -> dict[str, tuple[str, str | None]]:
    """Return of each model its template, and what TRL trains it with; None where it has none."""
    read = {path.stem: path.read_text() for path in sorted(folder.glob("*.jinja"))}
    return {
        name: (text, read.get(f"{name}_training", text if marks_answers(text) else None))
        for name, text in read.items()
        if not name.endswith("_training")
    }


def main() -> None:
    requirement = (HERE / "requirements.txt").read_text().strip()
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        subprocess.run([*pip, requirement], check=True)
        source = Path(folder) / "trl/chat_templates"
        found = templates(source)
        for name in KEPT:
            shutil.copy(source / f"{name}.jinja", HERE / "templates")
    recorded, lines, count = {}, [], dict.fromkeys("same more rows refused other alone".split(), 0)
    for name, (template, training) in found.items():
        cells = []
        for chat, row in CHATS.items():
            own, peer = ours(template, row), theirs(training, row) if training else None
            said = verdict(own, peer, training is not None)
            count[kind(said, training is not None)] += 1
            cells.append(said)
            if name in KEPT:
                recorded.setdefault(name, {})[chat] = {"ours": own, "TRL": peer, "verdict": said}
        lines.append(f"| {name} | {' | '.join(cells)} |\n")
    count["compared"] = sum(count.values()) - count["alone"]
    head = HEAD.format(
        version=requirement.split("=")[-1],
        chats=" | ".join(CHATS),
        lines="---|" * len(CHATS),
        **count,
    )
    (HERE / "RESULTS.md").write_text(head + "".join(lines) + FOOT)
    text = json.dumps(recorded, indent=1, ensure_ascii=False)
    (HERE / "recorded.json").write_text(text + "\n")


def kind(said: str, has_peer: bool) -> str:
    """Return what a verdict counts as."""
    if not has_peer:
        return "alone"
    kinds = {"the same": "same", "both refuse": "same", "refused": "refused"}
    if said.endswith(" rows"):
        return "rows"
    return kinds.get(said, "more" if said.startswith("TRL learns") else "other")


if __name__ == "__main__":
    main()
