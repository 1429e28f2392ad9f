"""Migrations of users' code: what they rewrite, and what they leave alone since they cannot prove it."""

import ast
import re
from pathlib import Path

import pytest

from redco_merge.migrate import LATEST, apply, migrate, stale_names
from redco_merge.migrate.codemods import Call, Migration, Moves, Rename
from redco_merge.migrate.moves import moved_path, new_name, with_moved
from redco_merge.migrate.versions import MIGRATIONS
from redco_merge.migrate.versions.rooms import MOVES

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "runtime"
FORMER = ROOT / "tests/update/former/my-project"
LOOP = "redco_runtime.loop"
CHANGES = (
    Migration(
        1,
        "names of tests",
        (
            Rename("redco_runtime.loop.say", "redco_runtime.cli.print_once"),
            Call("redco_runtime.loop.fit(steps, pipeline, run)", "project.train.train(steps, run)"),
            Call(
                "redco_runtime.loop.State(step, rest)",
                "redco_runtime.loop.State(rest=rest, step=step)",
            ),
            Call(
                "redco_runtime.loop.boot(hash=run.print)",
                "redco_runtime.loop.boot(facts=run.facts)",
            ),
            Call("redco_runtime.io.Store().read(a.state)", "self.read(a.state.model)"),
            Call(
                "redco_runtime.loop.check(pipeline, run)",
                "project.train.verify(run)",
                {"pipeline": "project.pipeline"},
            ),
        ),
        {"redco_runtime.loop.Trainer": "train() of train.py"},
    ),
)

