"""The UNet of Stable Diffusion 1.5: four levels, two residual blocks each, attention to the image and to a text."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2 = nn.GroupNorm(32, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, out, 1) if channels != out else None

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return (x if self.shortcut is None else self.shortcut(x)) + y


class Attention(nn.Module):
    def __init__(self, width, read, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(read, width, bias=False)
        self.value = nn.Linear(read, width, bias=False)
        self.output = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, read):
        q, k, v = self.split(self.query(x)), self.split(self.key(read)), self.split(self.value(read))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        mixed = scores.softmax(dim=-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, width, text, heads):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.own = Attention(width, width, heads)
        self.cross = Attention(width, text, heads)
        self.inner = nn.Linear(width, 8 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x, text):
        y = self.norm1(x)
        x = x + self.own(y, y)
        x = x + self.cross(self.norm2(x), text)
        value, gate = self.inner(self.norm3(x)).chunk(2, dim=-1)
        return x + self.outer(value * F.gelu(gate))


class Transformer(nn.Module):
    def __init__(self, width, text, heads):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.enter = nn.Conv2d(width, width, 1)
        self.layer = Layer(width, text, heads)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x, text):
        n, c, h, w = x.shape
        y = self.enter(self.norm(x)).reshape(n, c, h * w).transpose(1, 2)
        y = self.layer(y, text).transpose(1, 2).reshape(n, c, h, w)
        return x + self.leave(y)


class Block(nn.Module):
    def __init__(self, channels, out, time, text, attends):
        super().__init__()
        self.residual = Residual(channels, out, time)
        self.transformer = Transformer(out, text, 8) if attends else None

    def forward(self, x, time, text):
        x = self.residual(x, time)
        return x if self.transformer is None else self.transformer(x, text)


class Unet(nn.Module):
    def __init__(self, widths=(320, 640, 1280, 1280), blocks=2, text=768):
        super().__init__()
        first, time = widths[0], 4 * widths[0]
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.stem = nn.Conv2d(4, first, 3, padding=1)
        attends = [True] * (len(widths) - 1) + [False]
        self.down, self.smaller, self.up, self.larger = (nn.ModuleList() for _ in range(4))
        passed, x = [first], first
        for level, width in enumerate(widths):
            for _ in range(blocks):
                self.down.append(Block(x, width, time, text, attends[level]))
                x = width
                passed.append(x)
            if level + 1 < len(widths):
                self.smaller.append(nn.Conv2d(x, x, 3, stride=2, padding=1))
                passed.append(x)
        self.middle1 = Block(x, x, time, text, True)
        self.middle2 = Block(x, x, time, text, False)
        for level in reversed(range(len(widths))):
            for _ in range(blocks + 1):
                self.up.append(Block(x + passed.pop(), widths[level], time, text, attends[level]))
                x = widths[level]
            if level > 0:
                self.larger.append(nn.Conv2d(x, x, 3, padding=1))
        self.norm = nn.GroupNorm(32, x)
        self.noise = nn.Conv2d(x, 4, 3, padding=1)
        self.blocks = blocks

    def forward(self, latents, steps, text, noise):
        time = self.time(steps)
        x = self.stem(latents)
        passed = [x]
        for i, block in enumerate(self.down):
            x = block(x, time, text)
            passed.append(x)
            level, last = divmod(i + 1, self.blocks)
            if last == 0 and level <= len(self.smaller):
                x = self.smaller[level - 1](x)
                passed.append(x)
        x = self.middle2(self.middle1(x, time, text), time, text)
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, passed.pop()], dim=1), time, text)
            level, last = divmod(i + 1, self.blocks + 1)
            if last == 0 and level <= len(self.larger):
                x = self.larger[level - 1](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return F.mse_loss(self.noise(F.silu(self.norm(x))), noise)


def make_model():
    return Unet()
