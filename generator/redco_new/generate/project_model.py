"""The model of a project, for its templates: values, and the Python that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from redco_new.models.adapter import Adapter, adapter_filter
from redco_new.models.branches import MAIN, Branch, trained_filter, update_rule
from redco_new.models.gguf import Format, safetensors_alone
from redco_new.render.python import print_call, print_data, print_sections
from redco_new.render.values import Name, Plain, Text, checked
from redco_new.request import is_folder


@dataclass(frozen=True)
class ProjectModel:
    """The model, as a project names it.

    title: for people.
    class_name, config_class: of model.py.
    sizes: section of config.py that holds sizes -> its fields that differ from those of the class.
    tiny: section of config.py -> its fields that the preset `tiny` sets.
    branches: its models, where pipeline.py has several, the one that is exported first.
    maker: the function of pipeline.py that makes what is trained, of the class; "" for that class.
    head: whether pipeline.py puts a head on it, and says what files call that.
    classes: whether it has classes of its own, which have names.
    own_class: the name of the user's class, or of the recipe's; "" for a family.
    imported: whether model.py imports that class, from where the user has it.
    printed: whether model.py was printed from that class, which is PyTorch's.
    saves: whether its config says what layers save for the backward pass, `remat`.
    hub: whether weights.py says its config.json too, so that its export is a folder of Hugging Face's.
    packing: whether texts share a row, where a run says nothing: on, or off where they would mix.
    stacked: paths of its parameters, of an own class, whose first dim is layers.
    adapter: what is trained beside its frozen layers; None where it is trained itself.
    whole: the layers that are trained in full beside an adapter.
    task: what PEFT calls that of an adapter; "" where it has no name for it.
    modules: parts of names in checkpoints -> in PEFT, where it has others.
    bias_tables: layers that have one of these names, and hold biases.
    drops: whether it drops in training.
    checkpoint: what it was made of, which the preset `full` starts from, as --model has it; "" for none.
    format: what it is exported as.
    """

    title: str
    class_name: Name
    config_class: Name
    sizes: Mapping[Name, Plain] = field(default_factory=dict)
    tiny: Mapping[Name, Plain] = field(default_factory=dict)
    branches: Annotated[tuple[Branch, ...], checked("the recipe")] = ()
    maker: str = ""
    head: bool = False
    classes: bool = False
    own_class: str = ""
    imported: bool = False
    printed: bool = False
    saves: bool = False
    hub: bool = False
    packing: Name = "on"
    stacked: tuple[Text, ...] = ()
    adapter: Annotated[Adapter | None, checked("--lora")] = None
    whole: tuple[Name, ...] = ()
    task: str = ""
    modules: Mapping[Text, Text] = field(default_factory=dict)
    bias_tables: tuple[Name, ...] = ()
    drops: bool = False
    checkpoint: Annotated[str, checked("--model")] = ""
    format: Annotated[Format, checked("the family")] = safetensors_alone(
        "llama.cpp opens no class of your own"
    )

    @property
    def make(self) -> str:
        """Python that makes it in steps.py, of `config` and `key`."""
        one = "adapted" if self.adapter else self.class_name
        call = f"pipeline.{self.maker}({one}, config" if self.maker else f"{one}(config.model"
        of_one = ", lora=lora" if self.adapter and self.adapter.lora.sweep else ""
        return f"{call}, rngs=nnx.Rngs(key){of_one})"

    @property
    def has_config(self) -> bool:
        """Whether weights.py says its config.json, so that its export is a folder of Hugging Face's."""
        return self.hub or not self.own_class

    @property
    def defaults(self) -> dict[str, str]:
        """Section of config.py that holds sizes -> Python that makes its default, the model's own first."""
        calls = {k: f"lambda: {print_call(self.config_class, x)}" for k, x in self.sizes.items()}
        return calls or {MAIN: self.config_class}

    @property
    def preset(self) -> dict[str, str]:
        """Section of config.py -> its value in the preset `tiny`, as Python."""
        classes = {MAIN: self.config_class, **dict.fromkeys(self.sizes, self.config_class)}
        classes |= {"lora": self.adapter.class_name} if self.adapter else {}
        classes |= dict.fromkeys(self.further_optimizers, "Optimizer")
        return print_sections(
            {name: (classes.get(name, name.capitalize()), x) for name, x in self.tiny.items()}
        )

    def sweep(self, rate: float) -> str:
        """Return Python that makes the default of the section `sweep`, of adapters around a learning rate."""
        assert self.adapter is not None
        return print_call("Sweep", self.adapter.lora.sweep_around(rate))

    @property
    def weights(self) -> str:
        """Python of what files call its parameters, of `run` and the module `weights`."""
        return "pipeline.head_weights(run.config, weights)" if self.head else "weights"

    @property
    def settings(self) -> str:
        """Python for what its table of weights is made by, of a run's config."""
        return "config" if self.branches and not self.has_config else "config.model"

    @property
    def branch(self) -> str:
        """That which is exported of several models of a family; "" for one."""
        several = [one.name for one in self.branches if one.section and self.has_config]
        return several[0] if several else ""

    @property
    def further_optimizers(self) -> tuple[str, ...]:
        """Sections of config.py with an optimizer each, of models that have their own, but for the first."""
        return tuple(one.optimizer for one in self.branches if one.optimizer)[1:]

    @property
    def update_rule(self) -> str:
        """Python that makes the rule by which parameters follow their gradients."""
        own = any(one.optimizer for one in self.branches)
        return (
            update_rule(self.branches) if own else "config.optimizer.transform(config.train.steps)"
        )

    @property
    def trained(self) -> str:
        """The parameters that are trained, a filter of Flax NNX, as Python; the others are frozen."""
        return adapter_filter(self.whole) if self.adapter else trained_filter(self.branches)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of parameters that decay."""
        if not self.adapter:
            return ("kernel", "embedding")
        return ("lora_a", "lora_b", *(["kernel"] if self.whole else []))

    @property
    def inner_matrices(self) -> str:
        """An expression of whether the parameter at `path` is a matrix inside the model."""
        if self.adapter:
            return 'path[-1].key in ("lora_a", "lora_b")'
        last = "score" if self.head else "head"
        return f'path[-1].key == "kernel" and "{last}" not in [x.key for x in path]'

    @property
    def labels(self) -> str:
        """Python of the names of its classes and of their number, of `run`; "" where it has none of its own."""
        names = "pipeline.class_names(run.config), run.config.model.num_classes"
        return names if self.classes else ""

    @property
    def start(self) -> str:
        """Python of where that checkpoint is, "" for none. A relative path is from the project's folder."""
        if not is_folder(self.checkpoint):
            return print_data(self.checkpoint) if self.checkpoint else ""
        path = print_data(self.checkpoint)
        if self.checkpoint.startswith("~"):
            return f"str(Path({path}).expanduser())"
        return f"str((Path(__file__).parents[1] / {path}).resolve())"

    @property
    def frozen(self) -> str:
        """Its table of weights where these are frozen beside an adapter, as Python."""
        return f"Frozen({self.weights}{f', {print_data(self.modules)}' if self.modules else ''})"

    @property
    def tuned(self) -> str:
        """What is trained beside a frozen model, for people."""
        names = " and ".join(f"`{name}`" for name in self.whole)
        return f"an adapter, and all of {names}," if self.whole else "an adapter"

    @property
    def tuned_files(self) -> str:
        """What files of an adapter have of that head, for people; "" where there is none."""
        return ", the head among its `modules_to_save`" if self.whole else ""
