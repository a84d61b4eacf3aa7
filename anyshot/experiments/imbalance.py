"""The harness for uneven shots: methods × shot rules × remedies on CIFAR-FS.

Models that differ in their remedy alone share a trained run, because a remedy acts when a method
learns a task. Inner loops adapt the head alone, so that a cell takes seconds. The rules and the
range of 1 to 9 images, 5 on average, are those of Ochal et al. (https://arxiv.org/abs/2101.02523);
the long tail of 1 to 50 images is more uneven than training.
"""

from __future__ import annotations

from dataclasses import replace

from anyshot.experiments.experiment import Block, Column, Experiment, FigureSpec, Model

#: Names in the table → settings.
REMEDIES = {
    "ROS": "oversampling",
    "ROS+": "oversampling+",
    "class weights 1/N": "class-weights",
    "effective number": "effective-number",
    "focal loss": "focal",
    "logit adjustment": "logit-adjustment",
}
NOTHING_LEARNED = {"iterations": 1, "rate": 0.0, "validate_every": 0, "validation_tasks": 1}


def with_remedies(model: Model, names: tuple[str, ...] = tuple(REMEDIES)) -> tuple[Model, ...]:
    """A model without a remedy, then with each of these."""
    changed = [
        replace(
            model,
            name=f"{model.name}, {name}",
            test={**model.test, "remedy": REMEDIES[name]},
            base=model.name,
        )
        for name in names
    ]
    return (model, *changed)


HEAD_ONLY = {"adapt_body": False}
META_SGD = Model("Meta-SGD", "meta-sgd", HEAD_ONLY)
OMEGA = Model(
    "Bayesian ω-TAML",
    change={**HEAD_ONLY, "balance": ("omega",)},
    test={"prediction": "naive"},
    base="Meta-SGD",
)
PRIOR = Model(
    "Meta-SGD, N^−τ with learned τ",
    "meta-sgd",
    {**HEAD_ONLY, "omega_prior": 1.0},
    base="Meta-SGD",
)
LONG_TAIL = Column("cifar-fs", "long-tailed:1-50", "long-tailed 1–50")
_meta_sgd_rows = with_remedies(META_SGD)
IMBALANCE = Experiment(
    "imbalance",
    "Remedies against uneven shots",
    models=(
        *with_remedies(Model("MAML", "maml", HEAD_ONLY)),
        *_meta_sgd_rows,
        PRIOR,
        OMEGA,
        *with_remedies(Model("Prototypical Networks", "protonet"), ("ROS", "ROS+")),
        *with_remedies(Model("RFS", "rfs", train=NOTHING_LEARNED)),
    ),
    blocks=(
        Block(
            "cifar-fs-paper",
            (
                Column("cifar-fs", "fixed:5", "5 each"),
                Column("cifar-fs", "linear:1-9", "linear 1–9"),
                Column("cifar-fs", "step:1-9", "step 1–9"),
                Column("cifar-fs", "random:1-9", "random 1–9"),
                LONG_TAIL,
            ),
            shots="class-imbalance:1-9",
            figures=(
                FigureSpec(
                    "gain",
                    "Gain over Meta-SGD by class size, long-tailed 1–50",
                    (*(model.name for model in _meta_sgd_rows), PRIOR.name, OMEGA.name),
                    (LONG_TAIL,),
                ),
            ),
        ),
    ),
    reference="Meta-SGD",
    tasks=1000,
)
