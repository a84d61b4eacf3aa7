"""TabPFN v1 on the tasks of benchmarks/heads.py.

    python benchmarks/tabpfn_baseline.py OUT --source FOLDER [--tasks 100] [--photos FOLDER]
                                             [--sets A,B]

FOLDER has the unpacked source distribution of tabpfn 0.1 (tabpfn-0.1.tar.gz of PyPI), which holds
the weights of the network; the wheels do not. Its checkpoint is a pickle: use the official file
only. TabPFN takes 100 numbers an image, so features are reduced by PCA of the support images.
Writes OUT/tabpfn/SET.json; existing files are not computed again. Prints the means and the paired
differences of the mixture (OUT/ours/SET.json) minus TabPFN.
"""

from __future__ import annotations

import functools
import json
import sys
import types
import warnings
from typing import Optional

import numpy as np
import torch
from heads_baselines import Tally, normalise_blocks, open_features, options, set_names, test_task
from sklearn.decomposition import PCA

from anyshot.core.files import write_json

DIMENSIONS = 60
CONFIGURATIONS = 3  # permutations of features and classes that are averaged; 3 is its default
UNUSED = [
    "gpytorch",
    "gpytorch.models",
    "gpytorch.means",
    "gpytorch.kernels",
    "gpytorch.distributions",
    "gpytorch.likelihoods",
    "gpytorch.priors",
    "gpytorch.constraints",
    "seaborn",
    "openml",
    "ConfigSpace",
    "ConfigSpace.hyperparameters",
    "hyperopt",
    "yaml",
    "catboost",
    "xgboost",
    "lightgbm",
]


class EmptyModule(types.ModuleType):
    """Stands for a package that TabPFN imports and does not need for predictions."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def import_tabpfn(source):
    """The class TabPFNClassifier of a folder, made to work with this version of torch."""
    for name in UNUSED:
        sys.modules[name] = EmptyModule(name)
        if "." in name:
            parent, child = name.split(".")
            setattr(sys.modules[parent], child, sys.modules[name])
    transformer = torch.nn.modules.transformer
    transformer.Optional = Optional
    transformer.__all__ = [name for name in vars(transformer) if not name.startswith("_")]
    torch.load = functools.partial(torch.load, weights_only=False)
    sys.path.insert(0, str(source))
    from tabpfn.scripts.transformer_prediction_interface import TabPFNClassifier

    return TabPFNClassifier(device="cpu", N_ensemble_configurations=CONFIGURATIONS)


def predict(model, S, Y, Q):
    """Probabilities of TabPFN on the principal components of the support images."""
    pca = PCA(min(DIMENSIONS, len(S) - 1, S.shape[1]), random_state=0).fit(S)
    model.fit(pca.transform(S), Y)
    return model.predict_proba(pca.transform(Q))


def measure(data, model, tasks):
    tally = Tally()
    for i in range(tasks):
        task = test_task(data, i)
        S, Y, Q = task.support.numpy(), task.labels.numpy(), task.query.numpy()
        blocks = [normalise_blocks(x, data.widths) for x in (S, Q)]
        last = slice(0, data.widths[0])
        answers = {
            "TabPFN": predict(model, S[:, last], Y, Q[:, last]),
            "TabPFN, all blocks": predict(model, blocks[0], Y, blocks[1]),
        }
        for name, p in answers.items():
            tally.add(i, name, p, task.query_labels.numpy(), np.bincount(Y))
    return {"set": data.name, "tasks": tasks, "methods": tally.as_dict()}


def main():
    parser = options(__doc__.split("\n")[0], tasks=100)
    parser.add_argument("--source", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    model = None
    for name in set_names(arguments):
        path = arguments.out / "tabpfn" / f"{name}.json"
        if not path.exists():
            model = model or import_tabpfn(arguments.source)
            write_json(path, measure(open_features(name, arguments), model, arguments.tasks))
            print(name, "measured", flush=True)
    show(arguments, "tabpfn")


def show(arguments, rival):
    """Means over sets of accuracy, NLL and worst class of OUT/RIVAL, and paired differences."""
    ours, theirs = (
        [
            json.loads((arguments.out / part / f"{n}.json").read_text())["methods"]
            for n in set_names(arguments)
        ]
        for part in ("ours", rival)
    )
    for name in theirs[0]:
        rows = [np.array(m[name]["rows"]) for m in theirs]
        deltas = [
            np.array(m["mixture"]["rows"])[: len(r)] - r for m, r in zip(ours, rows, strict=True)
        ]
        for title, column in zip(("accuracy", "NLL", "worst class"), range(3), strict=True):
            level = np.mean([r[:, column].mean() for r in rows])
            ahead = np.mean([d[:, column].mean() for d in deltas])
            error = np.sqrt(sum(d[:, column].var(ddof=1) / len(d) for d in deltas)) / len(deltas)
            print(f"{name}, {title}: {level:.3f}; mixture {ahead:+.3f} ± {1.96 * error:.3f}")


if __name__ == "__main__":
    main()
