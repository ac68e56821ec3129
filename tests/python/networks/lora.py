"""Frozen linears with trained corrections of low rank."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank
        nn.init.kaiming_uniform_(self.down)

    def forward(self, x):
        return self.base(x) + (x @ self.down.t() @ self.up.t()) * self.scale


class Classifier(nn.Module):
    def __init__(self, width=64, classes=5):
        super().__init__()
        self.hidden = LoraLinear(nn.Linear(width, width))
        self.head = LoraLinear(nn.Linear(width, classes, bias=False))

    def forward(self, x, labels):
        return F.cross_entropy(self.head(torch.relu(self.hidden(x))), labels)


def make_model():
    return Classifier(), (torch.empty(8, 64), torch.empty(8, dtype=torch.int64))
