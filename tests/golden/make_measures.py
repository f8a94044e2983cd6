#!/usr/bin/env python3
"""Makes tests/golden/measures.gold: measures of made-up predictions, by scikit-learn, torchmetrics and torch in float64.

    pip install scikit-learn torch torchmetrics; tests/golden/make_measures.py > tests/golden/measures.gold

Records as of make_golden.py: NAME COUNT, then so many float32 numbers.  A case has its outputs, labels or targets, and
the results: precision, recall, F1 (macro) and the area under the ROC curve, with mean average precision; R2; for pixels
IoU and Dice, global and per sample; for sets of labels all of these and F1 (micro) and two accuracies; for fields RMSE,
VRMSE (of The Well), relative L2, and MAE, RMSE and VRMSE by channel.
"""
import sys
import warnings

import numpy as np
import torch
import torchmetrics
from scipy.special import softmax
from sklearn import metrics
from torchmetrics.functional.segmentation import dice_score

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
    found = [k for k in range(n) if (labels == k).any()] if n > 2 else [1]
    record(name + ".map", [np.mean([metrics.average_precision_score(labels == k, probability[:, k]) for k in found])])


def overlaps(said, is_):
    """IoU and Dice of one-hot arrays N x C x places: means over the classes that occur, of all samples, then of each
    sample by itself; there IoU counts a class that does not occur as 1 (MLPerf HPC DeepCAM), Dice leaves it out."""
    each = said.transpose(1, 0, 2).reshape(said.shape[1], -1), is_.transpose(1, 0, 2).reshape(said.shape[1], -1)
    iou = np.mean([metrics.jaccard_score(i, s) for s, i in zip(*each) if (s | i).any()])
    sample = np.mean([metrics.jaccard_score(i.T, s.T, average=None, zero_division=1) if len(i) > 1 else
                      metrics.jaccard_score(i[0], s[0], zero_division=1) for s, i in zip(said, is_)])
    both = torch.from_numpy(said.astype(np.int64)), torch.from_numpy(is_.astype(np.int64))
    count = said.shape[1]
    dice = dice_score(*both, num_classes=count, average="macro", aggregation_level="global")
    by_sample = dice_score(*both, num_classes=count, average="macro", aggregation_level="samplewise")
    return [iou, sample, dice.item(), by_sample.nanmean().item()]


def pixels(name, outputs, labels):
    said, count = outputs.argmax(1), outputs.shape[1]
    known = (labels != 255)[:, None]
    some = known.any((1, 2))
    hot = [((np.arange(count)[:, None] == x[:, None]) & known)[some] for x in (said, labels)]
    got = overlaps(*hot)
    jaccard = torchmetrics.JaccardIndex("multiclass", num_classes=count, ignore_index=255)
    assert abs(jaccard(torch.from_numpy(said), torch.from_numpy(labels)).item() - got[0]) < 1e-6
    record(name + ".outputs", outputs)
    record(name + ".labels", labels)
    record(name + ".expected", got)


def sets(name, outputs, targets):
    """Sets of labels, N x C x places."""
    said, is_ = outputs > 0, targets > 0
    flat = [x.transpose(0, 2, 1).reshape(-1, x.shape[1]) for x in (is_, said)]
    p, r, f, _ = metrics.precision_recall_fscore_support(*flat, average="macro", zero_division=0)
    micro = metrics.f1_score(*flat, average="micro")
    accuracy = 1 - metrics.hamming_loss(*flat)
    mine = torchmetrics.Accuracy("multilabel", num_labels=outputs.shape[1])
    assert abs(mine(*[torch.from_numpy(x.astype(np.int64)) for x in (flat[1], flat[0])]).item() - accuracy) < 1e-6
    record(name + ".outputs", outputs)
    record(name + ".targets", targets)
    record(name + ".expected", [p, r, f, micro, metrics.accuracy_score(*flat), accuracy, *overlaps(said, is_)])
    if outputs.shape[2] > 1:
        return
    both = [k for k in range(outputs.shape[1]) if 0 < is_[:, k].sum() < len(is_)]
    auc = np.mean([metrics.roc_auc_score(is_[:, k, 0], outputs[:, k, 0]) for k in both])
    record(name + ".ranked", [auc, metrics.average_precision_score(is_[..., 0], outputs[..., 0], average="macro")])


