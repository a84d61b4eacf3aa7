"""anyshot bench: the speed of anyshot's gradients on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anyshot.cli.settings_options import Json


def bench(
    json: Json = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only small tasks, about half a minute.")
    ] = False,
    part: Annotated[
        Literal["all", "engine", "networks"],
        typer.Option("--part", help="The engine for Conv4, loss_gradient on networks, or both."),
    ] = "all",
) -> None:
    """Compare anyshot's gradients with torch, `higher` and `torchopt`, in about ten minutes.

    Measures time, CPU time and peak memory of one meta-iteration and of one adaptation, each
    contestant in its fastest mode, in interleaved rounds. Then MT-net, ABML and a wider body, one
    task on one core and on all cores, and the engine's time against that of the convolutions alone.
    Last, loss_gradient on a ResNet-12 and a vision transformer. Run it on an idle machine.

    Example: anyshot bench --json bench.json
    """
    from anyshot.core.files import check_writable
    from anyshot.core.progress import progress
    from anyshot.experiments import engine_benchmark

    if json:
        check_writable(json)
    results: dict[str, Any] = {}
    with progress("Measuring", None) as advance:
        if part != "networks":
            results = engine_benchmark.run_benchmark(quick, advance)
        if part != "engine":
            results["networks"] = engine_benchmark.run_network_benchmark(quick, advance)
    if part != "networks":
        print_results(results)
    if part != "engine":
        print_networks(results["networks"])
    if json:
        write_results(json, results)


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write the results and the version to a JSON file."""
    from anyshot.core.files import write_json
    from anyshot.core.version import VERSION

    write_json(path, {"version": VERSION, **results})
    typer.echo(f"Results: {path}")


def print_results(results: dict[str, Any]) -> None:
    """Print tables and ratios."""
    from rich.console import Console

    console, where = Console(), results["machine"]
    for name, case in results["cases"].items():
        console.print(_table(name, case))
    main, account = next(iter(results["cases"].values())), results["convolutions"]
    for peer, factor in results["speedup"].items():
        minima = main["speedup_of_minima"][peer]
        cpu = main["speedup_of_cpu"][peer]
        ratios = f"{minima:.1f}× by minima, {cpu:.1f}× by CPU time"
        memory = results["memory_ratio"].get(peer)
        share = "" if memory is None else f"; {memory:.2f} of its memory"
        console.print(f"The engine is {factor:.1f}× faster than {peer} ({ratios}){share}.")
    for name, one in results["alone"].items():
        same = "the same bits" if one["same"] else "different bits"
        console.print(
            f"{name}: {one['speedup']:.2f}× as fast on {one['cores']} cores as on one ({same}); "
            f"{one['cores']} tasks in parallel: {one['possible']:.2f}×."
        )
    console.print(
        f"Passes with convolutions take {100 * account['share_of_engine']:.0f} % of the engine's "
        "time on one thread. Direct convolutions, timed alone, take "
        f"{account['seconds']:.2f} s ({account['gigaflop_per_second']:.0f} GFLOP/s per core), "
        f"{account['fraction_of_convolution_speed']:.2f} of the engine's time."
    )
    console.print(
        f"{where['cores']} cores, {where['vector_instructions']}, torch {where['torch']}, "
        f"load {where['load']:.1f}, compiled kernels {'on' if where['loops'] else 'off'}; "
        f"{results['seconds_in_all']:.0f} s in total."
    )
    for sentence in results["left_out"]:
        console.print(sentence, markup=False)


def print_networks(networks: dict[str, Any]) -> None:
    """Print a table for each network."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    for name, case in networks["cases"].items():
        table = Table(
            title=f"{name}: second order, {case['supports'][0]} support and {case['query']} query "
            f"images, {case['steps']} steps",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("")
        steps = list(next(iter(case["contestants"].values()))["peak_memory_mb"])
        columns = ["median s", "min s", "CPU s", "× loss_gradient"]
        for header in [*columns, *(f"MB, {k} steps" for k in steps)]:
            table.add_column(header, justify="right")
        for contestant, figures in case["contestants"].items():
            seconds = [figures[key] for key in ("median_seconds", "minimum_seconds", "cpu_seconds")]
            ratio = case["speedup"].get(contestant, 1.0)
            memory = [f"{figures['peak_memory_mb'][k]:.0f}" for k in steps]
            table.add_row(contestant, *(f"{x:.2f}" for x in (*seconds, ratio)), *memory)
        Console().print(table)
    for sentence in networks["left_out"]:
        typer.echo(sentence)


def _table(name: str, case: dict[str, Any]) -> Any:
    from rich import box
    from rich.table import Table

    supports = " + ".join(map(str, case["supports"]))
    what = {2: "meta-iteration, second order", 1: "meta-iteration, first order", 0: "adaptation"}[
        case["order"]
    ]
    title = (
        f"{name}: {what}, {supports} support images, {case['steps']} steps, "
        f"{case['channels']} channels"
    )
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False
    )
    table.add_column("")
    for header in ("median s", "min s", "CPU s", "× engine", "peak MB", "loss"):
        table.add_column(header, justify="right")
    table.add_column("mode")
    for contestant, figures in case["contestants"].items():
        peak = figures["peak_memory_mb"]
        mode = f"{figures['mode']['layout']}, {figures['mode']['workers']} at a time"
        seconds = [
            f"{figures[key]:.2f}" for key in ("median_seconds", "minimum_seconds", "cpu_seconds")
        ]
        ratio = f"{case['speedup'].get(contestant, 1):.1f}"
        memory = "–" if peak is None else f"{peak:.0f}"
        table.add_row(contestant, *seconds, ratio, memory, f"{figures['loss']:.4f}", mode)
    return table
