"""README.md is short and says what is so; its commands, and those and the Python of pages of docs/, do what they say."""

import contextlib
import io
import json
import re

import pytest
from generated import ROOT, shell_commands

from redco_new import cli
from redco_new.inspect import schema
from redco_new.models.recipes import RECIPES

README = (ROOT / "README.md").read_text()
TABLES = ROOT / "tests/tools"
MOST_BYTES = 6 * 1024


def page(name):
    return (ROOT / f"docs/{name}.md").read_text()


def redco(command, folder):
    """(exit code, stdout) of a command of redco's, in this process, which has imported it."""
    program, *args = command.split()
    assert program == "redco"
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
        return cli.run(cli.redco_app, program, args), out.getvalue()


def test_our_readme_is_short():
    assert len(README.encode()) <= MOST_BYTES


def test_the_excerpt_is_of_what_is_emitted():
    (excerpt,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    first, *pairs, last = excerpt.splitlines()
    assert len(excerpt.splitlines()) == 12 and (first, last) == ("PARAMS = {", "}")
    emitted = (ROOT / "golden/gpt-j-4/project/my_project/sharding.py").read_text()
    place = emitted.index(first)
    for reason, spec in zip(pairs[::2], pairs[1::2], strict=True):
        place = emitted.index(f"{reason}\n{spec}\n", place)


def row(beginning):
    """The two figures of a row of what is measured, as README has it."""
    (cells,) = re.findall(
        rf"^\| {re.escape(beginning)}.*? \| (.*) \| (.*) \|$", README, re.MULTILINE
    )
    return cells


def test_what_it_says_of_collectives_is_recorded():
    table = (TABLES / "tables/collectives.md").read_text().split("\n## ")[1]
    assert table.startswith("H100")
    rows = [re.findall(r"; ([\d.]+); ", line) for line in table.splitlines() if "; " in line]
    sent = [tuple(map(float, figures)) for figures in rows if len(figures) == 3]
    assert f"{len(sent)} models" in README and all(ours <= hand for ours, hand, _ in sent)
    fewer = sum(ours < hand for ours, hand, _ in sent)
    more, less = (sum(sign * ours < sign * redco for ours, _, redco in sent) for sign in (1, -1))
    assert row("a plan without names") == (
        f"never more than Megatron's plan by hand, less in {fewer}",
        f"Redco 0.4.23's rules: more in {more}, less in {less}",
    )


def test_what_it_says_of_an_h100_is_recorded():
    text = (TABLES / "device/RESULTS.md").read_text()
    steps = re.findall(r"\| ([+-][\d.]+) % \|.*\| ([+-][\d.]+) % \|", text)
    memory, time = (max(abs(float(x)) for x in column) for column in zip(*steps, strict=True))
    assert f"{len(steps)} steps on an H100" in README
    assert row("fit without")[0].startswith(f"memory within {memory} %, time within {time} % of")
    ours, torch = row("that step")
    assert "299.1 ms, 54,769 tokens/s, 46.0 GB" in text and "299 ms, 46.0 GB" in torch
    assert (
        "248.2 ms, 66,008 tokens/s (1.21\n  times), 39.3 GB" in text and ours == "248 ms, 39.3 GB"
    )


def test_what_it_says_of_merges_is_recorded():
    text = (TABLES / "merges/RESULTS.md").read_text()
    samples = re.findall(r"\*\*all\*\*" + r" \| (\d+)" * 7, text)
    files, match, conflict, differ, *git = (
        sum(map(int, one)) for one in zip(*samples, strict=True)
    )
    assert f"{files:,} files that people merged" in README
    assert row("code that is yours") == (
        f"{match} as they did, {conflict} asked, {differ} otherwise",
        f"git: {git[0]}, {git[1]}, {git[2]}",
    )


def test_its_stories_are_those_of_the_pages():
    stories = README.partition("## Three stories")[2].partition("\n## ")[0]
    own = page("tutorials/own-class").replace("\ncd my-cnn\n", "\ncd my-cnn && pip install -e .\n")
    blocks = re.findall(r"```bash\n(.*?)```", stories, re.DOTALL)
    assert len(blocks) == 3 and all(len(block.splitlines()) == 3 for block in blocks)
    assert (
        blocks[0] in page("tutorials/lora")
        and blocks[1] in own
        and f"redco-new {' '.join(RECIPES['ppo'].create)}\n" in blocks[2]
    )
    assert f"{len(RECIPES)} kinds of training" in stories


def test_the_commands_of_our_readme_are_those_of_the_demo():
    """Which .ci/run runs."""
    commands = shell_commands(README)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {c.split()[1] for c in commands if c.startswith("make ")} == {"demo", "test"} <= targets
    create, again, train = commands[0], commands[4], commands[7]
    assert create == again and create.startswith("redco-new ")
    assert f"{create}\ncd my-project\npip install -e .\n{train}\n" in page("tutorials/first-run")
    demo = re.sub(r'"\$bin/([a-z-]+)"', r"\1", (ROOT / "tests/demo.sh").read_text())
    short = train.replace("--steps 200", '--steps "$steps"')
    assert f"\n{create}\ncd my-project\n{short}\n" in demo
    assert " demo " in (ROOT / ".ci/run").read_text()


@pytest.mark.slow
def test_the_commands_of_the_page_of_inspect_work(tmp_path):
    commands = shell_commands(page("how-to/inspect"))
    assert len(commands) == 3 and all(c.startswith("redco inspect ") for c in commands)
    for command in commands:
        code, out = redco(command, tmp_path)
        assert code == 0 and "--html" in command or "layers/attn/q/kernel" in out
    assert "layers/attn/q/kernel" in (tmp_path / "plan.html").read_text()
    assert [*json.loads(out)] == [*schema.Document.__annotations__]
