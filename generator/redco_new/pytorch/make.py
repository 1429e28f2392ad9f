"""The one call of this package: from a class of PyTorch to a `PrintedClass`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from redco_plan import error_message
from redco_new.errors import RedcoError
from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.own.outputs import Untrained
from redco_new.own.maker import MISSING, call_user_code
from redco_new.own.quick_programs import compiled_once
from redco_new.pytorch.alike import check_alike
from redco_new.pytorch.author import asserted
from redco_new.pytorch.construct import construct
from redco_new.pytorch.depth import with_few_layers
from redco_new.pytorch.draft import Draft
from redco_new.pytorch.draw_up import FindSizes, draft_class, trace_way
from redco_new.pytorch.dtypes import COMPUTE, FIELD
from redco_new.pytorch.experts import computes_all
from redco_new.pytorch.fast_paths import silence, without_fast_paths
from redco_new.pytorch.entries import saved_names
from redco_new.pytorch.functions import names_of_entries
from redco_new.pytorch.norms import names_of_norms
from redco_new.pytorch.gate import compare
from redco_new.pytorch.gate_pair import Pair, input_names, make_pair, printed_arrays, with_weights
from redco_new.pytorch.gate_memory import refuse_memory
from redco_new.pytorch.gate_dtype import DRAWS, compare_rounded
from redco_new.pytorch.gate_examples import examples, of_one_kind
from redco_new.pytorch.gate_texts import shares_rows, writes_targets, writes_texts
from redco_new.pytorch.kinds import PAIRS
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.notes import ALONE, ANEW, ASSERTS, EVERY, FLOAT32, OFF, ROWS, WHOLE
from redco_new.pytorch.outputs import shapes_of
from redco_new.pytorch.printed import PrintedClass
from redco_new.pytorch.printed_class import Made
from redco_new.pytorch.probe import find_sizes
from redco_new.pytorch.search import LEAST
from redco_new.pytorch.setting import Setting
from redco_new.pytorch.refusal import (
    UNRULED,
    UNSERVED,
    Differs,
    Impossible,
    NoHidden,
    UnlikeProgram,
    refuse,
)
from redco_new.pytorch.stored_names import by_keys, checkpoint_keys, unread_names
from redco_new.pytorch.subject import Subject, Way, read_subject
from redco_new.pytorch.texts import IDS, TextMethods
from redco_new.pytorch.ties import tied_names
from redco_new.pytorch.transformers_classes import hub_facts, is_transformers, switched_off
from redco_new.pytorch.unseen import computes_alike
from redco_new.render.execute import use_runtime

PATIENCE = 60  # CPU seconds after which no further way to print a class is tried


@silence()
@without_fast_paths()
def print_class(
    reference: Reference,
    where: str,
    arguments: Mapping[str, Any],
    call: Call,
    by_hub: bool = True,
    check: Callable[[Any], None] | None = None,
) -> PrintedClass:
    """Print a torch.nn.Module as an NNX class, and compare both: nothing comes back that the gate refuses.

    reference: the class, as `own.find.find_reference` imports it
    where: what gave `arguments` (of the constructor) and `call` (of `forward`), for messages
    by_hub: whether a class of transformers has the methods of what it is for, if that is clear
    check: raise `Untrained` for outputs, as `shapes_of` gives them, before they are printed

    Raises RedcoError, with the class's line, for what cannot be printed or differs from PyTorch.
    """
    use_runtime()
    subject, causes = read_subject(reference, where, arguments, call, by_hub), list[RedcoError]()
    make = subject.make_plain
    maker = partial(construct, lambda: make(subject.arguments))
    whole = call_user_code(reference.name, maker, MISSING)
    _check_parameters(reference.name, whole.module)
    start, programs = time.process_time(), list[Any]()
    for way in subject.ways:
        headless = any(isinstance(error, NoHidden) for error in causes)
        if subject.ways[0].texts and headless is way.texts:
            continue
        if not headless and time.process_time() - start > PATIENCE:
            break
        way, setting = with_few_layers(way, Setting(subject.arguments, way.call.inputs))
        sizes = cache(partial(find_sizes, way.make, way.call, setting.arguments))
        for dtype in (COMPUTE, torch.float32):
            try:
                base = trace_way(way, setting, dtype)
                if check:
                    check(shapes_of(base[1].graphs[""], base[1].outputs, setting.batch))
                graphs = {path: str(graph) for path, graph in base[1].graphs.items()}
                program = dtype, way.texts, graphs
                if program in programs:  # as of a class that has no attention
                    break
                programs.append(program)
                printed = _print(reference, subject, way, dtype, base, sizes)
            except (Impossible, Untrained):
                raise
            except (Differs, NoHidden, UnlikeProgram) as error:  # whatever it is traced in
                causes.append(error)
                break
            except RedcoError as error:
                causes.append(error)
                continue
            except UNSERVED as error:
                text = "" if isinstance(error, LookupError) else f": {error_message(error)}"
                causes.append(refuse(reference.name, f"{UNRULED}{text}"))
                continue
            if dtype == torch.float32:
                note = FLOAT32.format(name=reference.name, cause=causes[-1].what)
                printed = replace(printed, notes=(*printed.notes, note))
            return printed
    raise causes[-1]  # of the last way, which is nearest to the class


def _print(
    reference: Reference,
    subject: Subject,
    way: Way,
    dtype: torch.dtype,
    base: Made,
    sizes: FindSizes,
) -> PrintedClass:
    """Return a class as one way prints it, traced in a dtype, of the user's sizes. Raises RedcoError."""
    check_alike(reference.name, subject, way, sizes(LEAST, False, False).small)
    with compiled_once():
        is_right = partial(computes_alike, subject, way)
        draft = draft_class(reference, way, dtype, base, sizes, is_right)
        return _pass_gate(reference, subject, way, draft)


