"""How texts are written: constants of a pipeline, a checkpoint's generation_config.json, flags."""

import argparse
import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from redco_runtime.run import generation
from redco_runtime.base.messages import UserError
from redco_runtime.run.generation import begin_generation, generation_options, until
from redco_runtime.run.record import Run


@dataclass(frozen=True)
class Section:
    seed: int = 0
    tokenizer: str = "bytes"


@dataclass(frozen=True)
class Short(Section):
    sequence_length: int = 64


@dataclass(frozen=True)
class Config:
    model: Section = Section()
    data: Section = Section()
    train: Section = Section()


def pipeline(**constants):
    tokenizer = SimpleNamespace(eos_token_id=9)
    drawing = {"NEW_TOKENS": 64, "TEMPERATURE": 0.0, "TOP_K": 0, "TOP_P": 1.0, "STOP_IDS": ()}
    return SimpleNamespace(tokenizer=lambda name: tokenizer, **(constants or drawing))


@pytest.fixture
def run(tmp_path):
    """A new run that starts from a checkpoint with these settings."""

    def make(**document):
        (tmp_path / "init").mkdir(exist_ok=True)
        (tmp_path / "init" / "generation_config.json").write_text(json.dumps(document))
        return Run(tmp_path / "run", Config(), {}, None, str(tmp_path / "init"))

    return make


def flags(own, *words):
    parser = argparse.ArgumentParser(exit_on_error=False)
    generation_options(parser, own)
    return parser.parse_args(words)


def test_any_of_several_ids_ends_a_text(run):
    own = pipeline()
    begin_generation(own, run(eos_token_id=[4, 1], temperature=0.6, do_sample=True))
    assert own.STOP_IDS == (1, 4, 9) and own.TEMPERATURE == 0.0
    begin_generation(own, run(eos_token_id=4))
    assert own.STOP_IDS == (4, 9)
    begin_generation(own, run())
    assert own.STOP_IDS == (9,)
    assert [row.tolist() for row in until(np.array([[5, 4, 4], [5, 6, 7]]), (1, 4))] == [
        [5],
        [5, 6, 7],
    ]


def test_what_predict_draws_is_what_a_checkpoint_says_and_flags_say_more(run):
    own = pipeline()
    theirs = run(do_sample=True, temperature=0.6, top_p=0.9, top_k=20, max_new_tokens=999)
    begin_generation(own, theirs, flags(own, "--top-p", "0.5"), drawing=True)
    assert (own.TEMPERATURE, own.TOP_K, own.TOP_P, own.NEW_TOKENS) == (0.6, 20, 0.5, 64)
    own = pipeline()
    begin_generation(own, run(temperature=0.6), drawing=True)  # which is greedy, without do_sample
    assert own.TEMPERATURE == 0.0
    begin_generation(own, theirs, flags(own, "--max-new-tokens", "5"))
    assert own.NEW_TOKENS == 5


def test_samples_of_short_rows_leave_room_for_a_prompt(run, capsys):
    for length, tokens in ((65, 64), (64, 32)):
        own, short = pipeline(), replace(Config(), data=Short(sequence_length=length))
        begin_generation(own, replace(run(), config=short))
        assert own.NEW_TOKENS == tokens
    assert capsys.readouterr().out.count("NEW_TOKENS of pipeline.py has 64") == 1
    own = pipeline()
    begin_generation(own, replace(run(), config=short), flags(own, "--max-new-tokens", "64"))
    assert own.NEW_TOKENS == 64


def test_searches_take_beams_lengths_and_forced_tokens(run):
    own = pipeline(
        NUM_BEAMS=4,
        LENGTH_PENALTY=1.0,
        EARLY_STOPPING=False,
        NEW_TOKENS=0,
        LEAST_TOKENS=0,
        FORCED_IDS={},
    )
    theirs = run(
        num_beams=2,
        length_penalty=2.0,
        early_stopping=True,
        max_length=142,
        min_length=56,
        forced_bos_token_id=0,
        forced_eos_token_id=2,
    )
    begin_generation(own, theirs, flags(own, "--num-beams", "1"))
    assert (own.NUM_BEAMS, own.LENGTH_PENALTY, own.EARLY_STOPPING) == (1, 2.0, True)
    assert (own.NEW_TOKENS, own.LEAST_TOKENS) == (141, 55)
    assert own.FORCED_IDS == {"forced_bos_id": 0, "forced_eos_id": 2}


def test_a_run_keeps_what_it_started_with(run, tmp_path):
    new = run(eos_token_id=[4, 1], other={"kept": True})
    document = generation.read_generation(new)
    (tmp_path / "run").mkdir()
    record = {"config": {}, "mesh": {}, "virtual_devices": None, "init": new.init}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    generation.save_generation(new, document)
    run(eos_token_id=5)  # where it started from changes
    assert generation.read_generation(new) == {"eos_token_id": [4, 1], "other": {"kept": True}}
    generation.save_generation(new, {})
    assert generation.read_generation(new) == {}


def test_a_pipeline_without_texts_stays_as_it_is(tmp_path):
    own = SimpleNamespace()
    begin_generation(own, Run(tmp_path, Config(), {}, None, "nowhere"))
    assert not vars(own)
    assert vars(flags(own)) == {}


@pytest.mark.parametrize(
    "document",
    [
        {"temperature": "__import__('os')"}, {"temperature": -1}, {"top_p": 0}, {"top_k": 1.5},
        {"num_beams": True}, {"eos_token_id": ["a"]}, {"eos_token_id": -1}, {"max_length": "9"},
        {"early_stopping": "soon"}, {"forced_bos_token_id": 1.0},
    ],
)  # fmt: skip
def test_what_is_no_setting_is_named(run, document):
    with pytest.raises(UserError, match=r"generation_config.json: .* make it"):
        begin_generation(pipeline(), run(**document))


@pytest.mark.parametrize(
    "words", ["--top-p 0", "--top-p nan", "--temperature -1", "--max-new-tokens 0", "--top-k x"]
)
def test_flags_out_of_range_are_refused(words):
    with pytest.raises(argparse.ArgumentError, match="is no number"):
        flags(pipeline(), *words.split())
