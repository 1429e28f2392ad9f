"""Projects of all families, and of classes of one's own: no file imports what it does not use, or is not there."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest
from generated import ROOT
from own.test_projects import HERE, PROJECTS, flags_of
from recipes.test_brought import BROUGHT

from redco_new.errors import RedcoError
from redco_new.generate.files import print_files, project_context
from redco_new.generate.read import plan_request, read_model
from redco_new.models.families import FAMILIES
from redco_new.own.recipes import RECIPES
from redco_new.render.carried import carried
from redco_new.render.owners import in_runtime
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_new.request.features import FEATURES, paths

UNUSED = "F401,F811,F821,F822,F841"  # imports, names and variables, of pyflakes


@pytest.fixture(scope="module")
def plan():
    """The plan of one model: what the tables of sharding.py hold is of no matter here."""
    with open_template() as template:
        return plan_request(Request.from_flags("a", "gpt-j", shards="2"), template)


@pytest.fixture(scope="module")
def emit(plan):
    """emit(request, stateful): {path: text} of a project."""

    requests = {}  # by their texts, for the caches

    @lru_cache(4)
    def read(text):
        with open_template() as template:
            return read_model(requests[text], template)

    @lru_cache(4)
    def print_project(text, stateful):
        with open_template() as template:
            model = read(text)
            # The plan is that of another model, which no preset of this one fits.
            tiny = model.tiny if requests[text].own else None
            model = replace(model, stateful=stateful, tiny=tiny)
            context = project_context(model, SimpleNamespace(stateful=stateful), plan)
            return print_files(template, model, context)

    def emit(request, stateful=False):
        requests[repr(request)] = request
        return print_project(repr(request), stateful)

    return emit


@pytest.fixture
def lint(emit, tmp_path):
    """lint(request, stateful): what ruff has to say of the Python of a project, and what it lacks of the runtime."""

    def lint(request, stateful):
        files = emit(request, stateful)
        if missing := runtime_modules(files) - modules(files):
            return f"not carried: {missing}"
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        ruff = [str(Path(sys.executable).parent / "ruff"), "check", "--quiet"]
        command = [*ruff, "--extend-select", UNUSED, "--output-format", "concise", "."]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    return lint


@pytest.mark.parametrize("name", FAMILIES)
def test_of_a_family(lint, name):
    assert lint(Request.from_flags("a-project", name, shards="2"), stateful=False) == ""


def modules(files):
    """The names of the modules among the files of a project."""
    paths = (Path(path).with_suffix("") for path in files if path.endswith(".py"))
    return {".".join(path.parts).removesuffix(".__init__") for path in paths}


def runtime_modules(files):
    """What the Python of a project imports of the runtime, wherever it does."""
    names = set().union(*(imported(text) for path, text in files.items() if path.endswith(".py")))
    return {name for name in names if name.split(".")[1:2] == ["runtime"]}


@cache
def imported(text):
    """The modules that Python imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
    return names


def test_a_checkpoint_and_its_tokenizer_are_named_from_one_folder(emit, tmp_path):
    sizes = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    config = {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 4} | sizes
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck/config.json").write_text(json.dumps(config))
    model = str(tmp_path / "ck")
    request = Request.from_flags("a-project", model, shards="2", folder=tmp_path / "a-project")
    text = "".join(emit(request)["a_project/config.py"].split())
    place = 'str((Path(__file__).parents[1]/"../ck").resolve())'
    assert f"tokenizer:str={place}" in text and f"CHECKPOINT={place}" in text


SIZES = {  # as CONTRIBUTING.md has them
    "gpt-j": {"model": "gpt-j"},
    "llama, sft, LoRA": {"model": "llama", "recipe": "sft", "lora": "rank=8"},
    "mixtral": {"model": "mixtral"},
    "t5": {"model": "t5"},
    "vit": {"model": "vit"},
    "ppo": {"model": None, "recipe": "ppo"},
}


@pytest.mark.parametrize("name", SIZES)
def test_projects_carry_as_much_as_contributing_says(emit, name):
    files = emit(Request.from_flags("a-project", shards="2", **SIZES[name]))
    assert len(files["README.md"].encode()) <= 4 * 1024
    sizes = (lines_of_runtime(some) for some in (files, reached(files, "a_project/train.py")))
    (row,) = re.findall(rf"\| {name} \| (.*) \|", (ROOT / "CONTRIBUTING.md").read_text())
    most = [int(cell.replace(",", "")) for cell in row.split(" | ")]
    for what, lines, limit in zip(("carries", "reaches by train"), sizes, most, strict=True):
        assert lines <= limit, f"{name} {what} {lines} lines of the runtime"


def lines_of_runtime(files):
    """How many lines of Python of the runtime are among files."""
    code = (text for path, text in files.items() if in_runtime(path) and path.endswith(".py"))
    return sum(text.count("\n") for text in code)


