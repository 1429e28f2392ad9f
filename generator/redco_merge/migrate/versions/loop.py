"""The training loop is the project's own: redco_runtime/loop.py became train() in train.py."""

from redco_merge.migrate.codemods import Call, Migration, Rename

STATE = "redco_runtime.state.TrainState"
TO_KEYWORDS = f"{STATE}(step=step, params=params, opt_state=opt_state, variables=%s, frozen={{}}, ema={{}}, grad_norm=%s)"
NO_NORM = "jax.numpy.zeros((), jax.numpy.float32)"
WEIGHTS = {"pipeline": "project.pipeline", "weights": "project.weights"}

MIGRATION = Migration(
    1,
    "the training loop is your own, in train.py",
    (
        Rename("redco_runtime.loop.say", "redco_runtime.cli.print_once"),
        Rename("redco_runtime.cli.parser", "redco_runtime.cli.program_parser"),
        # train() reads the project's own pipeline and weights, so a call with others is left alone.
        Call(
            "redco_runtime.loop.fit(steps, pipeline, run, weights)",
            "project.train.train(steps, run)",
            WEIGHTS,
        ),
        Call(
            "redco_runtime.loop.fit(steps, pipeline, run)",
            "project.train.train(steps, run)",
            {"pipeline": "project.pipeline"},
        ),
        Call(f"{STATE}(step, params, opt_state)", TO_KEYWORDS % ("{}", NO_NORM)),
        Call(f"{STATE}(step, params, opt_state, variables)", TO_KEYWORDS % ("variables", NO_NORM)),
        Call(
            "redco_runtime.checkpoint.Checkpoints().restore_model(steps.state)",
            "self.restore_model(steps.state.model)",
        ),
    ),
    {
        "redco_runtime.loop.fit": "train(steps, run) of train.py, which is yours",
        "redco_runtime.loop.train": "train(steps, run) of train.py, which is yours",
        "redco_runtime.loop.start": "start_or_resume of redco_runtime.start",
        "redco_runtime.loop.check": "check_run of redco_runtime.start",
        "redco_runtime.loop.report": "Evaluation of redco_runtime.evaluation",
        "redco_runtime.loop.open_metrics": "Metrics of redco_runtime.metrics, as train.py does",
        "redco_runtime.loop.Trainer": "train(steps, run) of train.py, which is yours",
        "redco_runtime.inference.predict": "Inference(steps, pipeline, config).predict(model, examples)",
        "redco_runtime.inference.scores": "pipeline.evaluate of Inference(steps, pipeline, config).outputs(model, examples)",
        "redco_runtime.inference.mean_loss": "Inference(steps, pipeline, config).mean_loss(model, examples)",
        "redco_runtime.data.train_batches": "TrainBatches of redco_runtime.data",
        "redco_runtime.specs.abstract_state": "place_abstract of redco_runtime.specs",
        "redco_runtime.gradients.mean_gradients_and_variables": "mean_and_gradients, which takes a ModelState",
    },
)
