"""A module as the content of a model file, and the file."""

import json
import os
import sys
import tempfile

import torch
import torch.fx
import torch.nn as nn
from torch.nn.parameter import is_lazy

from .errors import CaptureError
from .weightless import Weightless, flat
from .tracing import traced_graph
from .exporting import exported_graph
from .model_writer import ModelWriter
from .finished import finished
from .named_batch import doubled_inputs, first_of, mistaken_for_samples, with_named_batch


FLOATING = {
    torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64",
}  # fmt: skip


def capture(module, inputs, name=None, *, batch=None, dtype=None, by=None, weightless=None, notes=None):
    """The module as the content of a model file.

    `inputs`: a tensor, a sequence of arguments, or a dict of arguments by name. Only their shapes and types
    count. `batch`: samples, where the first dim of the first input does not say. `dtype`: type of weights and
    results, that of most parameters if left out. `by`: "export" or "fx"; if left out, torch.export where there
    is one, and torch.fx where there is none or it fails. `notes`: a list that gets remarks, which otherwise go
    to stderr. CaptureError says what cannot be captured.
    """
    if not isinstance(module, nn.Module):
        raise CaptureError(f"found {type(module).__name__}, a torch.nn.Module is needed")
    inputs, names = arguments(inputs)
    tensors = [t for t in flat((inputs, names)) if isinstance(t, torch.Tensor)]
    if not tensors:
        raise CaptureError("the module has no inputs, at least one tensor is needed")
    for path, parameter in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(parameter):
            raise CaptureError(
                f"{path} is lazy, so its shape is not known; allowed: modules with all their sizes"
            )
    anywhere = batch is not None
    if batch is None:
        if tensors[0].dim() == 0:
            raise CaptureError(
                "the first input is a scalar, so the batch is unknown; allowed: a dim, or batch=N"
            )
        batch = tensors[0].shape[0]
    elif not any(batch in t.shape for t in tensors):
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise CaptureError(f"batch {batch} is no dim of the inputs {shapes}")
    dtype = dtype or usual_dtype(module)
    weightless = weightless or Weightless()
    remarks = [] if notes is None else notes
    task = (module, name or type(module).__name__, dtype, by, weightless, anywhere)
    document = captured(task, inputs, names, batch, remarks)
    try:
        twice = captured(task, *doubled_inputs(inputs, names, batch, anywhere), 2 * batch, [])
        document = with_named_batch(document, twice, batch)
        remarks += mistaken_for_samples(document, batch)
    except CaptureError:
        pass
    if notes is None:
        for remark in remarks:
            print(f"capture: {remark}", file=sys.stderr)
    return document


def captured(task, inputs, names, batch, notes):
    module, name, dtype, by, weightless, anywhere = task
    graph = graph_of(module, inputs, names, weightless, by, notes)
    writer = ModelWriter(batch, dtype, anywhere)
    results = writer.write(graph)
    document = finished(writer, results, module, name, dtype)
    notes += remarks(writer, document, module)
    return document


def graph_of(module, inputs, names, weightless, by, notes):
    if by == "fx" or (by is None and not hasattr(torch, "export")):
        return traced_graph(module, inputs, names, weightless)
    if not hasattr(torch, "export"):
        raise CaptureError(f"torch {torch.__version__} has no torch.export, allowed: fx")
    try:
        return exported_graph(module, inputs, names, weightless)
    except CaptureError as error:
        if by == "export":
            raise
        notes.append(f"{error}; captured by torch.fx instead")
        return traced_graph(module, inputs, names, weightless)


def remarks(writer, document, module):
    """One line on operators that are opaque, one on parameters that are not in the file, and other notes."""
    kept = {op["name"] for op in document["operators"]}
    counts = {}
    for entry in writer.operators.values():
        if entry["kind"] == "opaque" and entry["name"] in kept:
            counts[entry["what"]] = counts.get(entry["what"], 0) + 1
    lines = list(writer.notes)
    if counts:
        listed = ", ".join(f"{what} ({n}, first at {writer.opaque[what]})" for what, n in counts.items())
        lines.append(f"opaque, known by their shapes only: {listed}")
    unused = set(dict(module.named_parameters())) - used_parameters(writer, kept)
    if unused:
        lines.append(
            f"parameters that no result needs are left out ({len(unused)}): {first_of(sorted(unused))}"
        )
    return lines


def used_parameters(writer, kept):
    used = set()
    for entry in writer.operators.values():
        if entry["name"] in kept:
            used.update(entry.get("weights", []), entry.get("_opaque_weights", []))
    objects = {id(writer.parameters[n]) for n in used if n in writer.parameters}
    second_biases = {n.replace("bias_ih", "bias_hh") for n in used}
    return used | second_biases | {n for n, p in writer.parameters.items() if id(p) in objects}


def arguments(inputs):
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, dict):
        return (), dict(inputs)
    if len(inputs) == 2 and isinstance(inputs[0], (tuple, list)) and isinstance(inputs[1], dict):
        return tuple(inputs[0]), dict(inputs[1])
    return tuple(inputs), {}


def usual_dtype(module):
    counts = {}
    for parameter in module.parameters():
        counts[parameter.dtype] = counts.get(parameter.dtype, 0) + parameter.numel()
    floating = {t: n for t, n in counts.items() if t in FLOATING}
    return FLOATING[max(floating, key=floating.get)] if floating else "float32"


def to_text(document):
    """The document with one line for each input and operator."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list):
            items = ",\n".join("    " + json.dumps(item, ensure_ascii=False) for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{items}\n  ]" if value else f"  {json.dumps(key)}: []")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write(document, path):
    """Writes a captured document to a file: whole, or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(prefix=".capture-", dir=folder)
    except OSError as error:
        raise CaptureError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(to_text(document))
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise CaptureError(f"{path}: cannot be written: {error.strerror}") from None
