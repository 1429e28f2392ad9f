"""Answers of a server: as they are asked for, late, or lies, each of which is one line and none of which is used."""

import math

import pytest
from redco_runtime.actors import completions
from redco_runtime.actors.completions import Drawing, Server
from redco_runtime.base.messages import UserError
from rollouts import Fake

DRAWING = Drawing(group=2, new_tokens=3, temperature=1.0, ends=[1, 9], vocab_size=20)
PROMPTS = [[5, 6], [7]]
LONG, SHORT = ([4, 5, 6], [-1.0, -2.0, -0.5]), ([4, 9], [-0.25, 0.0])


def draw(prompt, n, most, ends):
    assert (n, most, ends) == (2, 3, [1, 9])
    return [LONG, SHORT]


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(completions, "PAUSES", (0.01, 0.02))
    return Fake(draw)


def ask(fake, deadline=5.0, prompts=PROMPTS):
    with fake.serving() as url:
        return Server(url, deadline).draw(prompts, DRAWING, 3, "round 0")


def test_answers_are_ids_and_their_log_probabilities(fake):
    assert ask(fake) == [[LONG, SHORT], [LONG, SHORT]]
    ((path, body),) = fake.asked
    assert (
        path == "/v1/completions" and body["prompt"] == PROMPTS and body["cache_salt"] == "round 0"
    )
    assert "model" not in body and not any(isinstance(x, str) for x in body["prompt"])


def test_many_prompts_are_several_requests(fake, monkeypatch):
    monkeypatch.setattr(completions, "PROMPTS", 2)
    assert len(ask(fake, prompts=PROMPTS * 2 + PROMPTS[:1])) == 5
    assert [len(body["prompt"]) for _, body in fake.asked] == [2, 2, 1]
    assert len({body["seed"] for _, body in fake.asked}) == 3


@pytest.mark.parametrize("fault", ["drop", "half", 503, 429, 500])
def test_what_is_not_there_is_asked_for_again(fake, fault, capsys):
    fake.faults = [fault, fault]
    assert ask(fake) == [[LONG, SHORT], [LONG, SHORT]]
    assert len(fake.asked) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert "/v1/completions: " in line and line.endswith("tried again for 5 s")


def test_a_server_that_is_late_has_a_deadline(fake):
    fake.faults = [1.0] * 9
    with pytest.raises(UserError, match=r"gave no answer for 0.1 s: .*timed out.*start it"):
        ask(fake, deadline=0.1)


def test_a_server_that_is_not_there():
    with pytest.raises(UserError, match="gave no answer for 0.1 s: .*refused"):
        Server("http://127.0.0.1:9", 0.1).draw(PROMPTS, DRAWING, 0, "")


def test_a_refusal_is_not_asked_for_again(fake):
    fake.faults = [400]
    with pytest.raises(UserError, match="/v1/completions: HTTP 400: as asked$"):
        ask(fake)
    assert len(fake.asked) == 1


def test_a_server_without_the_call_of_weights(fake):
    fake.faults = [404]
    with fake.serving() as url, pytest.raises(UserError, match="VLLM_SERVER_DEV_MODE=1"):
        Server(url, 1.0).reload("/weights")
    assert fake.asked[0][1]["kwargs"] == {"weights_path": "/weights"}


def lie(place=1, **changes):
    """Tells another answer."""

    def tell(document):
        document["choices"][place] |= changes
        return document

    return tell


def said(log_probs):
    return lie(logprobs={"token_logprobs": log_probs})


@pytest.mark.parametrize(
    "fault, words",
    [
        (lambda _: b"<html>", "answers with no JSON"),
        (lambda _: {}, "it sends no choices"),
        (lambda _: {"choices": ["text"]}, "it sends no choices"),
        (lambda x: {"choices": x["choices"][:3]}, "3 answers, and not 2 to each of 2 prompts"),
        (lambda x: {"choices": x["choices"][::-1]}, "not numbered in their order"),
        (lie(2, prompt_token_ids=[7, 7]), "answer 0 to prompt 1: it is to other tokens"),
        (lie(prompt_token_ids=None), "answer 1 to prompt 0: it is to other tokens"),
        (lie(token_ids=None), "it has no token_ids"),
        (lie(token_ids=[]), "it has no token_ids"),
        (lie(token_ids=[4, 20]), "it has the id 20, and the model 20 of them"),
        (lie(token_ids=[-1, 9]), "it has the id -1"),
        (lie(token_ids=[4.0, 9]), "it has the id 4.0"),
        (lie(token_ids=[True, 9]), "it has the id True"),
        (lie(token_ids=[4, 5, 6, 9]), "it has 4 tokens of 3"),
        (lie(token_ids=[4, 5]), "ends by 'stop' with 5, and what ends an answer is"),
        (lie(token_ids=[9, 9]), "it has 2 tokens of 3 and ends by 'stop'"),
        (lie(0, token_ids=[4, 5]), "it has 2 tokens of 3 and ends by 'length'"),
        (lie(finish_reason="abort"), "ends by 'abort'"),
        (lie(finish_reason=None), "ends by None"),
        (lie(logprobs=None), "not a log-probability for each token"),
        (said([-1.0]), "not a log-probability for each token"),
        (said([-1.0, math.nan]), "it has the log-probability nan"),
        (said([-math.inf, 0.0]), "it has the log-probability -inf"),
        (said([-9999.0, 0.0]), "it has the log-probability -9999.0"),
        (said([0.5, 0.0]), "it has the log-probability 0.5"),
        (said([None, 0.0]), "it has the log-probability None"),
        (said(["-1", 0.0]), "it has the log-probability '-1'"),
    ],
)
def test_a_lie_is_a_line_and_is_not_asked_for_again(fake, fault, words):
    fake.faults = [fault]
    with pytest.raises(UserError) as caught:
        ask(fake)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert len(fake.asked) == 1