LONG = "a" * 80  # a name
# name: (before, after); a file that stays as it is has no second text.
CASES = {
    "import": (
        "from redco_runtime.loop import say\nsay(1)\n",
        "from redco_runtime.cli import print_once\nprint_once(1)\n",
    ),
    "beside an import that is there": (
        "from redco_runtime.cli import command\nfrom redco_runtime.loop import keep, say\n\nsay(1)  # mine\n",
        "from redco_runtime.cli import command, print_once\nfrom redco_runtime.loop import keep\n\nprint_once(1)  # mine\n",
    ),
    "beside an import of it": (
        "from redco_runtime.cli import print_once\nfrom redco_runtime.loop import say\n\nsay(print_once)\n",
        "from redco_runtime.cli import print_once\n\nprint_once(print_once)\n",
    ),
    "alias": (
        "from redco_runtime.loop import say as shout\nshout(1)\n",
        "from redco_runtime.cli import print_once as shout\nshout(1)\n",
    ),
    "module": (
        "from redco_runtime import loop\nimport redco_runtime.loop as other\n\nloop.say(other.say)\n",
        "from redco_runtime.cli import print_once\n\nprint_once(print_once)\n",
    ),
    "dotted module": (
        "import redco_runtime.loop\n\nredco_runtime.loop.say(1)\n",
        "from redco_runtime.cli import print_once\n\nprint_once(1)\n",
    ),
    "within a function": (
        "def main():\n    from redco_runtime.loop import say\n\n    say(1)\n",
        "def main():\n    from redco_runtime.cli import print_once\n\n    print_once(1)\n",
    ),
    "imported for others": (
        "from redco_runtime.loop import say\n",
        "from redco_runtime.cli import print_once\n",
    ),
    "named by a string": (
        'from redco_runtime.loop import say\n\n__all__ = ["say"]\nsay(1)\n',
        'from redco_runtime.cli import print_once as say\n\n__all__ = ["say"]\nsay(1)\n',
    ),
    "the new name is the user's": (
        "from redco_runtime.loop import say\n\n\ndef print_once(x):\n    say(x)\n",
        "from redco_runtime.cli import print_once as say\n\n\ndef print_once(x):\n    say(x)\n",
    ),
    "a name with two meanings": (
        "from redco_runtime.loop import say\n\nif DEBUG:\n    say = print\nsay(1)\n",
        "from redco_runtime.cli import print_once as say\n\nif DEBUG:\n    say = print\nsay(1)\n",
    ),
    "a shadow": (
        "from redco_runtime.loop import say\n\n\ndef f(say):\n    say(1)\n\n\nsay(2)\n",
        "from redco_runtime.cli import print_once\n\n\ndef f(say):\n    say(1)\n\n\nprint_once(2)\n",
    ),
    "another import of the name": (
        "from redco_runtime.loop import say\n\nsay(1)\n\n\ndef f():\n    from other import say\n\n    say(2)\n",
        "from redco_runtime.cli import print_once\n\nprint_once(1)\n\n\ndef f():\n    from other import say\n\n    say(2)\n",
    ),
    "a module that is imported in two places": (
        "if DEBUG:\n    import redco_runtime.loop\nelse:\n    import redco_runtime.loop\n\n"
        "redco_runtime.loop.fit(steps, pipeline, run)\n",
    ),
    "another function of the name": (
        "def say(x):\n    pass\n\n\n# of redco_runtime.loop\nsay(1)\n",
    ),
    "getattr": ('from redco_runtime import loop\n\ngetattr(loop, "say")(1)\n',),
    "stored to": ("from redco_runtime import loop\n\nloop.say = print\n",),
    "star": ("from redco_runtime.loop import *\n\nsay(1)\n",),
    "a comment in the import": (
        "from redco_runtime.loop import (\n    say,  # mine\n)\n\nsay(1)\n",
    ),
    "an import that shares its line": ("from redco_runtime.loop import say; say(1)\n",),
    "an import of several modules": (
        "import os, redco_runtime.loop\n\nredco_runtime.loop.say(os)\n",
        "import os\nfrom redco_runtime.cli import print_once\n\nprint_once(os)\n",
    ),
    "a name of a module that is imported in two places": (
        "if DEBUG:\n    import redco_runtime.loop\nelse:\n    import redco_runtime.loop\n\n"
        "redco_runtime.loop.say(1)\n",
    ),
    "names in an order of their own": (
        "from redco_runtime.cli import zeta, command\nfrom redco_runtime.loop import say\n\nsay(1)\n",
        "from redco_runtime.cli import zeta, command, print_once\n\nprint_once(1)\n",
    ),
    "more names than a line has room for": (
        f"from redco_runtime.cli import {LONG}\nfrom redco_runtime.loop import say\n\nsay(1)\n",
        f"from redco_runtime.cli import (\n    {LONG},\n    print_once,\n)\n\nprint_once(1)\n",
    ),
    "a comment in the call": (
        "from redco_runtime.loop import fit\n\nfit(\n    steps,  # mine\n    pipeline,\n    run,\n)\n",
    ),
    "an argument twice": (
        "from redco_runtime.loop import fit\n\nfit(steps, pipeline, run=run, steps=1)\n",
    ),
    "arguments that are read otherwise elsewhere": (
        "from redco_runtime.loop import boot, fit\n\nboot(hash=(a or b).print)\nfit(x := 1, pipeline, (run))\n",
        "from redco_runtime.loop import boot\nfrom my_project.train import train\n\n"
        "boot(facts=(a or b).facts)\ntrain((x := 1), (run))\n",
    ),
    "a call within another": (
        "from redco_runtime.loop import fit\n\nfit(fit(a, pipeline, b), pipeline, run)\n",
        "from my_project.train import train\n\ntrain(train(a, b), run)\n",
    ),
    "an attribute of a call": (
        "from redco_runtime import loop\n\nloop().say(1)\nloop[0].say(1)\n",
    ),
    "a byte order mark": ("\ufefffrom redco_runtime.loop import say\n\nsay(1)\n",),
    "call": (
        "from redco_runtime.loop import fit\n\nfit(build(c), pipeline, run)\n",
        "from my_project.train import train\n\ntrain(build(c), run)\n",
    ),
    "call of what it has to be of": (
        "from my_project import pipeline\nfrom redco_runtime.loop import check\n\ncheck(pipeline, run)\n",
        "from my_project import pipeline\nfrom my_project.train import verify\n\nverify(run)\n",
    ),
    "call of something else": (
        "import pipeline\nfrom redco_runtime.loop import check\n\ncheck(pipeline, run)\n",
    ),
    "call by names": (
        "from redco_runtime.loop import fit\n\nfit(run=run, steps=steps, pipeline=pipeline)\n",
        "from my_project.train import train\n\ntrain(steps, run)\n",
    ),
    "call with more": (
        "from redco_runtime.loop import fit\n\nfit(steps, pipeline, run, weights)\n",
    ),
    "call with less": ("from redco_runtime.loop import fit\n\nfit(steps, pipeline)\n",),
    "call with stars": ("from redco_runtime.loop import fit\n\nfit(*mine)\n",),
    "a dropped argument does something": (
        "from redco_runtime.loop import fit\n\nfit(steps, load(), run)\n",
    ),
    "arguments change places": (
        "from redco_runtime.loop import State\n\nState(a, b.c)\nState(step(), rest())\n",
        "from redco_runtime.loop import State\n\nState(rest=b.c, step=a)\nState(step(), rest())\n",
    ),
    "its name is taken": (
        "from redco_runtime.loop import fit\n\n\ndef train(mine):\n    fit(steps, pipeline, run)\n",
    ),
    "attribute of an argument": (
        "from redco_runtime.loop import boot\n\nboot(hash=a.run.print)\nboot(hash=a)\n",
        "from redco_runtime.loop import boot\n\nboot(facts=a.run.facts)\nboot(hash=a)\n",
    ),
    "method": (
        "from redco_runtime.io import Store\n\nStore(1).read(x.state)\nwith Store(2) as s:\n    s.read(x.state)\n",
        "from redco_runtime.io import Store\n\nStore(1).read(x.state.model)\nwith Store(2) as s:\n    s.read(x.state.model)\n",
    ),
    "method of another": (
        "from other import Store\n\nStore(1).read(x.state)\n\n# of redco_runtime.io\n",
    ),
    "method of what is bound once": (
        "from redco_runtime.io import Store\n\ns = Store(1)\ns.read(x.state)\n",
        "from redco_runtime.io import Store\n\ns = Store(1)\ns.read(x.state.model)\n",
    ),
    "method of what is bound by a loop": (
        "from redco_runtime.io import Store\n\nfor s in [Store(1)]:\n    s.read(x.state)\n",
    ),
    "method of something": (
        "from redco_runtime.io import Store\n\n\ndef f(s):\n    s.read(x.state)\n",
    ),
    "method of another attribute": (
        "from redco_runtime.io import Store\n\nStore(1).read(x.other)\nStore(1).read(x.state)\n",
        "from redco_runtime.io import Store\n\nStore(1).read(x.other)\nStore(1).read(x.state.model)\n",
    ),
    "method of a name that changes": (
        "from redco_runtime.io import Store\n\ns = Store(1)\ns = other\ns.read(x.state)\n",
    ),
    "a long call": (
        "from redco_runtime.loop import boot\n\n" + f"boot(hash={'a' * 88}.print)\n",
        "from redco_runtime.loop import boot\n\n" + f"boot(\n    facts={'a' * 88}.facts,\n)\n",
    ),
    "line endings of Windows": (
        "from redco_runtime.loop import say, fit\r\n\r\nsay('ä')\r\n",
        "from redco_runtime.loop import fit\r\nfrom redco_runtime.cli import print_once\r\n\r\nprint_once('ä')\r\n",
    ),
    "no Python": ("from redco_runtime.loop import say\n\nsay(\n",),
}


