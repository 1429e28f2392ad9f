"""The runtime is part of a project's own package, in rooms: each module has another name, and what it has keeps its own."""

from redco_merge.migrate.codemods import Migration, Moves

# Room of PACKAGE.runtime -> modules that keep their names there.
KEPT = {
    "base": "contracts errors interrupts output progress progress_bar state",
    "checkpoints": "best checkpoint checksums export load",
    "cluster": "agreement launch lifeline relay rendezvous slowest",
    "data": "chats class_report classes collating completions labels pairs pictures preview privacy text tokenizer",
    "layout": "activations apart mesh specs unsharded",
    "loop": "evaluation inference predicting scoring start stop talking",
    "monitor": "events goodput loggers metrics profiling",
    "nn": "attention beam decoding embedding generate kernels layers linear losses matrices plain_losses stored_products",
    "nn.experts": "expert_blocks expert_rows experts",
    "run": "generation lock settings_file",
    "step": "compilation expert_memory flops gradients guard muon optimizers remat surrogate variables xla",
}
# Those that have another name there too.
RENAMED = {
    "lines": "base.json_lines",
    "stored": "base.hf_files",
    "weights": "base.tensors",
    "checkpoint_tensors": "checkpoints.tensors",
    "differences": "checkpoints.fit_report",
    "merge": "checkpoints.lora_into_matrices",
    "adapters.base": "checkpoints.lora.base",
    "adapters.lora": "checkpoints.lora.lora",
    "adapters.peft": "checkpoints.lora.peft",
    "adapters.start": "checkpoints.lora.start",
    "data": "data.batches",
    "draws": "data.example_random",
    "order": "data.permutation",
    "text.build": "data.prepare.build",
    "text.formats": "data.prepare.formats",
    "text.parts": "data.class_columns",
    "text.shard": "data.prepare.shard",
    "text.tables": "data.prepare.tables",
    "text.worker": "data.prepare.build",
    "spread": "data.subset",
    "streams": "data.example_streams",
    "cli": "loop.command",
    "memory": "loop.out_of_memory",
    "several.branches": "loop.branches",
    "several.teacher": "loop.teacher",
    "importing": "nn.user_class",
    "packed": "nn.packed_rows",
    "saving": "nn.saved_names",
    "several.divergence": "nn.divergence",
    "adapters.blocks": "nn.adapters.blocks",
    "adapters.layers": "nn.adapters.layers",
    "adapters.settings": "nn.adapters.settings",
    "dispatch": "nn.experts.expert_exchange",
    "groups": "nn.experts.grouped_matmul",
    "heads.classifier": "nn.heads.classifier",
    "heads.scores": "nn.heads.scores",
    "comments": "run.flag_help",
    "hooks": "run.check_pipeline",
    "ranges": "run.check_settings",
    "run": "run.record",
    "starts": "run.history",
    "needs": "step.memory_estimate",
    "pace": "step.guard",
    "hub": "base.hf_files",
    "several.optimizers": "step.branch_optimizers",
    "traces": "step.jaxprs",
}
KEEP = {name: f"{room}.{name}" for room, names in KEPT.items() for name in names.split()}
MOVES = Moves({"actors": "actors", **KEEP, **RENAMED})

MIGRATION = Migration(
    5,
    "the runtime lies in your own package, in rooms",
    (MOVES,),
)
