"""A whole meta-training as one script: tasks, objective, Adam, test.

    python examples/meta_train_from_scratch.py

`anyshot train` does the same with checkpoints, a log, validation and several processes. Use this
as the start of your own loop: every line of it can be replaced.
"""

from __future__ import annotations

import torch

import anyshot

ITERATIONS = 60
META_BATCH = 4  # tasks whose gradients are averaged
CLIP = 3.0  # limit of each gradient element, as in the paper


def train(
    method: anyshot.Method, tasks: anyshot.TaskStream, iterations: int, learning_rate: float
) -> list[float]:
    """Minimise the mean objective of the tasks; return the query loss of each iteration."""
    adam = torch.optim.Adam(method.parameters(), learning_rate)
    losses = []
    for iteration in range(iterations):
        adam.zero_grad()
        total = 0.0
        for i in range(META_BATCH):
            task = tasks.task(iteration * META_BATCH + i)  # task n is the same in every program
            objective = method.objective(task, noise=task.noise())
            ((objective.loss + objective.penalty) / META_BATCH).backward()
            total += objective.loss.item()
        torch.nn.utils.clip_grad_value_(method.parameters(), CLIP)
        adam.step()
        losses.append(total / META_BATCH)
        print(f"iteration {iteration + 1}: query loss {losses[-1]:.3f}")
    return losses


def main() -> None:
    """Train MAML on the glyphs and compare it with its start on classes that are new."""
    images = anyshot.open_images("glyphs")
    task = anyshot.TaskSettings(way=5, shots="any-shot:1-10", query=5)
    settings = anyshot.MethodSettings(name="maml", alpha=0.1, start="he", centre=True)
    method = anyshot.create_method(settings, images.size, seed=0)
    new_tasks = anyshot.TaskStream(images, "test", task, seed=0)
    before = anyshot.evaluate(method, new_tasks, 50).accuracy
    train(method, anyshot.TaskStream(images, "train", task, seed=0), ITERATIONS, 1e-3)
    after = anyshot.evaluate(method, new_tasks, 50).accuracy
    print(f"accuracy on new classes: {100 * before:.1f} % before, {100 * after:.1f} % after")


if __name__ == "__main__":
    main()
