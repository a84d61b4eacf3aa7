"""Inner step sizes from one warm body, searched for each kind of head and judged by validation images alone.

    python benchmarks/steps_search.py [--from cifar-fs] [--tasks 60]

Nothing is meta-learned: 10 fixed steps from the body, for MAML's head at zero (which Meta-SGD, MT-net and TAML start
from as well) and for Proto-MAML's at the class means. Prints a Markdown table. CIFAR-FS and SVHN must be prepared.
"""

from __future__ import annotations

import argparse
import itertools

from anyshot import MethodSettings, TaskSettings, TaskStream, create_method, evaluate, open_images
from anyshot.origin import open_origin

BODY = (0.003, 0.03, 0.1, 0.3)
HEAD = {"maml": (0.3, 1.0, 3.0), "proto-maml": (0.003, 0.03, 0.3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="start", default="cifar-fs")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    streams = [TaskStream(open_images(name), "validation", TaskSettings()) for name in ("cifar-fs", "svhn")]
    origin = open_origin(arguments.start)
    print("| head of | step of the body | of the head | accuracy | NLL |\n" + "|---" * 5 + "|")
    for name, heads in HEAD.items():
        for alpha, alpha_head in itertools.product(BODY, heads):
            settings = MethodSettings(name=name, centre=True, alpha=alpha, alpha_head=alpha_head)
            method = create_method(settings, (32, 32))
            origin.put_into(method)
            found = [evaluate(method, stream, arguments.tasks, workers=arguments.workers) for stream in streams]
            accuracy = " / ".join(f"{100 * s.accuracy:.1f}" for s in found)
            nll = " / ".join(f"{s.nll:.3f}" for s in found)
            print(f"| {name} | {alpha} | {alpha_head} | {accuracy} | {nll} |", flush=True)


if __name__ == "__main__":
    main()
