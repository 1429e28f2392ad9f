"""What a decoder of transformers that is printed says of itself: texts that share a row, and what is exported of it."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.request.own_class import Input

SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "layer_types": ["conv", "full_attention"],
}  # fmt: skip


@dataclass
class Both:
    printed: str = ""

    def bring_weights(self):
        """Bring none."""


def test_what_is_printed_has_the_methods_that_were_measured(monkeypatch):
    from redco_new.pytorch import make
    from redco_new.pytorch.texts import TextMethods

    whole, notes, measured = SimpleNamespace(methods=None), [], []
    draft = SimpleNamespace(whole=whole, text=lambda: repr(whole.methods), model=lambda text: text)
    draft.reference, draft.classes = SimpleNamespace(name="Net"), SimpleNamespace(note=notes.append)
    whole.methods = methods = TextMethods(("input_ids_BS", "attend"), [], cache="2, 8")
    monkeypatch.setattr(make, "shares_rows", lambda model, ids: False)
    monkeypatch.setattr(make, "writes_texts", lambda model, ids: measured.append(model) or True)
    text = make._with_methods(draft, methods, Both(repr(methods)), None)
    assert measured == [text] and "cache='', packs=False" in text and len(notes) == 2


@pytest.mark.slow
def test_a_class_with_a_convolution_beside_its_attention_takes_one_text_a_row():
    """It cannot tell texts apart: what is printed says so to who hands it two, and the project packs none."""
    import transformers

    from redco_new.pytorch.make import print_class

    name, call = "Lfm2ForCausalLM", Call({"input_ids": Input((12,), "int32")})
    made = print_class(
        Reference(transformers.Lfm2ForCausalLM, name, "transformers", ""), "", SIZES, call
    )
    assert [note for note in made.notes if "texts share no row (--packing off)" in note]
    assert "texts in one row would mix in this model: give off" in made.source
    assert "segments_BS: None = None" in made.source and "ToTexts()" in made.source


def test_a_head_of_which_transformers_has_no_class_is_told():
    from redco_new.generate.printed import notes_of_head

    (note,) = notes_of_head("reward", "ApertusForCausalLM")
    assert "transformers has no ApertusForSequenceClassification: what `export` writes" in note
    assert notes_of_head("reward", "LlamaForCausalLM") == notes_of_head("", "Lfm2ForCausalLM") == []


@pytest.mark.parametrize(("kind", "packs"), [("None", False), ("jax.Array | None", True)])
def test_a_project_packs_what_its_model_takes(kind, packs):
    from redco_new.generate.printed_texts import _packs
    from redco_new.render.execute import load_text

    source = f"import jax\nclass Net:\n    def hidden(self, ids, segments_BS: {kind} = None): ...\n"
    assert _packs(load_text("written/model.py", source).Net) is packs
