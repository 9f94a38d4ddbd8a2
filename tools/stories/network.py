"""A llama in PyTorch, with the tensors that llama.cpp knows it by."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from stories.plan import N_VOCAB, Shape
from torch import Tensor, nn

EPSILON = 1e-5
ROPE_BASE = 10000.0


class Norm(nn.Module):
    """Root mean square normalisation (Zhang and Sennrich, 2019)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return F.rms_norm(x, self.weight.shape, self.weight, EPSILON)


class Layer(nn.Module):
    """Attention and a gated feed-forward network, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, inner = shape.width, shape.heads * shape.head_width
        self.shape = shape
        self.attn_norm, self.ffn_norm = Norm(width), Norm(width)
        self.attn_qkv = _linear(width, inner + 2 * shape.head_width)
        self.attn_output = _linear(inner, width)
        self.ffn_gate_up = _linear(width, 2 * shape.feed_forward)
        self.ffn_down = _linear(shape.feed_forward, width)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        """The next layer's input, shape (texts, tokens, width), of this one's."""
        heads, head_width = self.shape.heads, self.shape.head_width
        qkv = self.attn_qkv(self.attn_norm(x)).view(*x.shape[:2], heads + 2, head_width).transpose(1, 2)
        q, k, v = _rotate(qkv[:, :heads], rotation), _rotate(qkv[:, heads : heads + 1], rotation), qkv[:, heads + 1 :]
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads > 1)
        x = x + self.attn_output(attended.transpose(1, 2).flatten(2))
        gate, up = self.ffn_gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.ffn_down(F.silu(gate) * up)


class Network(nn.Module):
    """Tokens to logits; input and output share their embedding (Press and Wolf, 2017)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(N_VOCAB, shape.width)
        nn.init.normal_(self.token_embd.weight, std=0.02)
        self.blk = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.output_norm = Norm(shape.width)
        for layer in self.blk:
            _silence(layer)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, shape (texts, tokens, n_vocab), of tokens, shape (texts, tokens)."""
        rotation = _rotation(tokens.shape[1], self.shape.head_width)
        x = self.token_embd(tokens)
        for layer in self.blk:
            x = layer(x, rotation)
        return F.linear(self.output_norm(x), self.token_embd.weight)

    def parameters_in_all(self) -> int:
        """How many numbers it has learnt."""
        return sum(parameter.numel() for parameter in self.parameters())

    def tensors(self) -> dict[str, Tensor]:
        """The weights by llama.cpp's names."""
        named = {}
        for name, weight in self.state_dict().items():
            if "attn_qkv" in name:
                sizes = [self.shape.heads * self.shape.head_width, self.shape.head_width, self.shape.head_width]
                for part, rows in zip("qkv", weight.split(sizes), strict=True):
                    named[name.replace("qkv", part)] = rows
            elif "ffn_gate_up" in name:
                named[name.replace("gate_up", "gate")], named[name.replace("gate_up", "up")] = weight.chunk(2)
            else:
                named[name] = weight
        return named


def deepened(network: Network, layers: int) -> Network:
    """The same function with more layers: every layer is followed by copies of itself that add nothing yet.

    Stacking copies: Gong et al. (2019); preserving the function: Chen et al. (2016).
    """
    shape = network.shape
    deeper = Network(replace(shape, layers=layers))
    deeper.token_embd, deeper.output_norm = network.token_embd, network.output_norm
    copies, rest = divmod(layers, shape.layers)
    assert not rest
    for i, layer in enumerate(network.blk):
        for j in range(copies):
            copy = deeper.blk[i * copies + j]
            copy.load_state_dict(layer.state_dict())
            if j:
                _silence(copy)
    return deeper


def _silence(layer: Layer) -> None:
    """Let a layer add nothing to its input."""
    nn.init.zeros_(layer.attn_output.weight)
    nn.init.zeros_(layer.ffn_down.weight)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(linear.weight, std=inputs**-0.5)
    return linear


def _rotation(n_tokens: int, head_width: int) -> Tensor:
    """Rotary position embedding (Su et al., 2021): complex factors, shape (n_tokens, head_width / 2)."""
    frequencies = ROPE_BASE ** (-torch.arange(0, head_width, 2) / head_width)
    angles = torch.outer(torch.arange(n_tokens), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate neighbouring pairs, as llama.cpp does for llamas."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)
