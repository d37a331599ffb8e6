"""Seconds and bytes of a call."""

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

_STATUS = Path("/proc/self/status")


def seconds(call: Callable[[], Any], *, repeats: int = 5) -> float:
    """Shortest of `repeats` calls, results waited for, after one that compiles and warms up."""
    jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return min(times)


def _kilobytes(field: str) -> int:
    line = next(s for s in _STATUS.read_text().splitlines() if s.startswith(field))
    return int(line.split()[1])


def peak_bytes(call: Callable[[], Any]) -> float | None:
    """How far the resident memory of this process rises above now during the call.

    Linux only (None elsewhere). Compile beforehand: a compiler takes memory of its own.
    """
    if not _STATUS.exists():
        return None
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory freed earlier must not hide what is taken now
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    except (OSError, AttributeError):
        return None
    before = _kilobytes("VmRSS")
    jax.block_until_ready(call())
    return 1024 * max(0, _kilobytes("VmHWM") - before)


def machine() -> str:
    """Processor, cores, memory and Python, for the head of a table."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    names = {s.split(":")[1].strip() for s in text.splitlines() if s.startswith("model name")}
    devices = ", ".join(sorted({d.device_kind for d in jax.devices()}))
    cores = text.count("model name") or "?"
    python = ".".join(map(str, sys.version_info[:3]))
    processor = ", ".join(names) or "unknown processor"
    return f"{processor}, {cores} cores; JAX device {devices}; Python {python}"