def reached(files, first):
    """The files that one imports, and that these import in turn, wherever they do; not what is a process of its own."""
    paths = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files
    }
    seen, left = set(), [paths_to(first)]
    while left:
        for name in left.pop():
            if (path := paths.get(name)) and path not in seen:
                seen.add(path)
                left += [paths_to(path), imports_of(path, files[path])]
    return {path: files[path] for path in seen}


def paths_to(path):
    """The names of a module and of the packages that it is in."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


@cache
def imports_of(path, text):
    """What a module may import: modules, and names in them, which may be modules."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            package = path.split("/")[: -node.level] if node.level else []
            module = ".".join([*package, *filter(None, [node.module])])
            names += [module, *(f"{module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            names += [name.name for name in node.names]
    return [paths for name in names for paths in paths_to(name.replace(".", "/"))]


@pytest.mark.parametrize(
    "text",
    [
        "python -m redco_runtime.nn.beam",
        "command: [python, -u, -m, redco_runtime.nn.beam, x]",
        "run(['-m', 'redco_runtime.nn.beam'])",
        "import redco_runtime.nn.beam as x",
        "import jax, redco_runtime.nn.beam",
        "import jax; from redco_runtime.nn import \\\n    beam",
        "def f():\n    from redco_runtime.nn import (\n        beam,\n    )",
        "def f():\n    return importlib.import_module('redco_runtime.nn.beam')",
        "As code:\n\n```python\nfrom redco_runtime.nn.beam import search\n```\n",
        "<<<<<<< yours\nimport redco_runtime.nn.beam\n=======\n>>>>>>> theirs\n",
    ],
)
def test_what_is_imported_is_carried(text):
    """In Python or not, wherever it is imported; and nothing else is."""
    assert "p/runtime/nn/beam.py" in carried({"a.sh": text}, "p")
    assert "p/runtime/nn/beam.py" in carried(
        {"a.sh": text.replace("redco_runtime", "p.runtime")}, "p"
    )
    assert not {"p/runtime/nn/experts/experts.py", "p/runtime/step/muon.py"} & {
        *carried({"a.sh": text}, "p")
    }


@pytest.mark.parametrize(
    "text",
    [
        "# as redco_runtime.nn.beam does",
        "x = 'redco_runtime.nn.beam'",
        "See `redco_runtime.nn.beam`, or redco_runtime/nn/beam.py: import redco_runtime.nn.beam is slow.",
        "import redco_runtimes.beam",
        "from .redco_runtime import beam",
    ],
)
def test_a_mention_is_no_import(text):
    assert carried({"a.sh": text}, "p") == {}


@pytest.mark.parametrize("options", [{"zero": 1}, {"sequence_parallel": True}])
def test_of_a_family_with_all_tables(lint, options):
    request = Request.from_flags("a-project", "gpt-j", mesh="data=2,model=2", **options)
    assert lint(request, stateful=True) == ""


@pytest.mark.parametrize("name", BROUGHT)
def test_of_a_recipe_with_its_model(lint, name):
    assert lint(Request.from_flags("a-project", recipe=name, shards="2"), stateful=False) == ""


def test_all_recipes_have_a_class_here():
    assert {recipe for _, recipe, _ in PROJECTS.values()} == RECIPES.keys()


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A folder of the classes of users, each in its own."""
    return tmp_path_factory.mktemp("own")


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("name", PROJECTS)
def test_of_a_class(lint, name, stateful, classes):
    folder = classes / name
    if not folder.exists():
        folder.mkdir()
        shutil.copy(HERE / PROJECTS[name][0].partition(":")[0], folder)
    flags = flags_of(folder, name)
    request = Request.from_flags("a-project", folder=folder / "own", **flags)
    with jax.numpy_rank_promotion("allow"):  # users' classes promote
        assert lint(request, stateful) == ""


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        (
            "gpt-j",
            [
                "data/classes",
                "step/expert_memory",
                "nn/experts/expert_blocks",
                "nn/stored_products",
                "loop/talking",
            ],
        ),  # which names none
        ("mixtral", ["nn/stored_products", "nn/matrices"]),  # of few bits
        ("vit", ["data/preview", "run/generation", "data/class_columns"]),  # which has no tokens
        (
            "ppo",
            [
                "data/preview",
                "run/generation",
                "data/classes",
                "step/memory_estimate",
                "step/remat",
                "nn/kernels",
                "nn/attention",
            ],
        ),
    ],
)
def test_what_no_file_asks_for_is_not_carried(emit, name, modules):
    assert all((ROOT / f"runtime/redco_runtime/{module}.py").exists() for module in modules)
    files = emit(Request.from_flags("a-project", shards="2", **SIZES[name]))
    assert not {f"a_project/runtime/{module}.py" for module in modules} & {*files}


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_where_it_is_asked_for(emit, name):
    recipe = {"recipe": "grpo"} if name == "rollouts" else {}
    with_it, without = (
        emit(Request.from_flags("a-project", "llama", shards="2", features=features, **recipe))
        for features in (name, "")
    )
    path, *_ = paths("a_project", FEATURES[name].modules)
    assert path in with_it and path not in without
    both = [path for path in with_it if in_runtime(path) and path in without]
    assert all(with_it[path] == without[path] for path in both)


def test_a_feature_that_nothing_uses_is_refused(emit):
    request = Request.from_flags("a-project", "vit", shards="2", features="gguf")
    with pytest.raises(RedcoError, match="features: gguf: nothing of vit uses it"):
        emit(request)


def test_muon_is_where_it_is_asked_for(emit):
    """Elsewhere one line says how to get it."""
    without, asked = (
        emit(Request.from_flags("a-project", "gpt-j", shards="2", features=features))
        for features in ("", "muon")
    )
    path, muon = "a_project/config.py", "a_project/runtime/step/muon.py"
    assert muon in asked and "scale_by_muon()" in asked[path]
    assert muon not in without and "scale_by_muon" not in without[path]
    assert "`redco update --features muon` brings it" in without[path]


def test_many_adapters_are_where_they_are_asked_for(emit, lint):
    """Beside them the runtime is the same, and a run of one has nothing of them."""
    asked, plain = (
        Request.from_flags("a-project", "llama", recipe="sft", shards="2", lora=lora)
        for lora in ("rank=8,sweep=3", "rank=8")
    )
    assert lint(asked, stateful=False) == ""
    files, without = emit(asked), emit(plain)
    assert files["a_project/train.py"].count("\n") <= 110
    modules = {
        f"a_project/runtime/{name}.py"
        for name in ("checkpoints/lora/sweep_start", "loop/sweep", "step/stack", "step/sweep")
    }
    assert {path for path in files if path not in without} == modules
    assert all(files[path] == without[path] for path in without if in_runtime(path))
    assert not any(
        "sweep" in text.lower() for path, text in without.items() if not in_runtime(path)
    )
    assert "Sweep(learning_rates=(2e-05, 0.0002, 0.002))" in files["a_project/config.py"]


def test_products_in_8_bits_are_where_they_are_asked_for(emit, lint):
    """Beside them the runtime is the same, and a run has no flag of them elsewhere."""
    asked, plain = (
        Request.from_flags("a-project", "llama", shards="2", products=products)
        for products in ("float8", "compute")
    )
    assert lint(asked, stateful=False) == ""
    files, without = emit(asked), emit(plain)
    module = "a_project/runtime/nn/products.py"
    assert module in files and module not in without
    assert all(
        files[path] == without[path] for path in files if in_runtime(path) and path != module
    )
    words = re.compile("quantize_products|float8|int8")
    assert not any(words.search(text) for path, text in without.items() if not in_runtime(path))
    assert (
        'products: Literal["compute", "float8", "int8"] = "float8"' in files["a_project/config.py"]
    )


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("llama", {"recipe": "grpo"}, "grpo weighs answers by their probabilities"),
        ("llama", {"lora": "rank=4,base=nf4"}, "--lora base=nf4 stores kernels in few bits"),
        (None, {"recipe": "maml"}, "the model of maml is no family of redco's"),
    ],
)
def test_products_that_would_not_be_computed_are_refused(emit, model, flags, message):
    with pytest.raises(RedcoError, match=f"--products: {message}"):
        emit(Request.from_flags("a-project", model, products="float8", **flags))


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("gpt2", "lm"), ("t5", "seq2seq"), ("bert", "classify-text"), ("bert", "classify-tokens")],
)
def test_dropout_is_where_it_is_asked_for(emit, lint, name, recipe):
    """Its steps give each example a key; its own test gives the same ones on both meshes."""
    without, asked = (
        Request.from_flags("a-project", name, recipe=recipe, shards="2", dropout=rate)
        for rate in (None, "0.1")
    )
    assert lint(asked, stateful=False) == ""
    module, steps = "a_project/runtime/nn/dropout.py", "a_project/steps.py"
    files, plain = emit(asked), emit(without)
    assert module in files and module not in plain
    for text in ("with_keys(batch, key),", "batch = drop_by_example(model, batch, key)"):
        assert text in files[steps] and text not in plain[steps]
    assert "with_keys(batch, jax.random.key(1))" in files["tests/test_sharding.py"]
    assert ("drop=drop" in files["a_project/pipeline.py"]) == ("classify" in recipe)
    ours = ("model", "pipeline", "steps")
    assert not any("ropout" in plain[f"a_project/{path}.py"] for path in ours)


FAMILY_OF = {"classify-text": "bert", "classify-tokens": "bert", "image": "vit", "lm": "gpt-j"}


@pytest.mark.parametrize("name", [*FAMILY_OF, *BROUGHT])
def test_what_draws_is_required_where_something_draws(emit, name):
    files = emit(Request.from_flags("a-project", FAMILY_OF.get(name), recipe=name, shards="2"))
    draws = any("from matplotlib" in text for text in files.values())
    assert ("matplotlib" in files["pyproject.toml"]) == draws