def rewritten(text: str, path: str = "my_project/mine.py") -> str:
    return migrate(text.encode(), path, "my_project", 0, CHANGES).content.decode()


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    before, after = CASES[name][0], CASES[name][-1]
    assert rewritten(before) == after
    assert rewritten(after) == after, "twice is once"


def test_relative_imports_and_the_module_itself():
    text = "from .. import loop\nfrom redco_runtime.loop import fit\n\nfit(steps, pipeline, run)\nloop.say(1)\n"
    assert rewritten(text, "my_project/train.py") == (
        "from .. import loop\n\ntrain(steps, run)\nloop.say(1)\n"
    )


@pytest.mark.parametrize(
    ("above", "line", "left"),
    [
        ("def f():\n", "    from redco_runtime.loop import fit\n\n    ", "\n    "),
        ("if DEBUG:\n", "    from redco_runtime.loop import fit\n", None),  # all that it holds
        ("", "from redco_runtime.loop import fit  # mine\n", None),
    ],
)
def test_an_import_of_no_more_use_goes_with_its_line(above, line, left):
    calls = ("fit(steps, pipeline, run)\n", "train(steps, run)\n")
    before, after = above + line + calls[0], above + (left or line) + calls[1]
    assert rewritten(before, "my_project/train.py") == after


def test_a_rewriting_that_undoes_itself_leaves_the_file():
    swap = Call("redco_runtime.loop.fit(a, b)", "redco_runtime.loop.fit(b, a)")
    text = b"from redco_runtime.loop import fit\n\nfit(1, 2)\n"
    migrated = migrate(text, "mine.py", "mine", 0, (Migration(1, "a swap", (swap,)),))
    assert migrated.content == text and not migrated.steps


def test_one_by_one():
    text = "from redco_runtime.loop import fit, say\n\nsay(1)\nfit(steps, pipeline, run)\n"
    first, second = migrate(text.encode(), "mine.py", "my_project", 0, CHANGES).steps
    assert first.rewritings == ("say -> print_once, of redco_runtime.cli.print_once",)
    assert second.rewritings == ("fit(steps, pipeline, run) -> train(steps, run)",)
    assert b"fit(" in first.content and b"fit(" not in second.content


