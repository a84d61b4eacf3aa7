"""The update rule that all gradient methods share:

    θ_k = θ_{k−1} − A ∘ g_k,    g_k = ∇_θ L(θ_{k−1}),    k = 1..K,    A = γ ∘ α

For most methods L = Σ_n w_n CE_n, and g is :func:`anyshot.gradient`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from anyshot.core.errors import SettingsError
from anyshot.models.network import Parameters


def update(
    theta: Parameters,
    gradient: Callable[[Parameters, int], Parameters],
    rates: Parameters,
    steps: int,
    order: int = 2,
) -> Parameters:
    """Take K gradient steps and return θ_K.

    Parameters
    ----------
    theta : dict of str to Tensor
        θ_0.
    gradient : callable
        ``gradient(theta, k)`` is the gradient of step k, for example by :func:`anyshot.gradient`.
    rates : dict of str to Tensor
        A, a step size for each parameter, broadcastable to it.
    steps : int
        K.
    order : {2, 1, 0}
        2 keeps the graph through the gradients, 1 treats the gradients as constants, 0 keeps no
        graph (adaptation only). With gradients switched off there is no graph either.

    Returns
    -------
    dict of str to Tensor
        θ_K.

    Raises
    ------
    SettingsError
        If a parameter has no step size.

    Examples
    --------
    >>> def gradient_of_square(theta, k):
    ...     return {"x": 2 * theta["x"]}
    >>> update({"x": torch.tensor(1.0)}, gradient_of_square, {"x": torch.tensor(0.25)}, steps=3)
    {'x': tensor(0.1250)}
    """
    missing = [name for name in theta if name not in rates]
    if missing:
        raise SettingsError(
            f"No step size for {', '.join(missing)}: rates has only {', '.join(rates)}. "
            "Add an entry for each adapted parameter."
        )
    graph = torch.is_grad_enabled() and order > 0
    with torch.set_grad_enabled(graph):
        theta = theta if graph else {name: value.detach() for name, value in theta.items()}
        for k in range(steps):
            with torch.set_grad_enabled(graph and order == 2):
                g = gradient(theta, k)
            theta = {name: value - rates[name] * g[name] for name, value in theta.items()}
    return theta
