"""Training: next-token prediction on the corpus, the deep network grown from a shallow one."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import torch
import torch.nn.functional as F
from stories.lessons import Lessons
from stories.network import Network, deepened
from stories.plan import CONTEXT, Stage
from torch import Tensor, nn

_WARM_UP, _COOL_DOWN = 0.015, 0.5  # of the steps at a depth
_DRILLS, _MIXED = 0.06, 0.2  # of a drilled stage's steps: nothing but drills, then stories among them
_MATRICES, _EMBEDDING = 0.02, 0.004  # learning rates


def train(network: Network, stages: Sequence[Stage], lessons: Lessons, name: str) -> Network:
    """Train a network in stages, each as deep or deeper.

    Matrices are trained with Muon (Jordan et al., 2024), the rest with AdamW (Loshchilov and Hutter, 2019); the
    learning rate rises, stays, and falls to zero at each depth (Hu et al., 2024), and is lower the deeper the network.

    Args:
        network: As deep as the first stage.
        stages: What to do.
        lessons: What to read.
        name: What to call it on the way.
    """
    started = time.monotonic()
    shallowest = network.shape.layers
    for layers, same_depth in groupby(stages, lambda stage: stage.layers):
        if layers != network.shape.layers:
            network = deepened(network, layers)
        optimizers = _optimizers(network, shallowest / layers)
        batches = [batch for stage in same_depth for batch in _batches(stage, lessons)]
        losses = []
        for step, batch in enumerate(batches):
            losses.append(_step(network, optimizers, _rate(step / len(batches)), batch()))
            if (step + 1) % 50 == 0:
                mean = sum(losses[-50:]) / 50
                minutes = (time.monotonic() - started) / 60
                print(f"{name}: {layers} layers, step {step + 1}, loss {mean:.4f}, {minutes:.1f} min", flush=True)
    return network


def _rate(done: float) -> float:
    """The learning rate's share of its highest when so much is done at a depth: up, level, down to zero."""
    return min(1.0, (done + 1e-3) / _WARM_UP, (1.0 - done) / _COOL_DOWN)


def _batches(stage: Stage, lessons: Lessons) -> Iterator[Callable[[], Tensor]]:
    """What gives a stage's batches, in turn."""
    stories = partial(lessons.stories, stage.window)
    for step in range(stage.steps):
        if not stage.drilled:
            yield stories
        elif step < _DRILLS * stage.steps:
            yield (lessons.characters, lessons.wishes)[step % 2]
        elif step < (_DRILLS + _MIXED) * stage.steps:
            yield (lessons.characters, lessons.wishes, lessons.brief_stories, stories)[step % 4]
        else:
            yield (lessons.brief_stories, stories, stories)[step % 3]


@torch.no_grad()
def loss_on(network: Network, lessons: Lessons, batches: int) -> float:
    """The mean loss in nats a token."""
    return sum(_loss(network, lessons.stories(CONTEXT)).item() for _ in range(batches)) / batches


def _loss(network: Network, batch: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        logits = network(batch[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())


def _step(network: Network, optimizers: list[torch.optim.Optimizer], rate: float, batch: Tensor) -> float:
    loss = _loss(network, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * group["base"]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def _optimizers(network: Network, scale: float) -> list[torch.optim.Optimizer]:
    matrices = [weight for weight in network.blk.parameters() if weight.ndim == 2]
    others = [weight for weight in network.parameters() if not any(weight is matrix for matrix in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=scale * _MATRICES, weight_decay=0.01),
        torch.optim.AdamW(others, lr=_EMBEDDING, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base"] = group["lr"]
    return optimizers
