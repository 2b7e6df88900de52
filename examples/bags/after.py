"""Multiple-instance learning on slide features: one HDF5 file per slide, a label per slide, attention over its patches.

    python after.py FOLDER LABELS.csv [EPOCHS]
"""

import sys

import fullbore as fb
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.classify = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1)), nn.Linear(256, 2)

    def forward(self, values, mask):
        weights = self.score(values).squeeze(2).masked_fill(~mask, float("-inf")).softmax(1)
        return self.classify((weights[:, :, None] * values).sum(1))


def main(folder, table, epochs):
    torch.manual_seed(0)
    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    loader = fb.Loader(folder, sample="file", fields=("features", "label"), labels=table, collate=fb.Pad(), batch_size=4, shuffle=True)
    for epoch in range(epochs):
        seen = right = 0
        for features, labels in loader:
            scores = model(features.values, features.mask)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            right += (scores.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: {len(loader)} batches, {seen} slides, {right / seen:.1%} right")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2)
