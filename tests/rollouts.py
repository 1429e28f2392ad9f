"""A server of ours that speaks what grpo asks of vLLM: as it should, late, dying, or lying."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Fake:
    """draw: (prompt, n, most tokens, ends) -> [(ids, log-probabilities)], of each of n answers.

    faults: what becomes of the next requests, one each: a number of seconds that it is late, "drop", "half", a code of
    HTTP, or a function of the response, which tells another one. asked: all requests, by path and body.
    """

    def __init__(self, draw, reload=lambda folder: None):
        self.draw, self.reload = draw, reload
        self.faults, self.asked = [], []

    def respond(self, path, body):
        """The response to a request."""
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
            self.reload(body["kwargs"]["weights_path"])
            return {"results": [None]}
        assert path == "/v1/completions" and body["return_token_ids"] and body["logprobs"] == 0
        choices = []
        for prompt in body["prompt"]:
            ends = body["stop_token_ids"]
            for ids, log_probs in self.draw(prompt, body["n"], body["max_tokens"], ends):
                reason = "stop" if ids[-1] in ends else "length"
                choice = {"index": len(choices), "prompt_token_ids": prompt, "token_ids": ids}
                said = {"token_logprobs": log_probs}
                choices.append(choice | {"finish_reason": reason, "logprobs": said, "text": "?"})
        return {"object": "text_completion", "choices": choices}

    @contextmanager
    def serving(self):
        """Yields its URL."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append((self.path, body))
                fault = fake.faults.pop(0) if fake.faults else 0
                if fault == "drop":
                    return
                if isinstance(fault, int) and fault >= 400:
                    self.send_error(fault, "as asked")
                    return
                if isinstance(fault, float):
                    time.sleep(fault)
                document = fake.respond(self.path, body)
                if callable(fault):
                    document = fault(document)
                text = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text[: len(text) // 2] if fault == "half" else text)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class Transformers:
    """The draw and the reload of a Fake that computes with PyTorch, as another engine does."""

    def __init__(self):
        import torch

        # Before there are threads.
        from transformers import GPT2LMHeadModel, LlamaForCausalLM  # noqa: F401

        torch.set_num_threads(1)
        self.model, self.folders = None, []

    def reload(self, folder):
        """Read the weights of a folder."""
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
        self.folders.append(folder)

    def draw(self, prompt, n, most, ends):
        """Draw n answers."""
        import torch

        rows, answers = torch.tensor([prompt] * n), [([], []) for _ in range(n)]
        with torch.no_grad():
            for _ in range(most):
                logs = torch.log_softmax(self.model(rows).logits[:, -1], dim=-1)
                drawn = torch.multinomial(logs.exp(), 1)
                for (ids, log_probs), one, log in zip(answers, drawn, logs, strict=True):
                    if not ids or ids[-1] not in ends:
                        ids.append(int(one))
                        log_probs.append(float(log[int(one)]))
                rows = torch.cat([rows, drawn], dim=1)
        return answers


def main():
    """Serve with PyTorch, and print the URL."""
    engine = Transformers()
    with Fake(engine.draw, engine.reload).serving() as url:
        print(url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