def fields(name, outputs, targets):
    """Fields, N x C x places."""
    x, y = [torch.from_numpy(a).double() for a in (outputs, targets)]
    norm = torch.std(y, dim=-1) ** 2  # as the_well/benchmark/metrics/spatial.py has it
    vrmse = torch.sqrt(torch.mean((x - y) ** 2, dim=-1) / (norm + 1e-7))
    relative = (torch.linalg.norm((x - y).flatten(1), dim=1) / torch.linalg.norm(y.flatten(1), dim=1)).mean()
    count = x.shape[1]
    flat = [a.transpose(1, 2).reshape(-1, count).contiguous() for a in (x, y)]
    rmse = torchmetrics.MeanSquaredError(squared=False, num_outputs=count).double()
    rmse.set_dtype(torch.float64)
    whole = torchmetrics.MeanSquaredError(squared=False)
    whole.set_dtype(torch.float64)
    record(name + ".outputs", outputs)
    record(name + ".targets", targets)
    record(name + ".expected", [whole(x, y), vrmse.mean(), relative])
    mae = torchmetrics.MeanAbsoluteError(num_outputs=count)
    mae.set_dtype(torch.float64)
    record(name + ".channels", torch.stack([mae(*flat), rmse(*flat), vrmse.mean(0)], 1))


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

labels = draw.integers(0, 3, (6, 30))  # of four classes; the last is only predicted
outputs = draw.normal(size=(6, 4, 30)).astype(np.float32) + 1.5 * (np.arange(4)[:, None] == labels[:, None])
labels[:2, :9], labels[2], labels[3] = 255, 1, 255
outputs[2, [0, 2, 3]] -= 9  # a sample of one class alone; then one without a known pixel
pixels("pixels", outputs.astype(np.float32), labels)
targets = (draw.random((50, 5)) < [0.5, 0.2, 0.8, 0.4, 0]).astype(np.float32)  # the last never occurs
outputs = (draw.normal(size=(50, 5)) + 1.5 * targets - [1, 1, 0, 0, 9]).astype(np.float32)
sets("sets", outputs[..., None], targets[..., None])
sets("tied", np.round(outputs)[..., None], targets[..., None])
targets = (draw.random((4, 2, 20)) < 0.3).astype(np.float32)
outputs = (draw.normal(size=(4, 2, 20)) + 1.5 * targets - 1).astype(np.float32)
targets[1], outputs[1] = 0, -1  # a sample without any label
sets("masks", outputs, targets)
targets = (draw.normal(size=(3, 2, 41)) * [[1], [100]] + [[0], [3]]).astype(np.float32)
fields("fields", (targets + draw.normal(size=targets.shape) * [[0.3], [10]]).astype(np.float32), targets)
known = targets.copy()  # some targets are unknown; in one channel of a sample all are
known[draw.random(targets.shape) < 0.2], known[1, 0] = np.nan, np.nan
outputs = (targets + draw.normal(size=targets.shape) * [[0.3], [10]]).astype(np.float32)
parts = [[(outputs[i, k][ok], known[i, k][ok]) for i in range(3) if (ok := ~np.isnan(known[i, k])).any()] for k in range(2)]
vrmse = [[np.sqrt(((x - y) ** 2).mean() / (y.var(ddof=1) + 1e-7)) for x, y in of] for of in parts]
x, y = [[np.concatenate([p[i] for p in of]).astype(np.float64) for of in parts] for i in range(2)]
errors = [[metrics.mean_absolute_error(b, a), metrics.root_mean_squared_error(b, a), np.mean(v)]
          for a, b, v in zip(x, y, vrmse)]
off, size = np.nan_to_num(outputs - known), np.nan_to_num(known)
relative = np.mean([np.linalg.norm(o) / np.linalg.norm(s) for o, s in zip(off, size)])
record("missing.outputs", outputs)
record("missing.targets", known)
record("missing.expected", [metrics.root_mean_squared_error(np.concatenate(y), np.concatenate(x)),
                            np.mean(sum(vrmse, [])), relative])
record("missing.channels", errors)
