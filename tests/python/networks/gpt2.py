"""GPT-2 with learned positions and a head that shares the embedding's weight, as `pipesim models gpt2`."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

HIDDEN, HEADS, LAYERS, VOCABULARY, POSITIONS, DROPOUT = 768, 12, 12, 50257, 1024, 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.projection = nn.Linear(HIDDEN, HIDDEN)
        self.drop_scores = nn.Dropout(DROPOUT)
        self.drop = nn.Dropout(DROPOUT)
        mask = torch.tril(torch.ones(POSITIONS, POSITIONS)).view(1, 1, POSITIONS, POSITIONS)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, length, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (a.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for a in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        weights = self.drop_scores(F.softmax(scores, dim=-1))
        mixed = (weights @ v).transpose(1, 2).contiguous().view(batch, length, width)
        return self.drop(self.projection(mixed))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.attention = CausalSelfAttention()
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.drop = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.head.weight = self.words.weight
        for name, parameter in self.named_parameters():
            if name.endswith("projection.weight"):
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * LAYERS))

    def forward(self, tokens, labels=None):
        length = tokens.size(1)
        assert length <= POSITIONS, "too long"
        positions = torch.arange(0, length, dtype=torch.long, device=tokens.device)
        x = self.drop(self.words(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


def make_model():
    return Gpt2()
