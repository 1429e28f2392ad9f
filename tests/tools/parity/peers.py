"""The peers: transformers' Trainer, TRL, PEFT, on the rows of a case.

python peers.py prepare FOLDER CASE   writes what both begin with
python peers.py train FOLDER CASE     trains, and writes FOLDER/theirs.json: the loss and the gradient's norm at each step

Of the environment .parity.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import transformers
from answers import answers
from cases import CASES, STEPS, Case
from checkpoints import prepare
from rows import LENGTH

PACKAGES = ("torch", "transformers", "accelerate", "trl", "peft")
Figures = list[list[float]]  # of each step: its loss, the norm of its gradient


def settings(case: Case, rows: int, micro: int = 0) -> dict[str, Any]:
    """Return the arguments that each Trainer gets. micro: micro-batches, where not those of the case."""
    micro = micro or case.micro
    return {
        "output_dir": "/nowhere",
        "per_device_train_batch_size": rows // micro,
        "gradient_accumulation_steps": micro,
        "max_steps": STEPS,
        "learning_rate": case.rate,
        "lr_scheduler_type": case.schedule,
        "warmup_steps": 0,
        "weight_decay": 0.1,
        "adam_beta1": 0.9,
        "adam_beta2": 0.95,
        "adam_epsilon": 1e-8,
        "max_grad_norm": 1.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "train_sampling_strategy": "sequential",
    }


def figures(trainer: Any) -> Figures:
    """Train, and return the figures."""
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    return [[float(log["loss"]), float(log["grad_norm"])] for log in logs]


class Parts:
    """What a case begins with, and its rows in order."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder, self.path = case, folder, str(folder / "model")
        self.rows = [json.loads(x) for x in (folder / "rows.jsonl").read_text().splitlines()]
        self.count = int((folder / "count").read_text())

    @property
    def tokenizer(self) -> Any:
        return transformers.AutoTokenizer.from_pretrained(self.path)

    def model(self, path: str = "") -> Any:
        kind = getattr(transformers, self.case.architecture)
        return kind.from_pretrained(path or self.path, dtype=torch.float32)

    def trainer(self, model: Any, rows: list[dict[str, Any]], micro: int = 0, **more: Any) -> Any:
        """Return transformers' Trainer of rows of tensors."""
        arguments = transformers.TrainingArguments(
            **settings(self.case, self.count, micro), remove_unused_columns=False
        )
        return transformers.Trainer(model.train(), arguments, train_dataset=rows, **more)


def padded(rows: list[dict[str, Any]], filler: dict[str, int]) -> dict[str, torch.Tensor]:
    """Return rows of lists as a batch."""
    batch = {}
    for key, fill in filler.items():
        longest = max(len(row[key]) for row in rows)
        batch[key] = torch.tensor([row[key] + [fill] * (longest - len(row[key])) for row in rows])
    return batch


def collator(**filler: int) -> Any:
    return lambda rows: padded(rows, filler)


def sft(parts: Parts) -> Figures:
    from trl import SFTConfig, SFTTrainer

    case, options = parts.case, dict(parts.case.options)
    adapter, model = options.pop("adapter", None), parts.model()
    if adapter:
        import peft

        model = peft.PeftModel.from_pretrained(model, parts.folder / "adapter", is_trainable=True)
    own = settings(case, parts.count)
    arguments = SFTConfig(**own, max_length=LENGTH, **options)
    return figures(
        SFTTrainer(
            model,
            arguments,
            train_dataset=datasets.Dataset.from_list(parts.rows),
            processing_class=parts.tokenizer,
        )
    )


def causal(parts: Parts) -> Figures:
    rows, tokenizer = [], parts.tokenizer
    for row in parts.rows:
        ids = tokenizer(row["text"])["input_ids"] + [tokenizer.eos_token_id]
        rows.append(
            {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [-100, *ids[1:]]}
        )
    collate = collator(input_ids=0, attention_mask=0, labels=-100)
    return figures(parts.trainer(parts.model(), rows, data_collator=collate))


