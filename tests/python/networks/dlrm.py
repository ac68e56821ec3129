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
    """`table` makes an embedding of summed rows."""

    table = staticmethod(lambda rows, width: nn.EmbeddingBag(rows, width, mode="sum"))

    def __init__(self, tables=(1000, 2000, 3000), width=16, dense=13, bottom=(64,), top=(32, 32)):
        super().__init__()
        self.tables = nn.ModuleList(self.table(rows, width) for rows in tables)
        self.bottom = mlp([dense, *bottom, width])
        vectors = len(tables) + 1
        self.top = mlp([width + vectors * (vectors - 1) // 2, *top])
        self.score = nn.Linear(top[-1], 1)

    def forward(self, dense, clicks, *bags):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(bag) for table, bag in zip(self.tables, bags)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        pairs = self.below_diagonal(products)
        logits = self.score(self.top(torch.cat([x, pairs], dim=1))).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits, clicks)

    def below_diagonal(self, products):
        rows, columns = torch.tril_indices(products.shape[1], products.shape[1], offset=-1)
        return products[:, rows, columns]


class SummedRows(nn.Embedding):
    def forward(self, bag):
        return super().forward(bag).sum(1)


class ExportedDlrm(Dlrm):
    """The same in functions that torch 1.13 can write as ONNX."""

    table = SummedRows

    def below_diagonal(self, products):
        count = products.shape[1]
        below = torch.tensor([row * count + column for row in range(count) for column in range(row)])
        return products.flatten(1)[:, below]


# Rows of MLPerf's tables, and no more than 100,000.
MLPERF = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938,
          155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]  # fmt: skip


def make_mlperf(network=Dlrm):
    tables = [min(rows, 100000) for rows in MLPERF]
    return network(tables, 128, bottom=(512, 256), top=(1024, 1024, 512, 256))


def make_exported():
    return make_mlperf(ExportedDlrm)


def make_model():
    return Dlrm()
