"""Values of settings that no run can have, named before it boots; and functions of pipeline.py with the arguments that they get."""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax.numpy as jnp

from ..base.contracts import Asking, Counted, Drawn, Pipeline, Scored
from ..base.messages import UserError
from ..base.files import any_path, check_characters, check_paths, local_path

# Settings that are paths, or names of them: of this machine, or of a bucket too.
PATHS = dict.fromkeys("text_files image_folder image_data tokenizer".split(), local_path)
PATHS |= dict.fromkeys(("teacher", "reward_model", "token_folder"), any_path)
CONTRACTS = (Pipeline, Scored, Asking, Drawn, Counted)
LARGEST = 2**63 - 1  # that a whole number of JAX or of a file may be

Range = tuple[Callable[[Any], bool], str]
# In words -> what holds of settings that are numbers, and their names: a test holds them against every config.py. A
# setting that a user adds has the range that its class gives it.
WORDS: dict[str, Range] = {
    "above 0": (
        lambda x: x > 0,
        """batch_size micro_batches log_every eval_every save_every keep clip_norm adam_epsilon
        clip delta silence temperature clients drawn shots tasks expected_rows new_tokens round_length
        minibatch_length round_steps replay_rounds numbers vocab_size embed_dim token_dim
        mlp_dim head_dim rotary_dim num_layers encoder_layers decoder_layers num_heads
        num_kv_heads num_experts experts_per_token num_types num_classes num_channels inputs
        outputs width shared_dim caption_length heads layers hidden_layers text_layers
        image_size patch_size max_positions original_positions window global_every
        distance_buckets max_distance kv_copies rope_theta local_theta rope_factor rope_low
        rope_high rope_scale rope_fast rope_slow query_scalar lora_rank lora_block lora_alpha
        score_cap logit_cap""",
    ),
    "of 0 or more": (
        lambda x: x >= 0,
        """steps epochs warmup_steps keep_every eval_rows eval_examples patience max_skips seed step_timeout
        spike learning_rate weight_decay kl beta noise epsilon held_out skip_bad_rows first
        shift teacher_steps action_limit norm_epsilon layer_norm_epsilon router_loss_coef""",
    ),
    # Of one token there is none to learn behind it; of a group, answers are compared with each other.
    "of 2 or more": (lambda x: x >= 2, "sequence_length target_length group"),
    "from 0 to below 1": (
        lambda x: 0 <= x < 1,
        """beta1 beta2 ema_decay label_smoothing lora_dropout resid_pdrop embd_pdrop attn_pdrop
        hidden_dropout_prob attention_probs_dropout_prob dropout dropout_rate attention_dropout
        activation_dropout classifier_dropout""",
    ),
    "from 0 to 1": (lambda x: 0 <= x <= 1, "target_rate teacher_share final_rate"),
    "of 0 or more, or -1": (lambda x: x >= -1, "only_client"),
}
RANGES = {name: (holds, words) for words, (holds, names) in WORDS.items() for name in names.split()}


def check_values(config: Any) -> None:
    """Raise UserError for a value that no run of any recipe can have."""
    for settings in vars(config).values():
        check_section(settings)
        _check_dtype(getattr(settings, "dtype", None) or None)  # "": that of another model
    length = getattr(config.data, "sequence_length", None)
    most = getattr(config.model, "max_positions", None)
    if length is not None and most is not None and length > most:
        raise UserError(
            f"--sequence-length: {length} tokens, and the model has places for {most}: give fewer, or more --max-positions"
        )


def check_section(settings: Any) -> None:
    """Raise UserError for a number of a section of config.py that no run of any recipe can have."""
    for field, value in vars(settings).items():
        flag = f"--{field.replace('_', '-')}"
        check_number(field, value, flag)
        if isinstance(value, str | tuple):
            check_text(flag, value)
        if field in PATHS:
            check_paths(flag, value, PATHS[field])


def check_number(field: str, value: Any, flag: str) -> None:
    """Raise UserError, which names the flag, for a number that a setting of that name cannot be."""
    if type(value) not in (int, float):
        return
    bounds = RANGES.get(field)
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise UserError(f"{flag}: {value}: give a finite number below 2**63")
    if bounds and not bounds[0](value):
        raise UserError(f"{flag}: {value}: give a number {bounds[1]}")


def check_text(flag: str, value: Any) -> None:
    """Raise UserError, which names the flag, for a text, or one of several, that has half of a character."""
    try:
        check_characters(value)
    except ValueError as error:
        raise UserError(f"{flag}: {error}") from None


def _check_dtype(name: object) -> None:
    """Raise UserError for what is the name of no dtype that a model computes in."""
    if isinstance(name, str):
        try:
            floats = jnp.issubdtype(jnp.dtype(name), jnp.floating)
        except TypeError:
            floats = False
        if not floats:
            what = f"no dtype of real numbers is called {name!r}"
            raise UserError(f"--dtype: {what}: give bfloat16 or float32")


def check_hooks(pipeline: object, contracts: Iterable[type] = CONTRACTS) -> None:
    """Refuse a pipeline without one of its functions, and one that has not its arguments. Raises UserError.

    contracts: protocols; what the module lacks of one it need not have, and the rest is no hook then.
    """
    for contract in contracts:
        public = {name: x for name, x in vars(contract).items() if not name.startswith("_")}
        hooks = {name: x for name, x in public.items() if inspect.isfunction(x)}
        if contract is Pipeline and (lacks := [x for x in hooks if not hasattr(pipeline, x)]):
            call = f"{lacks[0]}({', '.join([*inspect.signature(hooks[lacks[0]]).parameters][1:])})"
            raise UserError(f"pipeline.py has no {lacks[0]}: training calls {call}: write it there")
        if all(hasattr(pipeline, name) for name in (*hooks, *inspect.get_annotations(contract))):
            for name, hook in hooks.items():
                _check(name, getattr(pipeline, name), list(inspect.signature(hook).parameters)[1:])


def _check(name: str, function: object, arguments: list[str]) -> None:
    call = f"{name}({', '.join(arguments)})"
    todo = "give it these arguments, or another name if it is a helper of yours"
    if not callable(function):
        what = f"training calls {call}, and it is no function"
        raise UserError(f"{name} in pipeline.py: {what}: {todo}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled code: it takes what it takes
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        what = f"training calls {call} by its name"
        raise UserError(f"{name}{signature} in pipeline.py: {what}: {todo}") from None
