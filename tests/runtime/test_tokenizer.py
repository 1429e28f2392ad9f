"""Tokenizers: where there is none, one message says so."""

import io
import json

import pytest

from redco_runtime.base.messages import UserError
from redco_runtime.data.tokenizer import load_tokenizer, tokenizer_if_any


def test_bytes_needs_no_files():
    tokens = load_tokenizer("bytes", mask_token="<extra_id_0>")
    assert tokens("ab", add_special_tokens=False)["input_ids"] == [100, 101]
    assert tokens.mask_token_id == 259
    assert tokens.batch_decode([[100, 500, 101, 1]], skip_special_tokens=True) == ["ab"]


def test_ids_that_are_no_byte_are_no_text():
    assert load_tokenizer("bytes", extra_ids=0).decode([100, 3 + 256]) == "a"


def test_a_folder_without_one(tmp_path, capsys):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserError, match="has no tokenizer: give --tokenizer"):
        load_tokenizer(str(tmp_path))
    assert tokenizer_if_any(load_tokenizer, str(tmp_path)) is None
    assert "has no tokenizer" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "../none", "~/none", "a/b/c"])
def test_a_folder_that_is_not_there(name, capfd):
    with pytest.raises(UserError) as error:
        load_tokenizer(name)
    assert str(error.value).startswith(f"--tokenizer: {name}: there is no such folder: give --tok")
    assert capfd.readouterr() == ("", "")


def test_one_that_brings_code_runs_none(tmp_path, monkeypatch, capfd):
    files = {
        "config.json": {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}},
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["mine.Tokenizer", None]}},
    }
    for name, keys in files.items():
        (tmp_path / name).write_text(json.dumps(keys))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UserError, match="cannot be read") as error:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "ran").exists() and "[y/N]" not in capfd.readouterr().out


def test_one_that_cannot_be_read(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read: .*; give --tokenizer") as error:
        tokenizer_if_any(load_tokenizer, str(tmp_path))
    assert "\n" not in str(error.value)