def _check_parameters(name: str, module: nn.Module) -> None:
    """Raise RedcoError for one that is complex, of which PyTorch's optimizers and ours make two things, or that a hook computes of others."""
    for path, parameter in module.named_parameters():
        if parameter.is_complex():
            todo = "hold its parts as real numbers, and call torch.view_as_complex"
            raise refuse(name, f"its parameter {path} is complex", todo)
    for path, part in module.named_modules():
        hooks = (part, *part._forward_pre_hooks.values())
        if any("SpectralNorm" in type(x).__name__ for x in hooks):
            owner = path.partition(".parametrizations")[0]
            what = f"spectral_norm changes vectors of {owner} in each step, which is not printed"
            raise refuse(
                name, what, "leave it out, or take weight_norm of torch.nn.utils.parametrizations"
            )
        if type(part) in LEAVES and isinstance(vars(part).get("weight"), torch.Tensor):
            todo = "make it by torch.nn.utils.parametrizations, or remove the hook"
            raise refuse(name, f"a hook computes the weight of {path}, as weight_norm does", todo)


def _pass_gate(reference: Reference, subject: Subject, way: Way, draft: Draft) -> PrintedClass:
    """Return a class that is printed and compared. Raises RedcoError where it differs from PyTorch's."""
    classes, whole, text = draft.classes, draft.whole, draft.text()
    plain = with_weights(subject, draft.small)
    try:
        pair = make_pair(draft, plain, text)
    except (TypeError, ValueError) as error:
        raise refuse(
            reference.name, f"as printed it cannot be made: {error_message(error)}"
        ) from error
    names = input_names(whole, way)
    arrays = examples(plain, draft.small, names.values())
    call = way.plain_call
    refuse_memory(plain, arrays, call)
    gate = compare("--model", pair, arrays, call, names)
    if any(f.name == FIELD for f in draft.fields):
        like = construct(lambda: subject.make_plain(draft.small.arguments), dtype=COMPUTE).module
        modules = (with_weights(subject, draft.small, number) for number in range(DRAWS))
        pairs = (replace(pair, torch=x, printed=pair.print_in("bfloat16")) for x in modules)
        times = compare_rounded("--model", pairs, like, arrays, call, names)
        gate = replace(gate, rounded=times)
    if isinstance(whole.methods, TextMethods):
        text = _with_methods(draft, whole.methods, pair, arrays[IDS])
    if way.kind is PAIRS:
        named = printed_arrays(arrays, names)
        if not writes_targets(pair.printed, named):
            raise refuse(reference.name, "its targets see later tokens: it writes none")
        classes.note(WHOLE.format(name=reference.name))
    if computes_all(plain):
        classes.note(EVERY.format(name=reference.name))
    if classes.probes[0].traced.all_rows:
        compare("--model", pair, of_one_kind(arrays), call, names)
        classes.note(ROWS.format(name=reference.name))
    if off := switched_off(reference.value, subject.arguments):
        classes.note(OFF.format(name=reference.name, keys=", ".join(off)))
    of_hub = is_transformers(reference.value)
    for name, conditions in () if of_hub else _asserted(plain):
        classes.note(ASSERTS.format(name=name, what="; ".join(conditions[:3])))
    own = saved_names(plain) | names_of_norms(plain)
    keys = checkpoint_keys(plain) if of_hub else names_of_entries(plain, own)
    return PrintedClass(
        name=reference.name,
        source=text,
        model_class=whole.name,
        config_class=draft.config_class,
        fields=tuple(draft.fields),
        inputs={key: x for key, x in way.call.inputs.items() if key in names.values()},
        modes=bool(pair.buffers or classes.drops),
        parameters=by_keys(keys, pair.parameters),
        buffers=by_keys(keys, pair.buffers),
        tied={keys.get(k, k): keys.get(x, x) for k, x in tied_names(plain).items()},
        unread=unread_names(plain, keys) if of_hub else (),
        hub=hub_facts(reference.value, subject.arguments) if whole.methods else None,
        requires=(f"torch {torch.__version__.partition('+')[0]}",),
        notes=tuple([*classes.notes, *filter(None, [way.note])]),
        gate=gate,
    )


def _asserted(module: nn.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each class of the user's in a module that asserts something, and what."""
    for cls in dict.fromkeys(map(type, module.modules())):
        if not cls.__module__.startswith("torch.") and (conditions := asserted(cls)):
            yield cls.__name__, conditions


def _with_methods(draft: Draft, methods: TextMethods, pair: Pair, ids: np.ndarray) -> str:
    """Return model.py with the methods of a decoder that compute what they should. Raises RedcoError where none do."""
    name, model, text = draft.reference.name, pair.printed, draft.text()
    for way in methods.ways():
        if way is not methods:
            draft.whole.methods = way
            text = draft.text()
            model = draft.model(text)
            replace(pair, printed=model).bring_weights()
        if way.shares and not shares_rows(model, ids) or not writes_texts(model, ids):
            continue
        for note in [ALONE] * (not way.shares) + [ANEW] * (not way.cache):
            draft.classes.note(note.format(name=name))
        return text
    raise refuse(name, "its tokens see later ones: it writes no texts")
