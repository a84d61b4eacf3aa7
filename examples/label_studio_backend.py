"""A Label Studio ML backend: a photo classifier that learns from every new annotation.

    pip install '.[photos]' git+https://github.com/HumanSignal/label-studio-ml-backend.git
    LABEL_STUDIO_URL=http://localhost:8080 LABEL_STUDIO_API_KEY=... python examples/label_studio_backend.py

Then add http://localhost:9090 under Settings > Model of a project whose labelling interface has an
Image and a single Choices tag. If both run on one computer, start Label Studio with

    ML_BLOCK_LOCAL_IP=false SSRF_PROTECTION_ENABLED=false label-studio start

because it refuses addresses of its own computer. Predictions start with the second class. Their
score is the probability of the class, so tasks sorted by prediction score begin with the least
certain photos. The classifier of project N is the file MODEL_DIR/project-N.anyshot, which
anyshot classify reads. It was run with the server Label Studio 1.23.2. label-studio-ml 1.0.9 on
PyPI has another interface.
"""  # noqa: E501

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from label_studio_ml.model import LabelStudioMLBase
from label_studio_ml.response import ModelResponse
from label_studio_sdk import LabelStudio

from anyshot import AnyShotClassifier


class AnyshotBackend(LabelStudioMLBase):
    backbone = "efficientnet-lite0"
    learns_from = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATION_DELETED")

    @property
    def file(self) -> Path:
        return Path(os.getenv("MODEL_DIR", "."), f"project-{self.project_id}.anyshot")

    def fit(self, event: str, data: dict[str, Any], **kwargs: Any) -> None:
        """Learn from all annotations of the project; features of known photos are cached."""
        if event not in (*self.learns_from, "START_TRAINING"):
            return
        client = LabelStudio(
            base_url=os.environ["LABEL_STUDIO_URL"], api_key=os.environ["LABEL_STUDIO_API_KEY"]
        )
        tasks = client.tasks.list(project=int(self.project_id), only_annotated=True, fields="all")
        labelled = [(task.model_dump(), label) for task in tasks if (label := label_of(task))]
        labels = [label for _, label in labelled]
        if len(set(labels)) < 2:
            self.file.unlink(missing_ok=True)
            return
        classifier = AnyShotClassifier(self.backbone)
        classifier.fit([self.photo_of(task) for task, _ in labelled], labels).save(self.file)
        self.set("model_version", f"anyshot-{len(labels)}-photos")

    def predict(
        self, tasks: list[dict[str, Any]], context: dict[str, Any] | None = None, **kwargs: Any
    ) -> ModelResponse:
        """The most probable class of each photo, with its probability."""
        version = str(self.get("model_version"))
        if not self.file.is_file():
            empty = [{"result": [], "score": 0.0, "model_version": version} for _ in tasks]
            return ModelResponse(predictions=empty, model_version=version)
        answers = AnyShotClassifier.load(self.file).classify([self.photo_of(t) for t in tasks])
        choices, image, _ = self.label_interface.get_first_tag_occurence("Choices", "Image")
        tag = {"from_name": choices, "to_name": image, "type": "choices"}
        predictions = [
            {
                "result": [{**tag, "value": {"choices": [str(label)]}}],
                "score": float(probability),
                "model_version": version,
            }
            for label, probability in zip(answers.labels, answers.probabilities.max(1), strict=True)
        ]
        return ModelResponse(predictions=predictions, model_version=version)

    def photo_of(self, task: dict[str, Any]) -> str:
        """The task's photo as a local file."""
        _, _, value = self.label_interface.get_first_tag_occurence("Choices", "Image")
        return self.get_local_path(task["data"][value], task_id=task["id"])


def label_of(task: Any) -> str:
    """The first choice of the task's newest annotation; "" if it was skipped."""
    annotations = [a for a in task.model_dump()["annotations"] if not a.get("was_cancelled")]
    newest = max(annotations, key=lambda a: a["id"], default={"result": []})
    for result in newest["result"]:
        if result["type"] == "choices":
            return result["value"]["choices"][0]
    return ""


if __name__ == "__main__":
    from label_studio_ml.api import init_app

    init_app(model_class=AnyshotBackend).run(host="127.0.0.1", port=9090)
