"""A small UNet for diffusion: residual blocks with the time, attention to a text, skips."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_waves(steps, width):
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2, device=steps.device) / (width // 2))
    angles = steps[:, None].float() * rates[None, :]
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


class Residual(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2 = nn.GroupNorm(8, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + self.skip(x)


class CrossAttention(nn.Module):
    def __init__(self, channels, text, heads=4):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.attention = nn.MultiheadAttention(channels, heads, kdim=text, vdim=text, batch_first=True)

    def forward(self, x, text):
        n, c, h, w = x.shape
        rows = self.norm(x).view(n, c, h * w).permute(0, 2, 1)
        mixed, _ = self.attention(rows, text, text)
        return x + mixed.permute(0, 2, 1).reshape(n, c, h, w)


class Unet(nn.Module):
    def __init__(self, channels=32, text=64, time=128):
        super().__init__()
        self.width = channels
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.down1 = Residual(channels, channels, time)
        self.shrink = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.down2 = Residual(channels, 2 * channels, time)
        self.attention = CrossAttention(2 * channels, text)
        self.up2 = Residual(2 * channels, 2 * channels, time)
        self.grow = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.up1 = Residual(2 * channels, channels, time)
        self.norm = nn.GroupNorm(8, channels)
        self.leave = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, noisy, steps, text, noise):
        time = self.time(time_waves(steps, self.width))
        fine = self.down1(self.enter(noisy), time)
        x = self.down2(self.shrink(fine), time)
        x = self.up2(self.attention(x, text), time)
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up1(torch.cat([x, fine], dim=1), time)
        return F.mse_loss(self.leave(F.silu(self.norm(x))), noise)


def make_model():
    return Unet()
