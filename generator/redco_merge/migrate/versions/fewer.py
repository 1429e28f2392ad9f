"""Modules of the runtime that were read together are one: what they have keeps its name."""

from redco_merge.migrate.codemods import Migration, Rename

# Module of PACKAGE.runtime -> the one that has it now, and what users' code may call of it.
MERGED = {
    "actors.history": ("actors.rounds", "History"),
    "actors.rollouts": ("actors.playing", "Actor Predict Row roll_out"),
    "base.errors": ("base.messages", "MOST_LINES UserError few first listed shown writing"),
    "base.features": ("base.messages", "feature if_asked_for"),
    "base.json_lines": (
        "base.files",
        "append_line check_characters cut_lines files_of_lines parse_json read_lines read_text",
    ),
    "base.output": ("base.messages", "announce announce_training print_once results_alone show"),
    "base.paths": (
        "base.files",
        "any_path cache_of check_paths is_bucket local_path path_of remove_tree scheme_of "
        "whole_checkpoints work_folder written_here",
    ),
    "base.progress_bar": ("base.progress", "ProgressBar"),
    "checkpoints.fit_report": ("checkpoints.tensors", "describe differences"),
    "checkpoints.shared_reads": ("checkpoints.tensors", "move to_read"),
    "data.prepare.reading": ("data.prepare.formats", "read_documents read_items read_text"),
    "data.subset": ("data.example_streams", "Spread"),
    "data.text.blocks": ("data.text.prompts", "cut_row pad_row rows_to_continue"),
    "data.text.encoder": ("data.tokenizer", "PLAIN Encoder id_dtype make_encoder"),
    "data.text.mixture": ("data.text.examples", "Mixture in_epochs"),
    "data.text.request": ("data.text.sources", "Reader ask"),
    "data.text.samples": ("data.text.prompts", "WORDS Prompts first_words own_prompts"),
    "data.text.sources": ("data.text.in_memory", "one_a_row"),
    "data.text.texts": ("data.text.text_examples", "TextMaker"),
    "data.text.tokens": ("data.text.documents", "Contents index_of write_documents"),
    "loop.inference": ("loop.evaluation", "Inference"),
    "monitor.loggers": (
        "monitor.metrics",
        "LOGGERS PATIENCE TRACKERS Logger Loggers Values check_loggers open_loggers",
    ),
    "monitor.goodput": ("monitor.events", "Sums add_up_events"),
    "nn.saved_names": ("nn.layers", "CHOICE FIT LOGITS OFFLOAD POLICIES Choice saved saving"),
    "run.check_pipeline": ("run.check_settings", "check_hooks"),
    "step.compilation": ("step.xla", "keep_programs"),
    "step.jaxprs": ("step.memory_estimate", "by_step bytes_of layer_loops makers_of split_parts"),
}

MIGRATION = Migration(
    11,
    "modules of the runtime that were read together are one",
    tuple(
        Rename(f"project.runtime.{module}.{name}", f"project.runtime.{target}.{name}")
        for module, (target, names) in MERGED.items()
        for name in names.split()
    ),
)
