"""Load the trained method of a run in one call."""

from __future__ import annotations

from pathlib import Path

from anyshot.methods import Method
from anyshot.runs.run import Run


def load(run: str | Path, device: str = "cpu", trust_code: bool = False) -> Method:
    """Load a trained method.

    Parameters
    ----------
    run : str or Path
        Run folder, or a pretrained method that comes with anyshot (``anyshot weights``).
    device : str
        Where to compute: "cpu", "cuda", "mps" or "auto".
    trust_code : bool
        Whether code in or named by the run may be executed. Runs of built-in methods need none.

    Returns
    -------
    Method

    Raises
    ------
    RunError
        If there is no run in the folder, or it is damaged or has no chosen parameters yet.
    CodeError
        If the run uses code that does not come with anyshot, and ``trust_code`` is false.

    Examples
    --------
    >>> import numpy as np
    >>> method = load("glyphs")
    >>> images = np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    >>> predictor = method.adapt(images, [0, 0, 0, 1, 1, 1])
    >>> predictor(images).shape
    torch.Size([6, 2])
    """
    return Run(run, trust_code).load_method(device)
