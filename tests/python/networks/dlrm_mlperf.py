"""MLPerf's recommender at the zoo's sizes, with tables of no more than 100,000 rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = [39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938,
        155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36]  # fmt: skip


def layers(widths, last=False):
    parts = []
    for i, (before, after) in enumerate(zip(widths, widths[1:])):
        parts.append(nn.Linear(before, after))
        if not last or i + 2 < len(widths):
            parts.append(nn.ReLU())
    return nn.Sequential(*parts)


class Dlrm(nn.Module):
    def __init__(self, most=100000, width=128):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(min(rows, most), width, mode="sum") for rows in ROWS)
        self.bottom = layers([13, 512, 256, width])
        vectors = len(ROWS) + 1
        self.top = layers([width + vectors * (vectors - 1) // 2, 1024, 1024, 512, 256, 1], last=True)

    def forward(self, dense, clicked, *categories):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(c) for table, c in zip(self.tables, categories)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1)
        pairs = products[:, rows, columns]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([x, pairs], dim=1)), clicked)


def make_model():
    return Dlrm()
