"""Which names a project may have."""

import re

import pytest

from redco_new.errors import RedcoError
from redco_new.project.importable import check_hides_nothing
from redco_new.request.names import check_name, package_name


@pytest.mark.parametrize("name", ["a", "my-project", "My_Project2", "x1", "match"])
def test_good_names(name):
    assert check_name("NAME", name) == name
    assert package_name(name) == name.replace("-", "_")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not a project name"),
        ("2fast", "not a project name"),
        ("a b", "not a project name"),
        ("a/b", "not a project name"),
        ("a.b", "not a project name"),
        ("a\n", "not a project name"),
        ("-a", "not a project name"),
        ("_a", "not a project name"),
        ("a-", "not a project name"),
        ("größe", "not a project name"),
        ("class", "a Python keyword"),
        ("None", "a Python keyword"),
        ("jax", "would hide the module"),
        ("JAX", "would hide the module"),
        ("orbax-checkpoint", "would hide the module"),
        ("redco-runtime", "would hide the module"),
        ("tests", "would hide the module"),
        ("launch", "would hide the module"),
        ("json", "would hide the module"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(RedcoError, match=f"^NAME: .*{re.escape(message)}"):
        check_name("NAME", name)


@pytest.mark.parametrize(
    "name",
    ["torch", "tokenizers", "datasets", "peft", "wandb", "PIL", "tensorboardX", "evaluate", "test"]
    + ["scikit-learn", "sklearn", "ray"],
)
def test_a_new_project_hides_nothing_that_one_may_import(name):
    with pytest.raises(RedcoError, match="would hide the module of that name"):
        check_hides_nothing("NAME", package_name(name))
    assert check_name("NAME", name) == name  # of a project that was made before


@pytest.mark.parametrize("name", ["a", "my-project", "llama", "gpt", "demo", "tiny", "net", "p"])
def test_names_that_are_free(name):
    check_hides_nothing("NAME", package_name(name))
