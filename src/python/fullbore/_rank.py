"""Who am I: rank and world size as libraries that are loaded tell it. The environment is the engine's to read."""

from __future__ import annotations

import sys
from typing import Any

from .errors import UsageError

Rank = tuple[int, int]


def _of_torch() -> Rank | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _of_ray() -> Rank | None:
    """Inside a worker of Ray Train; its other back-ends than torch's tell it nowhere else."""
    train: Any = sys.modules.get("ray.train")
    try:
        context = train.get_context()
        rank, world_size = context.get_world_rank(), context.get_world_size()
    except Exception:  # not loaded, or not inside a worker: some versions raise, others answer None
        return None
    return (int(rank), int(world_size)) if isinstance(rank, int) and isinstance(world_size, int) else None


def known_rank() -> Rank | None:
    """From torch.distributed, else from Ray Train; None: neither says anything."""
    torch, ray = _of_torch(), _of_ray()
    if torch is not None and ray is not None and torch != ray:
        raise UsageError(f"torch.distributed says rank {torch[0]} of {torch[1]}, Ray Train says rank {ray[0]} of {ray[1]}",
                         remedy="pass rank= and world_size=")
    return torch if torch is not None else ray
