"""torchvision's ViT-B/16 with the loss."""

import torch.nn as nn
import torch.nn.functional as F
import torchvision


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = torchvision.models.vit_b_16()

    def forward(self, images, labels):
        return F.cross_entropy(self.network(images), labels)


def make_model():
    return Classifier()
