"""The same graph of calls by torch.export."""

import copy
import re

import torch
import torch.nn as nn

from .errors import CaptureError, one_line
from .weightless import Origin, mapped, shape_only
from .tracing import input_labels


def exported_graph(module, inputs, names, weightless):
    """The module as torch.export sees it, with the `meta` that ModelWriter reads."""
    inputs, names = mapped(shape_only, (tuple(inputs), dict(names)))
    try:
        with torch.device("meta"), torch.no_grad():
            program = torch.export.export(without_values(module), inputs, names)
    except Exception as error:
        raise CaptureError(f"torch.export: {one_line(error)[:300]}") from error
    for path, buffer in module.named_buffers():
        weightless.name(buffer, path)
    placeholders = Placeholders(program.graph_signature, module, inputs, names, weightless)
    for node in program.graph.nodes:
        path = exported_path(node, module)
        owner = module.get_submodule(path) if path else module
        packet = getattr(node.target, "overloadpacket", node.target)
        node.meta.update(
            value=node.meta.get("val"),
            path=path,
            leaf=type(owner).__module__.startswith("torch.nn.") and not any(owner.children()),
            label=getattr(packet, "__name__", str(packet)),
        )
        if node.op == "placeholder":
            placeholders.mark(node)
    return program.graph


def without_values(module):
    """A copy whose parameters and buffers have shapes only; the module's own are not touched."""
    known = {id(t): shape_only(t) for t in module.buffers()}
    for parameter in module.parameters():
        known[id(parameter)] = nn.Parameter(shape_only(parameter), requires_grad=parameter.requires_grad)
    return copy.deepcopy(module, known)


def exported_path(node, module):
    """The path of the module that made a call of an exported graph."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", stack[-1][0]) if stack else ""
    path = re.sub(r"^L\.self\.?", "", path).strip(".")
    try:
        module.get_submodule(path)
    except AttributeError:
        return ""
    return path


class Placeholders:
    """What the inputs of an exported graph stand for: parameters, buffers, constants, inputs of the module."""

    def __init__(self, signature, module, inputs, names, weightless):
        self.signature, self.weightless = signature, weightless
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.buffers = dict(module.named_buffers(remove_duplicate=False))
        self.first_names = {id(p): path for path, p in reversed(list(self.parameters.items()))}
        self.labels = iter(input_labels(module, inputs, names))

    def mark(self, node):
        parameter = self.signature.inputs_to_parameters.get(node.name)
        buffer = self.signature.inputs_to_buffers.get(node.name)
        lifted = getattr(self.signature, "inputs_to_lifted_tensor_constants", {})
        if parameter is not None:
            parameter = self.parameters[parameter]
            node.meta.update(parameter=parameter, label=self.first_names[id(parameter)])
        elif buffer is not None:
            known = self.buffers.get(buffer)
            node.meta["constant"] = self.weightless.origin(node.meta["value"] if known is None else known)
        elif node.name in lifted:
            node.meta["constant"] = Origin(key=f"#{node.name}")
        else:
            node.meta["label"] = next(self.labels)
