"""Answers that a server draws: ids of tokens in, ids and their log-probabilities out, and no text, which nobody tokenizes again.

It speaks vLLM's /v1/completions and /collective_rpc, as of vLLM 0.33: vllm/entrypoints/openai/completion/protocol.py and
vllm/entrypoints/serve/dev/rpc/api_router.py. What it says is checked, and none of it used where a part is wrong.
"""

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..base.messages import UserError, print_once, shown

PROMPTS = 1024  # of a request, at most: VLLM_MAX_COMPLETION_PROMPTS
PAUSES = 1.0, 30.0  # seconds between two tries: the first, doubled up to the second
BUSY = 408, 425, 429, 500, 502, 503, 504  # codes of HTTP after which another try may succeed
ROUNDING = 1e-3  # by which the log of a probability may be above 0
NEVER = -9999.0  # what vLLM says of a token of probability 0


class Answer(NamedTuple):
    """The ids of an answer, with what ends it, and the log-probability that each was drawn with."""

    ids: list[int]
    log_probs: list[float]


@dataclass(frozen=True)
class Drawing:
    """How answers are drawn. group: to a prompt. ends: ids that end one, and are of it."""

    group: int
    new_tokens: int
    temperature: float
    ends: Sequence[int]
    vocab_size: int


@dataclass(frozen=True)
class Server:
    """A server, by its URL. deadline: seconds that it may take for an answer, with all tries."""

    url: str
    deadline: float

    def reload(self, folder: Path) -> None:
        """Give it the weights of a folder, which it sees by the same path. Raises UserError."""
        call = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        self._post("/collective_rpc", call)

    def draw(
        self, prompts: Sequence[list[int]], drawing: Drawing, seed: int, version: str
    ) -> list[list[Answer]]:
        """Return the answers to each prompt. Raises UserError for what is no answer to it.

        version: of the weights: what it remembers of a prompt by others is of no use.
        """
        answers = []
        for start in range(0, len(prompts), PROMPTS):
            part = prompts[start : start + PROMPTS]
            body = {
                "prompt": part,
                "n": drawing.group,
                "max_tokens": drawing.new_tokens,
                "temperature": drawing.temperature,
                "seed": (seed + start) % 2**31,
                "stop_token_ids": [*drawing.ends],
                "logprobs": 0,  # of what is drawn, and of no other token
                "return_token_ids": True,
                "cache_salt": version,
                # In the place of what the server has in its generation_config.json.
                **{"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
                **{"presence_penalty": 0.0, "frequency_penalty": 0.0},
            }
            document = self._post("/v1/completions", body)
            try:
                answers += read_answers(document, part, drawing)
            except ValueError as error:
                what = f"--rollouts: {self.url} does not answer what it is asked: {error}"
                todo = "nothing of it is used; let it serve this model, with its tokenizer"
                raise UserError(f"{what}: {todo}") from None
        return answers

    def _post(self, path: str, body: Any) -> Any:
        """Return what it answers, after as many tries as the deadline has room for. Raises UserError."""
        end, pause, said = time.monotonic() + self.deadline, PAUSES[0], False
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        where = f"--rollouts: {self.url}{path}"
        while True:
            request = urllib.request.Request(self.url + path, data, headers)
            try:
                left = max(end - time.monotonic(), 0.001)
                with urllib.request.urlopen(request, timeout=left) as response:
                    text = response.read()
                return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                reason = f"HTTP {error.code}: {_line(error)}"
                if error.code not in BUSY:
                    raise UserError(f"{where}: {reason}{_todo(path, error.code)}") from None
            except (OSError, http.client.HTTPException) as error:
                reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            except ValueError:
                raise UserError(f"{where} answers with no JSON: {shown(text)}") from None
            if time.monotonic() + pause >= end:
                todo = "start it, and the same command goes on, or give more --rollout-deadline"
                raise UserError(f"{where} gave no answer for {self.deadline:g} s: {reason}: {todo}")
            if not said:
                print_once(f"{self.url}{path}: {reason}: tried again for {self.deadline:g} s")
            said = True
            time.sleep(pause)
            pause = min(2 * pause, PAUSES[1])


def _line(error: urllib.error.HTTPError) -> str:
    """Return what a server says of an error, in a line."""
    try:
        document = json.loads(error.read())
        said = document.get("error") or document.get("detail") or document.get("message")
        said = said.get("message") if isinstance(said, dict) else said
    except (OSError, ValueError, AttributeError):
        said = None
    return shown(said) if said else str(error.reason)


def _todo(path: str, code: int) -> str:
    if path == "/collective_rpc" and code == 404:
        return ": start it with VLLM_SERVER_DEV_MODE=1, which brings that call"
    return ""


def read_answers(
    document: Any, prompts: Sequence[list[int]], drawing: Drawing
) -> list[list[Answer]]:
    """Return the answers to each prompt that a response has. Raises ValueError for what is none."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
        raise ValueError(f"it sends no choices: {shown(document)}")
    if len(choices) != len(prompts) * drawing.group:
        what = f"{len(choices)} answers, and not {drawing.group} to each of {len(prompts)} prompts"
        raise ValueError(f"it sends {what}")
    if [one.get("index") for one in choices] != [*range(len(choices))]:
        raise ValueError("its answers are not numbered in their order")
    answers = []
    for number, choice in enumerate(choices):
        prompt, place = divmod(number, drawing.group)
        try:
            if choice.get("prompt_token_ids") != prompts[prompt]:
                raise ValueError("it is to other tokens than those that were asked")
            answers.append(_read(choice, drawing))
        except ValueError as error:
            raise ValueError(f"answer {place} to prompt {prompt}: {error}") from None
    return [answers[i : i + drawing.group] for i in range(0, len(answers), drawing.group)]


def _read(choice: dict[str, Any], drawing: Drawing) -> Answer:
    """Return one answer. Raises ValueError."""
    ids, ends = choice.get("token_ids"), {*drawing.ends}
    if not isinstance(ids, list) or not ids:
        raise ValueError("it has no token_ids: a vLLM of 0.10.2 or later sends them")
    if wrong := [x for x in ids if type(x) is not int or not 0 <= x < drawing.vocab_size]:
        raise ValueError(f"it has the id {wrong[0]!r}, and the model {drawing.vocab_size} of them")
    reason = choice.get("finish_reason")
    if reason == "length":
        whole = len(ids) == drawing.new_tokens and not ends & {*ids[:-1]}
    else:
        whole = reason == "stop" and len(ids) <= drawing.new_tokens and _ends_once(ids, ends)
    if not whole:
        what = f"it has {len(ids)} tokens of {drawing.new_tokens} and ends by {reason!r} with {ids[-1]}"
        raise ValueError(f"{what}, and what ends an answer is {sorted(ends)}")
    log_probs = (choice.get("logprobs") or {}).get("token_logprobs")
    if not isinstance(log_probs, list) or len(log_probs) != len(ids):
        raise ValueError("it has not a log-probability for each token")
    for x in log_probs:
        if type(x) not in (int, float) or not math.isfinite(x) or not NEVER < x <= ROUNDING:
            raise ValueError(f"it has the log-probability {x!r}")
    return Answer(ids, log_probs)


def _ends_once(ids: list[int], ends: set[int]) -> bool:
    return ids[-1] in ends and not ends & {*ids[:-1]}