def preferences(
    parts: Parts, kind: Any, config: Any, tokenizer: Any = None, **more: Any
) -> Figures:
    arguments = config(**settings(parts.case, parts.count), max_length=LENGTH, **more)
    return figures(
        kind(
            model=parts.model(),
            args=arguments,
            train_dataset=datasets.Dataset.from_list(parts.rows),
            processing_class=tokenizer or parts.tokenizer,
        )
    )


def ended_by_its_template(parts: Parts) -> Any:
    """Return a tokenizer whose eos is what ends a message, and that has no bos: experimental trainers add both."""
    tokenizer = parts.tokenizer
    tokenizer.eos_token, tokenizer.bos_token = "<end>", None
    return tokenizer


def dpo(parts: Parts) -> Figures:
    from trl import DPOConfig, DPOTrainer

    return preferences(parts, DPOTrainer, DPOConfig, beta=0.1)


def ipo(parts: Parts) -> Figures:
    from trl import DPOConfig, DPOTrainer

    return preferences(parts, DPOTrainer, DPOConfig, beta=0.1, loss_type="ipo")


def kto(parts: Parts) -> Figures:
    from trl import KTOConfig, KTOTrainer

    return preferences(parts, KTOTrainer, KTOConfig, beta=0.1)


def orpo(parts: Parts) -> Figures:
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    return preferences(parts, ORPOTrainer, ORPOConfig, ended_by_its_template(parts), beta=0.1)


def simpo(parts: Parts) -> Figures:
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    own = {"loss_type": "simpo", "cpo_alpha": 0.0, "simpo_gamma": 1.0}
    return preferences(parts, CPOTrainer, CPOConfig, ended_by_its_template(parts), beta=2.0, **own)


def reward(parts: Parts) -> Figures:
    from trl import RewardConfig, RewardTrainer

    return preferences(parts, RewardTrainer, RewardConfig)


def classify(parts: Parts) -> Figures:
    rows = []
    for row in parts.rows:
        ids = parts.tokenizer(row["text"])["input_ids"]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [row["label"]]})
    pad = collator(input_ids=0, attention_mask=0, labels=-100)
    trainer = parts.trainer(
        parts.model(), rows, data_collator=lambda x: (b := pad(x)) | {"labels": b["labels"][:, 0]}
    )
    return figures(trainer)


def tag(parts: Parts) -> Figures:
    rows = []
    for row in parts.rows:
        coded = parts.tokenizer(row["words"], is_split_into_words=True)
        words, labels = coded.word_ids(), []
        for before, word in zip([None, *words], words, strict=False):
            first = word is not None and word != before
            labels.append(row["labels"][word] if first else -100)
        ids = coded["input_ids"]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    collate = collator(input_ids=0, attention_mask=0, labels=-100)
    return figures(parts.trainer(parts.model(), rows, micro=1, data_collator=collate))


def seq2seq(parts: Parts) -> Figures:
    rows, tokenizer = [], parts.tokenizer
    for row in parts.rows:
        ids = tokenizer(row["source"])["input_ids"]
        labels = tokenizer(text_target=row["target"])["input_ids"]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels})
    collate = collator(input_ids=0, attention_mask=0, labels=-100)
    return figures(parts.trainer(parts.model(), rows, micro=1, data_collator=collate))


def learning_padding(model: Any) -> Any:
    """Return a model whose token of padding learns as any other, where it is drawn as a word."""
    model.get_input_embeddings().padding_idx = None
    return model


def masked(parts: Parts) -> Figures:
    batches = dict(np.load(parts.folder / "batches.npz"))
    batches = {key: np.concatenate(value) for key, value in batches.items()}
    asked = batches["labels"]
    labels = np.where(asked < 0, -100, asked)
    rows = [
        {
            "input_ids": torch.tensor(ids, dtype=torch.long),
            "attention_mask": torch.tensor(mask, dtype=torch.long),
            "labels": torch.tensor(label, dtype=torch.long),
        }
        for ids, mask, label in zip(batches["input_ids"], batches["mask"], labels, strict=True)
    ]
    return figures(parts.trainer(learning_padding(parts.model()), rows))


