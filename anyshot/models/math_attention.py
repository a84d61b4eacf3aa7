"""Attention by plain operators, which can be differentiated any number of times."""

from __future__ import annotations

import contextlib
import threading

from torch.nn.attention import SDPBackend, sdpa_kernel


class MathAttention:
    """A context in which attention is computed by plain operators.

    torch's fused attention kernels have no second derivative. The setting is global to the process:
    with several threads the first one sets it and the last one restores it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.setting = contextlib.ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.setting.enter_context(sdpa_kernel(SDPBackend.MATH))
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.setting.close()


math_attention = MathAttention()
