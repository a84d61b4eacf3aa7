"""Write results as CSV and JSON, together with the settings, versions and command behind them."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from anyshot.core.files import PathLike, write_csv_rows, write_json
from anyshot.evaluation.metrics import PairedDifference
from anyshot.evaluation.metrics.summary import import_pandas

if TYPE_CHECKING:
    import pandas as pd

    from anyshot.evaluation.compare_runs import ResultRow

_PAIRED_FIELDS = tuple(field.name for field in dataclasses.fields(PairedDifference))


def write_csv(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """Write one line for each row: fractions at full precision, empty cells for missing values."""
    write_csv_rows(path, [flat_result(row) for row in rows])


def flat_result(row: ResultRow) -> dict[str, Any]:
    """One row as a flat mapping: every number of the summary and of the paired difference."""
    values: dict[str, Any] = {**row.labels, "transductive": row.settings[0].method.transductive}
    for name, value in row.summary.as_dict().items():
        if name == "more_intervals":
            values |= {f"{metric}_interval": one for metric, one in value.items()}
        elif name == "more":
            values |= value
        elif isinstance(value, Mapping):
            # by_shots -> accuracy_shots_2_5, queries_by_shots -> queries_shots_2_5
            quantity = "queries" if name.startswith("queries") else "accuracy"
            values |= {f"{quantity}_shots_{_column_name(k)}": one for k, one in value.items()}
        else:
            values[name] = value
    paired = dataclasses.asdict(row.paired) if row.paired else dict.fromkeys(_PAIRED_FIELDS)
    values["paired_to"] = row.paired_to
    return values | {f"paired_{name}": value for name, value in paired.items()}


def results_frame(rows: Sequence[ResultRow]) -> pd.DataFrame:
    """The rows as a pandas DataFrame with the columns of the CSV file."""
    return import_pandas().DataFrame([flat_result(row) for row in rows])


def write_per_task(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """Write one line for each task of each row, in the order of the tasks."""
    write_csv_rows(
        path, [{**row.labels, **score.as_dict()} for row in rows for score in row.summary.scores]
    )


def write_results(path: PathLike, results: Any, **facts: Any) -> None:
    """Write ``results`` as JSON, with their provenance under the key "origin".

    ``facts`` are added to the provenance: settings, seeds, the run's folder.
    """
    write_json(path, {"results": results, "origin": provenance(**facts)})


def results_as_json(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The rows as values that JSON can hold."""
    return [
        {
            **row.labels,
            "part": row.part,
            **row.summary.as_dict(),
            "paired_to": row.paired_to,
            "paired": row.paired,
        }
        for row in rows
    ]


def provenance(**facts: Any) -> dict[str, Any]:
    """How numbers were made: ``facts``, versions, number of cores, time and command line."""
    return {
        **facts,
        "version": version("anyshot"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
    }


def _column_name(shots: str) -> str:
    """A range of shots as a Python name: 2_5 for 2-5, over_50 for >50."""
    return re.sub(r"\W", "_", shots.replace(">", "over_"))
