#!/usr/bin/env python3
"""Makes tests/golden/measures.gold: measures of made-up predictions, by scikit-learn.

    pip install scikit-learn; tests/golden/make_measures.py > tests/golden/measures.gold

Records as of make_golden.py: NAME COUNT, then so many float32 numbers.  A case has its outputs, labels or targets, and
what scikit-learn says: precision, recall, F1 (macro) and the area under the ROC curve, or R2.
"""
import sys
import warnings

import numpy as np
from scipy.special import softmax
from sklearn import metrics

warnings.simplefilter("ignore")
draw = np.random.default_rng(5)


def record(name, values):
    values = np.asarray(values, np.float32).ravel()
    sys.stdout.buffer.write(f"{name} {values.size}\n".encode() + values.tobytes())


def classes(name, outputs, labels):
    said = outputs.argmax(1)
    p, r, f, _ = metrics.precision_recall_fscore_support(labels, said, average="macro", zero_division=0)
    probability = softmax(outputs.astype(np.float64), 1).astype(np.float32)
    n = outputs.shape[1]
    both = [k for k in range(n) if 0 < (labels == k).sum() < len(labels)] if n > 2 else [1]
    auc = np.mean([metrics.roc_auc_score(labels == k, probability[:, k]) for k in both])
    if name == "four":  # its own mean of one class against the rest; others have ties in float32 only
        whole = softmax(outputs.astype(np.float64), 1)
        assert abs(auc - metrics.roc_auc_score(labels, whole, multi_class="ovr")) < 1e-6
    record(name + ".outputs", outputs)
    record(name + ".labels", labels)
    record(name + ".expected", [p, r, f, auc])


def values(name, outputs, targets):
    record(name + ".outputs", outputs)
    record(name + ".targets", targets)
    record(name + ".expected", [metrics.r2_score(targets, outputs)])


labels = draw.integers(0, 4, 60)
outputs = draw.normal(size=(60, 4)).astype(np.float32) + 1.5 * np.eye(4, dtype=np.float32)[labels]
classes("four", outputs, labels)
classes("ties", np.round(outputs), labels)
labels = draw.integers(0, 2, 40)
classes("two", np.round(draw.normal(size=(40, 2)) + np.eye(2)[labels], 1).astype(np.float32), labels)
labels = draw.integers(0, 3, 40)  # of five: one is only predicted, one neither
outputs = draw.normal(size=(40, 5)).astype(np.float32) + np.array([0, 0, 0, 0, -9], np.float32)
classes("absent", outputs, labels)
targets = (draw.normal(size=(50, 3)) * [1, 5, 0.1] + [1000, -3, 0]).astype(np.float32)
values("values", (targets + draw.normal(size=(50, 3)) * [0.5, 1, 0.3]).astype(np.float32), targets)
constant = np.full((8, 2), 2, np.float32)  # one is met, one is missed
values("constant", np.stack([constant[:, 0], constant[:, 1] + 1], 1), constant)
