"""anyshot: learn image classifiers from uneven, scarce and unusual data.

    import anyshot

    images = anyshot.open_images("glyphs")
    run = anyshot.train(anyshot.preset("glyphs", "taml"), "runs/taml")
    method = run.load_method()
    stream = anyshot.TaskStream(images, "test", anyshot.TaskSettings(way=5, shots="any-shot:1-50"))
    print(anyshot.evaluate(method, stream, tasks=200))
    print(method.predict(stream.task(0)))
    print(anyshot.inspect_task(method, stream.task(0)))

The names are listed in __init__.pyi, and each is loaded when it is first used, so that importing the package (and
``anyshot --help``) does not load torch. The package itself loads next to nothing: until it is there, Ctrl-C is not in
our hands.
"""

from __future__ import annotations

with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as _stub:
    _LINES = [line.split() for line in _stub]
_HOMES = {
    words[3]: words[1] for words in _LINES if words[:1] == ["from"]
}  # "from anyshot.runs.run import Run as Run"
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    import importlib

    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'anyshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
