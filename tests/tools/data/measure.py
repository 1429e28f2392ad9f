"""What `--data` costs: tokenizing once, opening again, and the rows of a step, beside `datasets.map`.

python tests/tools/data/measure.py --megabytes 1000

The text is made up; its tokenizer is a BPE of 32,000 tokens that is learned from it. Where `datasets`
is installed, its map over the same file, by as many processes, is timed too. Peaks are of resident
memory, MiB, of this process and of the largest that it started.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "runtime"))

from redco_runtime.data.text.text_examples import text_examples  # noqa: E402
from redco_runtime.data.prepare.build import cores  # noqa: E402

LENGTH, BATCH, STEPS = 1024, 64, 200


def write_texts(path: Path, size: int) -> None:
    """Write JSON lines of `size` bytes: words by Zipf's law, texts of 20 to 4,000 words."""
    random = np.random.default_rng(0)
    letters = np.array([*"etaoinshrdlcumwfgypbvk"])
    words = ["".join(random.choice(letters, random.integers(1, 11))) for _ in range(50_000)]
    with open(path, "w") as file:
        while file.tell() < size:
            length = int(np.exp(random.uniform(np.log(20), np.log(4000))))
            picked = np.minimum(random.zipf(1.2, length), len(words)) - 1
            file.write(json.dumps({"text": " ".join([words[i] for i in picked])}) + "\n")


def learn_tokenizer(path: Path):
    """Return a fast tokenizer, a BPE learned from the first texts of a file."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel()
    with open(path) as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(2000), strict=False)]
    trainer = trainers.BpeTrainer(vocab_size=32_000, special_tokens=["<end>"], show_progress=False)
    own.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<end>")


def peak(whose: int) -> float:
    return resource.getrusage(whose).ru_maxrss / 1024


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    size = parser.parse_args().megabytes * 10**6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.jsonl")
        write_texts(path, size)
        tokenizer = learn_tokenizer(path)
        settings = SimpleNamespace(
            data=(str(path),),
            held_out_data=(),
            held_out=0.01,
            text_field="text",
            packing="on",
            skip_bad_rows=0,
            streaming=False,
            token_folder=f"{folder}/tokens",
            sequence_length=LENGTH,
        )
        print(f"{size / 1e6:.0f} MB, {cores()} cores, rows of {LENGTH}")
        build, _ = timed(lambda: text_examples(settings, tokenizer, 32_000))
        print(f"tokenized and packed: {build:.1f} s, {size / 1e6 / build:.1f} MB/s")
        for name, whose in (
            ("this process", resource.RUSAGE_SELF),
            ("a worker", resource.RUSAGE_CHILDREN),
        ):
            print(f"peak of {name}: {peak(whose):.0f} MiB")
        again, (rows, _) = timed(lambda: text_examples(settings, tokenizer, 32_000))
        print(f"opened again: {again:.2f} s")
        settings.held_out = 0.02
        other, _ = timed(lambda: text_examples(settings, tokenizer, 32_000))
        print(f"laid out for another share: {other:.2f} s")

        def batches():
            for step in range(STEPS):
                picked = [rows[i] for i in rows.order(0, step * BATCH, (step + 1) * BATCH).tolist()]
                {name: np.stack([row[name] for row in picked]) for name in picked[0]}

        batches()  # so that the file is in memory
        seconds, _ = timed(batches)
        print(f"batches: {STEPS * BATCH * LENGTH / seconds / 1e6:.1f} M tokens/s of one core")
        compare(path, tokenizer, folder)


def compare(path: Path, tokenizer, folder: str) -> None:
    """Print what datasets takes to tokenize the same, without packing, where it is installed."""
    try:
        import datasets
    except ImportError:
        print("datasets is not installed")
        return
    datasets.disable_progress_bars()
    table = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=folder)

    def encode(batch):
        return {"ids": tokenizer(batch["text"])["input_ids"]}

    options = {"batched": True, "num_proc": cores(), "remove_columns": table.column_names}
    seconds, _ = timed(lambda: table.map(encode, **options))
    size = path.stat().st_size / 1e6
    print(f"datasets.map: {seconds:.1f} s, {size / seconds:.1f} MB/s")


if __name__ == "__main__":
    main()
