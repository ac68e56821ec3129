"""No network: views, slices, sums and products of many sorts, one after the other."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Shapes(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.mix = nn.Parameter(torch.ones(3, 4, 6))
        self.scale = nn.Parameter(torch.ones(width))
        self.table = nn.Parameter(torch.zeros(25, 3))
        places = torch.arange(5)
        self.register_buffer("distance", places[:, None] - places[None, :] + 4, persistent=False)

    def forward(self, x, pairs):
        b, s, w = x.shape  # [b, 5, 12]
        heads = x.unflatten(2, (3, 4)) if hasattr(x, "unflatten") else x.view(b, s, 3, 4)
        wide = torch.einsum("bshd,hde->bhse", heads, self.mix)  # [b, 3, 5, 6]
        scores = torch.einsum("...ie,...je->...ij", wide, wide) * 0.5
        bias = self.table[self.distance.view(-1)].view(5, 5, 3).permute(2, 0, 1)
        scores = torch.softmax(scores + bias.unsqueeze(0), dim=-1)
        y = (scores @ wide).movedim(1, 2).flatten(2)  # [b, 5, 18]
        first, last = y[..., :9], y[:, :, 9:]
        y = torch.cat([first * torch.sigmoid(last), 1.0 - first.clamp(min=0)], -1)
        y = F.pad(y, (0, 2), mode="constant").roll(shifts=(1, -1), dims=(1, 2))  # [b, 5, 20]
        y = y[:, 1:4, ::2].repeat(1, 2, 1)  # [b, 6, 10]
        y = F.normalize(y, dim=-1) - y.mean(dim=(1, 2), keepdim=True)
        y = y.index_select(1, pairs[0]).abs().max(dim=1).values  # [b, 10]
        z = x.std(dim=1) / (2.0 + x.pow(2).sum(1).sqrt()) + self.scale
        z = torch.stack([z, z.square()], dim=1).repeat_interleave(2, dim=1)  # [b, 4, 12]
        a, c = z.unbind(1)[0], z.select(1, 2)
        return torch.maximum(a, c).T.t()[:, None, -4:].squeeze(1), y


def make_model():
    return Shapes()
