"""Llama 3 with rotary positions written out and keys shared by groups of queries."""

import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Sizes:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int = 128256


TINY = Sizes(layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocabulary=256)
LLAMA3_70B = Sizes(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672)


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x.float() * torch.rsqrt(variance + self.eps)).type_as(x)


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotated(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def repeated(x, times):
    batch, heads, length, width = x.shape
    if times == 1:
        return x
    x = x[:, :, None, :, :].expand(batch, heads, times, length, width)
    return x.reshape(batch, heads * times, length, width)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.width = sizes.hidden // sizes.heads
        self.q = nn.Linear(sizes.hidden, sizes.heads * self.width, bias=False)
        self.k = nn.Linear(sizes.hidden, sizes.kv_heads * self.width, bias=False)
        self.v = nn.Linear(sizes.hidden, sizes.kv_heads * self.width, bias=False)
        self.o = nn.Linear(sizes.heads * self.width, sizes.hidden, bias=False)

    def forward(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.sizes.heads, self.width).transpose(1, 2)
        k = self.k(x).view(batch, length, self.sizes.kv_heads, self.width).transpose(1, 2)
        v = self.v(x).view(batch, length, self.sizes.kv_heads, self.width).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        times = self.sizes.heads // self.sizes.kv_heads
        k, v = repeated(k, times), repeated(v, times)
        scores = torch.matmul(q, k.transpose(2, 3)) / self.width**0.5 + mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, -1)
        return self.o(mixed)


class Mlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.up = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.down = nn.Linear(sizes.ffn, sizes.hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention_norm = RMSNorm(sizes.hidden)
        self.attention = Attention(sizes)
        self.mlp_norm = RMSNorm(sizes.hidden)
        self.mlp = Mlp(sizes)

    def forward(self, x, cos, sin, mask):
        x = x + self.attention(self.attention_norm(x), cos, sin, mask)
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.words = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = RMSNorm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        width = sizes.hidden // sizes.heads
        self.register_buffer("rates", 500000.0 ** -(torch.arange(0, width, 2).float() / width))

    def forward(self, tokens, labels):
        length = tokens.shape[1]
        angles = torch.outer(torch.arange(length, device=tokens.device).float(), self.rates)
        angles = torch.cat((angles, angles), dim=-1)
        mask = torch.full((length, length), float("-inf"), device=tokens.device)
        mask = torch.triu(mask, diagonal=1)
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))


def make_model():
    return Llama(TINY)


def make_70b():
    return Llama(LLAMA3_70B).to(torch.bfloat16)