def test_what_only_the_user_can_rewrite_is_named():
    text = "from redco_runtime.loop import Trainer\n\n\nclass Mine(Trainer):\n    pass\n"
    assert rewritten(text) == text
    expected = "line 1: redco_runtime.loop.Trainer is gone: write train() of train.py"
    assert stale_names(text.encode(), "mine.py", 0, CHANGES) == [expected]


def test_what_is_gone_is_named_where_it_is_used_and_nowhere_else():
    text = "import redco_runtime.loop\n\nprint(redco_runtime.loop.Trainer)\n"
    expected = "line 3: redco_runtime.loop.Trainer is gone: write train() of train.py"
    assert stale_names(text.encode(), "mine.py", 0, CHANGES) == [expected]
    of_others = b"from other import Trainer\n\nTrainer()\n"
    for content in (b"x = 1\n", b"Trainer(\n", b"\xffTrainer", of_others):
        assert stale_names(content, "mine.py", 0, CHANGES) == []
    assert stale_names(text.encode(), "mine.py", 1, CHANGES) == []


def test_only_its_user_stops_a_migration(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(apply, "parse_source", stop)
    text = b"from redco_runtime.loop import say, Trainer\n\nsay(1)\n"
    with pytest.raises(KeyboardInterrupt):
        migrate(text, "mine.py", "my_project", 0, CHANGES)
    with pytest.raises(KeyboardInterrupt):
        stale_names(text, "mine.py", 0, CHANGES)


def test_a_project_of_today_is_left_alone():
    text = b"from redco_runtime.loop import say\n\nsay(1)\n"
    assert migrate(text, "mine.py", "my_project", LATEST).content == text


def full_names(text: str) -> set[str]:
    """The dotted names of a codemod that redco or a project has to have."""
    return set(re.findall(r"(?:redco_runtime|project)(?:\.\w+)+", text))


def defined(module: Path) -> set[str]:
    """The functions, classes and constants of a module."""
    nodes = ast.parse(module.read_text()).body
    targets = [y for x in nodes if isinstance(x, ast.Assign) for y in x.targets]
    targets += [x.target for x in nodes if isinstance(x, ast.AnnAssign)]
    constants = {x.id for x in targets if isinstance(x, ast.Name)}
    return constants | {x.name for x in nodes if isinstance(x, ast.FunctionDef | ast.ClassDef)}


def file_of(module: str) -> Path:
    """Where a module of the runtime lies, by its name, or by that before it was in rooms."""
    if module.startswith("project.runtime."):
        module = module.removeprefix("project.runtime.")
        if module.startswith("layout.apart."):  # the engine's own, which projects have too
            return (
                ROOT
                / "generator/redco_plan"
                / f"{module.removeprefix('layout.').replace('.', '/')}.py"
            )
        return RUNTIME / "redco_runtime" / f"{module.replace('.', '/')}.py"
    new = new_name(module.removeprefix("redco_runtime."), "project", MOVES)
    return (
        RUNTIME
        / f"{(new or module).replace('project.runtime', 'redco_runtime').replace('.', '/')}.py"
    )


def name_now(name: str) -> tuple[Path, str]:
    module, _, last = name.rpartition(".")
    return file_of(module), last


def test_each_migration_leads_to_the_next_number():
    assert [migration.number for migration in MIGRATIONS] == [*range(1, LATEST + 1)]


def test_modules_that_moved_are_there():
    """Or what they have goes on to another, by a later migration."""
    renames = [x for m in MIGRATIONS for x in m.codemods if isinstance(x, Rename)]
    later = {x.before.rpartition(".")[0].removeprefix("project.runtime.") for x in renames}
    for module in MOVES.modules.values():
        file = RUNTIME / "redco_runtime" / module.replace(".", "/")
        there = file.is_dir() or file.with_suffix(".py").exists() or module in later
        assert there or module == "layout.apart", module


def test_what_takes_the_place_is_in_the_runtime():
    codemods = [x for m in MIGRATIONS for x in m.codemods if not isinstance(x, Moves)]
    for i, codemod in enumerate(codemods):
        moved = {name_now(x.before) for x in codemods[i:] if isinstance(x, Rename)}
        for name in full_names(codemod.after):
            module, _, last = name.rpartition(".")
            own = module.startswith(("redco_runtime", "project.runtime"))
            if own and name_now(name) not in moved:
                assert last in defined(
                    file_of(module)
                ), f"{codemod.title}: a later migration has to go on from it"


def test_what_is_gone_is_gone():
    renamed = [x.before for m in MIGRATIONS for x in m.codemods if isinstance(x, Rename)]
    for name in [*renamed, *(name for m in MIGRATIONS for name in m.gone)]:
        module, _, last = name.rpartition(".")
        file = file_of(module)
        assert not file.exists() or last not in defined(file), name


def test_a_state_has_all_its_fields():
    (state,) = [
        node
        for node in ast.parse(file_of("redco_runtime.state").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "TrainState"
    ]
    required = {x.target.id for x in state.body if isinstance(x, ast.AnnAssign) and x.value is None}
    for codemod in MIGRATIONS[0].codemods:
        if isinstance(codemod, Call) and "TrainState(" in codemod.before:
            call = ast.parse(codemod.after, mode="eval").body
            assert required <= {keyword.arg for keyword in call.keywords}


def test_what_former_projects_import_is_there_or_migrated():
    """A name that moves without a migration is an error here."""
    about = " ".join(x.before for m in MIGRATIONS for x in m.codemods if not isinstance(x, Moves))
    handled = full_names(about) | {name for m in MIGRATIONS for name in m.gone}
    for file in (FORMER / "my_project").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("redco_runtime."):
                module = file_of(node.module)
                present = defined(module) if module.exists() else set()
                names = {f"{node.module}.{x.name}" for x in node.names if x.name not in present}
                for name in names:  # or moves first
                    now = new_name(name.removeprefix("redco_runtime."), "project", MOVES)
                    assert {name, now} & handled, f"{file.name}: {name}"


def test_a_name_of_the_runtime_of_a_project_moves():
    before = (
        b"from p.runtime.base.tensors import Tensor, part_tensors\n\nx = part_tensors(Tensor)\n"
    )
    after = migrate(before, "p/weights.py", "p", 5).content.decode()
    assert "from p.runtime.base.tensor_parts import part_tensors\n" in after
    assert "from p.runtime.base.tensors import Tensor\n" in after


MOVED = {
    "from redco_runtime.losses import cross_entropy, squared_error as se": (
        "from p.runtime.nn.losses import cross_entropy, squared_error as se"
    ),
    "from redco_runtime import cli, losses as l, mine": (
        "from p.runtime.loop import command as cli\nfrom p.runtime.nn import losses as l\n"
        "from redco_runtime import mine"
    ),
    "def f():\n    from redco_runtime.adapters import lora\n": (
        "def f():\n    from p.runtime.checkpoints.lora import lora\n"
    ),
    "from redco_runtime.text import examples": "from p.runtime.data.text import examples",
    "from redco_runtime.data import (\n    TrainBatches,  # mine\n)": (
        "from p.runtime.data.batches import (\n    TrainBatches,  # mine\n)"
    ),
    "import redco_runtime.run\nredco_runtime.run.Run": (
        "import p.runtime.run.record\np.runtime.run.record.Run"
    ),
    "patch('redco_runtime.text.shard.make')  # redco_runtime/text/shard.py": (
        "patch('p.runtime.data.prepare.shard.make')  # p/runtime/data/prepare/shard.py"
    ),
    "from redco_runtime.losses import (": "from redco_runtime.losses import (",
    "# redco_runtime.mine.x": "# redco_runtime.mine.x",
    "from redco_runtimes.losses import x": "from redco_runtimes.losses import x",
    "import redco_runtime as r\nr.losses": "import redco_runtime as r\nr.losses",
}


@pytest.mark.parametrize("text", MOVED)
def test_what_names_a_module_names_it_where_it_lies_now(text):
    assert with_moved(text, "mine.py", "p", MOVES)[0] == MOVED[text]


def test_a_launcher_names_it_too():
    text = b"exec python -m redco_runtime.launch -m p.train  # redco_runtime.loop.say\n"
    after = migrate(text, "launch/run.sh", "p", 0).content
    assert after.startswith(b"exec python -m p.runtime.cluster.launch -m p.train")


def test_where_files_of_the_runtime_lie_now():
    paths = ("losses.py", "text/shard.py", "text/__init__.py", "gone.py", "losses.txt")
    assert [moved_path(f"redco_runtime/{x}", "p", MOVES) for x in paths] == [
        "p/runtime/nn/losses.py",
        "p/runtime/data/prepare/shard.py",
        "p/runtime/data/text/__init__.py",
        None,
        None,
    ]