class TableDecay(transformers.Trainer):
    """A Trainer by which the class token and the positions do not decay, as with ours, timm and big_vision."""

    def get_decay_parameter_names(self, model: Any) -> list[str]:
        names = super().get_decay_parameter_names(model)
        return [name for name in names if not name.endswith(("cls_token", "position_embeddings"))]


def image(parts: Parts) -> Figures:
    from PIL import Image

    processor = transformers.ViTImageProcessorPil.from_pretrained(parts.path)
    names = parts.model().config.label2id
    seen = {x.tobytes() for x in np.load(parts.folder / "batches.npz")["pixels"][0]}
    rows = []
    for row in parts.rows:
        if np.array(Image.open(row["image"])).tobytes() not in seen:
            continue  # it is held out
        values = processor(Image.open(row["image"]), return_tensors="pt")["pixel_values"][0]
        rows.append({"pixel_values": values, "labels": torch.tensor(names[row["label"]])})
    arguments = transformers.TrainingArguments(
        **settings(parts.case, parts.count), remove_unused_columns=False
    )
    return figures(TableDecay(parts.model().train(), arguments, train_dataset=rows))


def grpo(parts: Parts) -> Figures:
    from grpo_losses import KINDS
    from trl import GRPOConfig, GRPOTrainer

    batches = dict(np.load(parts.folder / "batches.npz"))
    made = [answers({key: value[i] for key, value in batches.items()}) for i in range(STEPS)]

    class Answered(GRPOTrainer):
        """A trainer that is given answers."""

        def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
            return made[self.state.global_step]

    group = batches["input_ids"].shape[2]
    loss_type, level, (low, high) = KINDS[parts.case.options["kind"]]
    own = settings(parts.case, parts.count * group)
    arguments = GRPOConfig(
        **own,
        num_generations=group,
        beta=0.04,
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon=low,
        epsilon_high=high,
        use_bias_correction_kl=False,
        max_completion_length=16,
        num_iterations=2,
    )
    return figures(
        Answered(
            learning_padding(parts.model()),
            args=arguments,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=datasets.Dataset.from_list([{"prompt": x["prompt"]} for x in parts.rows]),
            processing_class=parts.tokenizer,
        )
    )


def distil(parts: Parts) -> Figures:
    share, temperature = parts.case.options["share"], parts.case.options["temperature"]
    teacher = parts.model(str(parts.folder / "teacher")).eval()

    class Distilling(transformers.Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            labels = inputs["labels"][:, 1:]
            known = labels != -100
            ids = {key: inputs[key] for key in ("input_ids", "attention_mask")}
            student = model(**ids).logits[:, :-1]
            with torch.no_grad():
                taught = teacher(**ids).logits[:, :-1]
            own = torch.log_softmax(student / temperature, -1)
            told = torch.log_softmax(taught / temperature, -1)
            apart = (told.exp() * (told - own)).sum(-1)[known].mean() * temperature**2
            plain = torch.nn.functional.cross_entropy(student[known], labels[known])
            return share * apart + (1 - share) * plain

    rows, tokenizer = [], parts.tokenizer
    for row in parts.rows:
        ids = tokenizer(row["text"])["input_ids"] + [tokenizer.eos_token_id]
        rows.append({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": ids})
    arguments = transformers.TrainingArguments(
        **settings(parts.case, parts.count), remove_unused_columns=False
    )
    collate = collator(input_ids=0, attention_mask=0, labels=-100)
    trainer = Distilling(
        parts.model().train(), arguments, train_dataset=rows, data_collator=collate
    )
    return figures(trainer)


def main(task: str, folder: Path, names: list[str]) -> None:
    for case in CASES:
        own = folder / case.name.replace(", ", "-").replace(" ", "-")
        if case.name not in names:
            continue
        if task == "prepare":
            own.mkdir(parents=True)
            prepare(case, own)
            continue
        try:
            found = globals()[case.by](Parts(case, own))
        except Exception as error:  # of one peer: the others go on
            import traceback

            traceback.print_exc()
            print(f"{case.name}: {error}", file=sys.stderr)
            continue
        (own / "theirs.json").write_text(json.dumps(found))
        versions = {name: version(name) for name in PACKAGES}
        (folder / "versions.json").write_text(json.dumps(versions))


if __name__ == "__main__":
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
