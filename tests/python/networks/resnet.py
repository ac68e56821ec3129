"""torchvision's ResNet-50 with the loss."""

import torch.nn as nn
import torch.nn.functional as F
import torchvision


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = torchvision.models.resnet50()

    def forward(self, images, labels):
        return F.cross_entropy(self.network(images), labels)


def make_model():
    return Classifier()
