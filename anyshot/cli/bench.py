"""anyshot bench: how fast, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anyshot.cli.settings_options import Json


def bench(
    json: Json = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only small tasks: a try-out of half a minute.")
    ] = False,
) -> None:
    """Measure the engine beside autograd and other libraries, in one interleaved run of under five minutes.

    Time, CPU time and peak memory of one meta-iteration and of one adaptation for anyshot's engine, anyshot's autograd
    path, `higher` and `torchopt` (where installed), each in the mode that suits it best here; MT-net, ABML and a wider
    body; then the ratios, one task on one core and on all, and how the engine's time compares with that of the
    convolutions alone. Quiet machines give the clearest numbers.

    Example: anyshot bench --json bench.json
    """
    from anyshot.core.files import check_writable
    from anyshot.core.progress import progress
    from anyshot.experiments.engine_benchmark import bench as measure

    if json:
        check_writable(json)
    with progress("Measuring", None) as advance:
        results = measure(quick, advance)
    show(results)
    if json:
        write(json, results)


def write(path: Path, results: dict[str, Any]) -> None:
    """The numbers with their origin."""
    from anyshot.core.files import write_json
    from anyshot.core.version import VERSION

    write_json(path, {"version": VERSION, **results})
    typer.echo(f"Results: {path}")


def show(results: dict[str, Any]) -> None:
    """Tables and sentences."""
    from rich.console import Console

    console, where = Console(), results["machine"]
    for name, case in results["cases"].items():
        console.print(_table(name, case))
    main, account = next(iter(results["cases"].values())), results["convolutions"]
    for peer, factor in results["speedup"].items():
        ratios = f"{main['speedup_of_minima'][peer]:.1f}× by minima, {main['speedup_of_cpu'][peer]:.1f}× by CPU time"
        memory = results["memory_ratio"].get(peer)
        share = "" if memory is None else f"; {memory:.2f} of its memory"
        console.print(f"The engine is {factor:.1f}× faster than {peer} ({ratios}){share}.")
    for name, one in results["alone"].items():
        same = "the same bits" if one["same"] else "other bits"
        console.print(
            f"{name}: {one['speedup']:.2f}× as fast on {one['cores']} cores as on one ({same}); "
            f"{one['cores']} tasks side by side: {one['possible']:.2f}×."
        )
    console.print(
        f"The passes that convolve are {100 * account['share_of_engine']:.0f} % of the engine's time on one thread. "
        f"Done directly and timed hot, the convolutions of the mathematics take {account['seconds']:.2f} s here "
        f"({account['gigaflop_per_second']:.0f} GFLOP/s a core), {account['fraction_of_convolution_speed']:.2f} of the "
        "engine's time."
    )
    console.print(
        f"{where['cores']} cores, {where['vector_instructions']}, torch {where['torch']}, load {where['load']:.1f}, "
        f"fused loops {'on' if where['loops'] else 'off'}; {results['seconds_in_all']:.0f} s in all."
    )
    for sentence in results["left_out"]:
        console.print(sentence)


def _table(name: str, case: dict[str, Any]) -> Any:
    from rich import box
    from rich.table import Table

    supports = " + ".join(map(str, case["supports"]))
    what = {2: "meta-iteration, second order", 1: "meta-iteration, first order", 0: "adaptation"}[
        case["order"]
    ]
    title = f"{name}: {what}, {supports} support images, {case['steps']} steps, {case['channels']} channels"
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False
    )
    table.add_column("")
    for header in ("median s", "min s", "CPU s", "× engine", "peak MB", "loss"):
        table.add_column(header, justify="right")
    table.add_column("mode")
    for contestant, figures in case["contestants"].items():
        peak = figures["peak_memory_mb"]
        mode = f"{figures['mode']['layout']}, {figures['mode']['workers']} at once"
        seconds = [
            f"{figures[key]:.2f}" for key in ("median_seconds", "minimum_seconds", "cpu_seconds")
        ]
        ratio = f"{case['speedup'].get(contestant, 1):.1f}"
        memory = "–" if peak is None else f"{peak:.0f}"
        table.add_row(contestant, *seconds, ratio, memory, f"{figures['loss']:.4f}", mode)
    return table
