"""A block with a causal convolution and a scan that is a function of its own."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelectiveScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, delta, rate, b, c):
        ctx.save_for_backward(x, delta, rate, b, c)
        state = torch.zeros_like(x[:, 0])[..., None] * rate
        outputs = []
        for t in range(x.shape[1]):
            step = delta[:, t, :, None]
            state = torch.exp(step * rate) * state + step * b[:, t, None, :] * x[:, t, :, None]
            outputs.append((state * c[:, t, None, :]).sum(-1))
        return torch.stack(outputs, 1)


class MambaBlock(nn.Module):
    def __init__(self, width, state=16, kernel=4, rank=4):
        super().__init__()
        self.inner, self.state, self.rank = 2 * width, state, rank
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * self.inner, bias=False)
        self.conv = nn.Conv1d(self.inner, self.inner, kernel, groups=self.inner, padding=kernel - 1)
        self.parts = nn.Linear(self.inner, rank + 2 * state, bias=False)
        self.delta = nn.Linear(rank, self.inner)
        self.log_rate = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(self.inner, 1))
        self.skip = nn.Parameter(torch.ones(self.inner))
        self.leave = nn.Linear(self.inner, width, bias=False)
        nn.init.uniform_(self.delta.weight, -(rank**-0.5), rank**-0.5)
        with torch.no_grad():
            start = torch.exp(torch.rand(self.inner) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
            self.delta.bias.copy_(start + torch.log(-torch.expm1(-start)))

    def forward(self, x):
        length = x.shape[1]
        y, gate = self.enter(self.norm(x)).chunk(2, dim=-1)
        y = F.silu(self.conv(y.transpose(1, 2))[..., :length].transpose(1, 2))
        delta, b, c = self.parts(y).split([self.rank, self.state, self.state], dim=-1)
        delta = F.softplus(self.delta(delta))
        scanned = SelectiveScan.apply(y, delta, -torch.exp(self.log_rate), b, c)
        return x + self.leave((scanned + y * self.skip) * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self, vocabulary=500, width=32, layers=3):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(MambaBlock(width) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        return F.linear(self.norm(self.blocks(self.words(tokens))), self.words.weight)


def make_model():
    return Mamba()
