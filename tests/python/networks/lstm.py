"""A language model on a two-layer LSTM."""

import torch.nn as nn
import torch.nn.functional as F


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=1000, width=32, hidden=64, layers=2):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, dropout=0.2)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens, labels):
        x, _ = self.lstm(self.words(tokens))
        logits = self.head(x)
        return F.cross_entropy(logits.transpose(1, 2), labels)


def make_model():
    return LanguageModel()
