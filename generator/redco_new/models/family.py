"""A family of models: its template, the sizes that have a name, and how to read its config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from redco_new.models.activations import ACTIVATIONS
from redco_new.render.values import one_of

# What a recipe can call: methods of the emitted class with the arguments that have no default.
# A family says what its class has, a recipe what it needs; tests hold the former against model.py.
CAUSAL = frozenset(
    {
        "hidden(input_ids_BS)",
        "logits(x_BSD)",
        "init_cache(batch, length)",
        "decode(input_ids_BS, positions_BS, mask_BT, cache, index)",
    }
)
ROUTED = frozenset({"routed(input_ids_BS, mask_BS)"})
MASKED = frozenset({"hidden(input_ids_BS, mask_BS)", "logits(x_BSD)"})
ENCODER_DECODER = frozenset(
    {
        "encode(input_ids_BS, mask_BS)",
        "hidden(decoder_ids_BT, x_BSD, mask_BS)",
        "logits(y_BTD)",
        "init_cache(x_BSD, length)",
        "decode(decoder_ids_BT, mask_BS, cache, index)",
    }
)
IMAGES = frozenset({"__call__(pixels_BHWC)"})


# Where a model may drop in training, and what it drops there, for people.
HEAD = "head"  # of a recipe, and in no model.py
DROPS = {
    "embed": "embeddings",
    "residual": "what layers add",
    "weights": "weights of attention",
    "inner": "activations inside an MLP",
    "end": "last hidden states",
    HEAD: "what a head for classes reads",
}


# Fields of the config class of a model in stages: rows of a micro-batch, and how often each goes through all stages.
STAGE_FIELDS = {"stage_rows": 1, "stage_repeats": 1}


@dataclass(frozen=True)
class Size:
    """A size that has a name.

    config: keys of config.json, where they differ from the defaults of the family.
    tokenizer: Hugging Face id of the model.
    """

    config: Mapping[str, Any]
    tokenizer: str


@dataclass(frozen=True)
class Quirks:
    """What the emitted code depends on besides sizes; each template has a subclass for its own.

    Fields are str, bool, or int, since the manifest of a project records them.
    """


@dataclass(frozen=True)
class GroupedQuirks(Quirks):
    """The quirks of a model whose key and value heads may be fewer than its query heads.

    kv_copies: whether devices share key and value heads, each with a copy of one.
    """

    kv_copies: bool = False

    @property
    def cache_heads(self) -> str:
        """The number of heads in a cache, as an expression of the config `c`."""
        return "c.num_kv_heads * c.kv_copies" if self.kv_copies else "c.num_kv_heads"


@dataclass(frozen=True)
class ActivationQuirks(Quirks):
    """The quirks of a model of which nothing else varies.

    activation: what is between the two products of an MLP, by its name in shared/layers.jinja.
    """

    activation: Annotated[str, one_of(frozenset(ACTIVATIONS.values()))]


@dataclass(frozen=True)
class Settings:
    """What a config.json says, as templates print it.

    sizes: fields of the emitted config class -> plain values.
    quirks: what the emitted code depends on besides: the templates branch on nothing else.
    sequence_length: tokens of a training example by default; 0 for a model without a sequence.
    """

    sizes: dict[str, Any]
    quirks: Quirks
    sequence_length: int

    def with_quirks(self, **changes: Any) -> Settings:
        """Return the same settings with some fields of the quirks changed."""
        return replace(self, quirks=replace(self.quirks, **changes))


@dataclass(frozen=True)
class Gguf:
    """How llama.cpp has a family.

    arch: its name there.
    change: the function of runtime/redco_runtime/checkpoints/gguf/changes.py by which its tensors are other ones.
    quirks: those that its models need there.
    """

    arch: str
    change: str = "unchanged"
    quirks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A folder of templates/models, and what a project of it needs to know.

    name: what --model takes.
    title: for people.
    model_type: of config.json.
    architecture: of config.json, and transformers' name of the PyTorch class.
    template: folder of templates/models.
    model_class: the class that model.py defines; its config class has Config behind.
    recipes: kinds of training by which it is usually trained, the default first.
    provides: signatures of the emitted class that recipes may call.
    sizes: by name, the default first.
    defaults: keys of config.json that transformers' config class has, with its defaults; a test
        holds them against the class, which a size that has a name does not import.
    keys: field of the emitted config class -> key of config.json, where one is the other.
    read: config -> Settings; raises RedcoError that names what is not honoured.
    shrink: (config, shards) -> keys of config.json that make a tiny one of it, with the same
        quirks, whose dims divide where the full one's do.
    quirks: class of the quirks that `read` gives.
    bias_tables: its layers whose tables are biases, which no weight decay is for.
    modules: parts of the names in checkpoints -> what transformers 5 calls these modules, and PEFT with
        it, where it renames what it loads; of several, the first first.
    dropout: where it drops, of DROPS -> the key of config.json that has the rate; {} for a family without dropout.
    gguf: how llama.cpp has it; None where it does not open it.
    alike: whether its layers are one class, each called with hidden states and texts alone: devices may have some each.
    """

    name: str
    title: str
    model_type: str
    architecture: str
    template: str
    model_class: str
    recipes: tuple[str, ...]
    provides: frozenset[str]
    sizes: Mapping[str, Size]
    defaults: Mapping[str, Any]
    keys: Mapping[str, str]
    read: Callable[[Any], Settings]
    shrink: Callable[[Any, int], dict[str, Any]]
    quirks: type[Quirks] = Quirks
    bias_tables: tuple[str, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    dropout: Mapping[str, str] = field(default_factory=dict)
    gguf: Gguf | None = None
    alike: bool = False

    @property
    def routed(self) -> bool:
        """Whether its layers have experts, whose routers have a loss of their own."""
        return self.provides >= ROUTED

    @property
    def task(self) -> str:
        """What PEFT calls the task of an adapter; "" where it has no class of its own for that."""
        if self.provides >= ENCODER_DECODER:
            return "SEQ_2_SEQ_LM"
        return "CAUSAL_LM" if self.provides >= CAUSAL else ""

    @property
    def config_class(self) -> str:
        """The config class that model.py defines."""
        return f"{self.model_class}Config"
