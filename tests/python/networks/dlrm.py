"""A recommender: bags of embeddings, products of all pairs, the lower triangle of them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


class Dlrm(nn.Module):
    def __init__(self, tables=(1000, 2000, 3000), width=16, dense=13):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in tables)
        self.bottom = mlp([dense, 64, width])
        vectors = len(tables) + 1
        self.top = mlp([width + vectors * (vectors - 1) // 2, 32, 32])
        self.score = nn.Linear(32, 1)

    def forward(self, dense, clicks, *bags):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(bag) for table, bag in zip(self.tables, bags)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        pairs = products[:, rows, columns]
        logits = self.score(self.top(torch.cat([x, pairs], dim=1))).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, clicks)


def make_model():
    return Dlrm()
