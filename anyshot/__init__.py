"""anyshot: learn image classifiers from uneven, scarce and unusual data.

Public names are loaded when they are first used, so that ``import anyshot`` and ``anyshot --help``
do not import torch.

Examples
--------
::

    import anyshot

    images = anyshot.open_images("glyphs")
    run = anyshot.train(anyshot.preset("glyphs", "taml"), "runs/taml")
    method = run.load_method()
    tasks = anyshot.TaskSettings(way=5, shots="any-shot:1-50")
    stream = anyshot.TaskStream(images, "test", tasks)
    print(anyshot.evaluate(method, stream, tasks=200))
    print(method.predict(stream.task(0)))
    print(anyshot.inspect_task(method, stream.task(0)))
"""

import lazy_loader

# The public names by module; type checkers read the same names below.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "core.errors": [
            "AnyshotError",
            "ClassifierError",
            "CodeError",
            "DataError",
            "FileError",
            "RunError",
            "SettingsError",
        ],
        "core.options": ["option"],
        "core.parallel.device": ["choose_device"],
        "core.parallel.ranks": ["process_group"],
        "core.registry": [
            "BODIES",
            "ENCODERS",
            "EXPERIMENTS",
            "METHODS",
            "METRICS",
            "POOLINGS",
            "SHOT_RULES",
            "STATISTICS",
        ],
        "core.settings": [
            "MethodSettings",
            "PretrainSettings",
            "Settings",
            "TaskSettings",
            "TrainSettings",
        ],
        "core.version": ["__version__"],
        "data": ["ImageSet", "open_images"],
        "data.tasks": ["Task", "TaskStream"],
        "models.bodies": ["create_body"],
        "models.network": ["Body", "HEAD_PARAMETERS", "Layer", "Norm", "zero_head"],
        "inner_loop": [
            "InnerProblem",
            "adapt",
            "call_module",
            "cross_entropy",
            "gradient",
            "loss_gradient",
            "query_loss",
            "update",
        ],
        "methods": [
            "ABML",
            "ANIL",
            "EmbeddingMethod",
            "Ensemble",
            "GradientMethod",
            "MAML",
            "MTNet",
            "MetaSGD",
            "Method",
            "Objective",
            "ProtoMAML",
            "ProtoNet",
            "R2D2",
            "RFS",
            "SimpleShot",
            "TAML",
            "create_method",
        ],
        "methods.posterior": ["Posterior"],
        "runs.load_method": ["load"],
        "runs.run": ["Run"],
        "evaluation.evaluate_tasks": ["evaluate"],
        "evaluation.inspection": ["BalanceRecord", "inspect_stream", "inspect_task"],
        "evaluation.metrics": [
            "Metrics",
            "PairedDifference",
            "Summary",
            "TaskResult",
            "TaskScore",
            "paired_difference",
            "pool_seeds",
        ],
        "evaluation.report.result_files": ["read_results"],
        "training.presets": ["PRESETS", "preset"],
        "training.stages": ["pretrain", "train"],
        "classifier": ["AnyShotClassifier"],
        "experiments": ["Experiment"],
    },
)

