"""The finished file: what no result needs is dropped, weights are shared, repeats are found."""

import re

import torch.nn as nn


def finished(writer, results, module, name, dtype, recognise=True):
    """The file's content, without what no result needs."""
    operators = needed(writer, results)
    list_weights(writer, operators)
    freeze(writer, operators)
    label_repeats(module, operators)
    used = {tensor for op in operators for tensor in op["inputs"]}
    inputs = [entry for entry in writer.inputs.values() if entry["name"] in used]
    rename_inputs(writer, inputs, operators)
    document = {
        "pipesim_model": 1,
        "name": name,
        "batch": writer.batch,
        "dtype": dtype,
        "fuse": True,
        "inputs": inputs,
        "operators": [{k: v for k, v in op.items() if not k.startswith("_")} for op in operators],
    }
    return document


def needed(writer, results):
    alive, pending = set(), list(results)
    while pending:
        producer = writer._producer.get(pending.pop())
        if producer is not None and producer not in alive:
            alive.add(producer)
            pending += writer.operators[producer]["inputs"]
    return [op for name, op in writer.operators.items() if name in alive]


def rename_inputs(writer, inputs, operators):
    """Gives an input that was made of another the other's name, where that is no longer needed."""
    taken = {entry["name"] for entry in inputs} | set(writer._values)
    renamed = {}
    for entry in inputs:
        wanted = writer._wanted.get(entry["name"], entry["name"])
        if wanted not in taken:
            taken.add(wanted)
            renamed[entry["name"]] = wanted
            entry["name"] = wanted
    for op in operators:
        op["inputs"] = [renamed.get(tensor, tensor) for tensor in op["inputs"]]


def list_weights(writer, operators):
    """Linears list a weight as torch does where one that is no linear, or no transpose, shares it."""
    alive = {op["name"]: op for op in operators}
    read = {w for op in operators if op["kind"] == "parameter" for w in op["weights"]}
    for weight, uses in writer.listings.items():
        uses = [(alive[name], listing) for name, listing in uses if name in alive]
        if weight in read or any(listing is not True for _, listing in uses):
            for op, listing in uses:
                if listing is True:
                    op["transpose_weight"] = True


def freeze(writer, operators):
    for op in operators:
        names = list(op.get("weights", [])) + op.get("_opaque_weights", [])
        known = [writer.parameters[n] for n in names if n in writer.parameters]
        if known and not any(p.requires_grad for p in known):
            op["frozen"] = True
        elif known and not all(p.requires_grad for p in known):
            writer.note(f"{op['name']}: only some of its weights are frozen, none is written so")


def label_repeats(module, operators):
    """Children of ModuleList and Sequential with equal operators get equal labels: "layers#.mlp.up", and
    "layers#2.mlp.up" for a second sort of children."""
    parts = {op["name"]: op["name"].split(".") for op in operators}
    within = {}  # path -> operators
    for op in operators:
        for depth in range(1, len(parts[op["name"]]) + 1):
            within.setdefault(tuple(parts[op["name"]][:depth]), []).append(op)
    containers = [p for p, m in module.named_modules() if isinstance(m, (nn.ModuleList, nn.Sequential))]
    for path in sorted(containers, key=lambda p: p.count(".")):
        prefix = path.split(".") if path else []
        groups = {}
        for index, child in module.get_submodule(path).named_children():
            ops = within.get((*prefix, index))
            if ops:
                groups.setdefault((type(child), structure(ops, len(prefix) + 1)), []).append(ops)
        repeated_groups = [members for members in groups.values() if len(members) > 1]
        for number, members in enumerate(repeated_groups, 1):
            for op in (op for ops in members for op in ops):
                parts[op["name"]][len(prefix)] = "#" if number == 1 else f"#{number}"
    for op in operators:
        label = ".".join(parts[op["name"]]).replace(".#", "#")  # layers#.mlp.up
        own = op.pop("_repeat", None)
        if own is not None:
            label = label if "#" in label else own
            label = re.sub(r"\.step\d+", ".step#", label)
        if "#" in label:
            op["repeat"] = label


def structure(operators, depth):
    """What makes children equal: names within the child, kinds, attributes but rates of dropout, shapes."""
    left_out = ("name", "inputs", "weights", "rate", "repeat", "_repeat", "_opaque_weights")
    return repr(
        [
            (op["name"].split(".")[depth:], {k: v for k, v in op.items() if k not in left_out})
            for op in operators
        ]
    )