TYPE_CHECKING = False  # type checkers assume True; importing typing would take 15 ms
if TYPE_CHECKING:
    from anyshot.classifier import AnyShotClassifier as AnyShotClassifier
    from anyshot.core.errors import AnyshotError as AnyshotError
    from anyshot.core.errors import ClassifierError as ClassifierError
    from anyshot.core.errors import CodeError as CodeError
    from anyshot.core.errors import DataError as DataError
    from anyshot.core.errors import FileError as FileError
    from anyshot.core.errors import RunError as RunError
    from anyshot.core.errors import SettingsError as SettingsError
    from anyshot.core.options import option as option
    from anyshot.core.parallel.device import choose_device as choose_device
    from anyshot.core.parallel.ranks import process_group as process_group
    from anyshot.core.registry import BODIES as BODIES
    from anyshot.core.registry import ENCODERS as ENCODERS
    from anyshot.core.registry import EXPERIMENTS as EXPERIMENTS
    from anyshot.core.registry import METHODS as METHODS
    from anyshot.core.registry import METRICS as METRICS
    from anyshot.core.registry import POOLINGS as POOLINGS
    from anyshot.core.registry import SHOT_RULES as SHOT_RULES
    from anyshot.core.registry import STATISTICS as STATISTICS
    from anyshot.core.settings import MethodSettings as MethodSettings
    from anyshot.core.settings import PretrainSettings as PretrainSettings
    from anyshot.core.settings import Settings as Settings
    from anyshot.core.settings import TaskSettings as TaskSettings
    from anyshot.core.settings import TrainSettings as TrainSettings
    from anyshot.core.version import __version__ as __version__
    from anyshot.data import ImageSet as ImageSet
    from anyshot.data import open_images as open_images
    from anyshot.data.tasks import Task as Task
    from anyshot.data.tasks import TaskStream as TaskStream
    from anyshot.evaluation.evaluate_tasks import evaluate as evaluate
    from anyshot.evaluation.inspection import BalanceRecord as BalanceRecord
    from anyshot.evaluation.inspection import inspect_stream as inspect_stream
    from anyshot.evaluation.inspection import inspect_task as inspect_task
    from anyshot.evaluation.metrics import Metrics as Metrics
    from anyshot.evaluation.metrics import PairedDifference as PairedDifference
    from anyshot.evaluation.metrics import Summary as Summary
    from anyshot.evaluation.metrics import TaskResult as TaskResult
    from anyshot.evaluation.metrics import TaskScore as TaskScore
    from anyshot.evaluation.metrics import paired_difference as paired_difference
    from anyshot.evaluation.metrics import pool_seeds as pool_seeds
    from anyshot.evaluation.report.result_files import read_results as read_results
    from anyshot.experiments import Experiment as Experiment
    from anyshot.inner_loop import InnerProblem as InnerProblem
    from anyshot.inner_loop import adapt as adapt
    from anyshot.inner_loop import call_module as call_module
    from anyshot.inner_loop import cross_entropy as cross_entropy
    from anyshot.inner_loop import gradient as gradient
    from anyshot.inner_loop import loss_gradient as loss_gradient
    from anyshot.inner_loop import query_loss as query_loss
    from anyshot.inner_loop import update as update
    from anyshot.methods import ABML as ABML
    from anyshot.methods import ANIL as ANIL
    from anyshot.methods import MAML as MAML
    from anyshot.methods import R2D2 as R2D2
    from anyshot.methods import RFS as RFS
    from anyshot.methods import TAML as TAML
    from anyshot.methods import EmbeddingMethod as EmbeddingMethod
    from anyshot.methods import Ensemble as Ensemble
    from anyshot.methods import GradientMethod as GradientMethod
    from anyshot.methods import MetaSGD as MetaSGD
    from anyshot.methods import Method as Method
    from anyshot.methods import MTNet as MTNet
    from anyshot.methods import Objective as Objective
    from anyshot.methods import ProtoMAML as ProtoMAML
    from anyshot.methods import ProtoNet as ProtoNet
    from anyshot.methods import SimpleShot as SimpleShot
    from anyshot.methods import create_method as create_method
    from anyshot.methods.posterior import Posterior as Posterior
    from anyshot.models.bodies import create_body as create_body
    from anyshot.models.network import HEAD_PARAMETERS as HEAD_PARAMETERS
    from anyshot.models.network import Body as Body
    from anyshot.models.network import Layer as Layer
    from anyshot.models.network import Norm as Norm
    from anyshot.models.network import zero_head as zero_head
    from anyshot.runs.load_method import load as load
    from anyshot.runs.run import Run as Run
    from anyshot.training.presets import PRESETS as PRESETS
    from anyshot.training.presets import preset as preset
    from anyshot.training.stages import pretrain as pretrain
    from anyshot.training.stages import train as train
