"""The table of torch functions and of what writes them, and their names."""

import dataclasses
import re

import torch
import torch.nn.functional as F


COMPARISONS = {"lt", "le", "gt", "ge"}
MOVES = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "getitem", "transpose", "permute", "expand",
         "contiguous", "to", "float", "long", "int", "clone", "detach", "unbind", "iter"}  # fmt: skip


def joined(path, name):
    return f"{path}.{name}" if path else name


NAMES = {
    "iadd": "add", "isub": "sub", "subtract": "sub", "imul": "mul", "multiply": "mul", "itruediv": "div",
    "truediv": "div", "divide": "div", "true_divide": "div", "rdiv": "rtruediv", "floor_divide": "floordiv",
    "imatmul": "matmul", "bmm": "matmul", "mm": "matmul", "ipow": "pow", "negative": "neg", "absolute": "abs",
    "clip": "clamp", "concat": "cat", "concatenate": "cat", "swapaxes": "transpose", "swapdims": "transpose",
    "moveaxis": "movedim", "split_with_sizes": "split", "reshape_as": "view", "view_as": "view",
    "reshape_alias": "view", "unsafe_view": "view", "clone": "contiguous", "to_copy": "contiguous",
    "native_dropout": "dropout", "feature_dropout": "dropout", "cross_entropy_loss": "cross_entropy",
    "native_batch_norm_legit": "native_batch_norm", "native_batch_norm_legit_functional": "native_batch_norm",
    "scaled_dot_product_flash_attention": "scaled_dot_product_attention",
    "scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
}  # fmt: skip


def function_name(label):
    """The table's name of a torch function: "add" for iadd, add_, __add__ and aten's add.Tensor."""
    name = label.split(".")[0].strip("_")
    return NAMES.get(name, name)


def opaque_name(label):
    known = any(hasattr(owner, label) for owner in (torch, F, torch.Tensor))
    label = label.strip("_")
    return re.sub(r"[^A-Za-z0-9_.]", "_", f"torch.{label}" if known else label)


WRITERS = {}


def writes(*names):
    """Puts a writer into the table. It is called as writer(at, *args, **kwargs) with the arguments of the torch
    function, tensors among them being Value, Data or Weight. It returns the result's Value, or None: opaque.
    """

    def put(writer):
        for name in names:
            WRITERS[name] = writer
        return writer

    return put


def dims_of(dim, rank):
    """Dims as non-negative numbers; all where `dim` is None or empty."""
    if dim is None or dim == () or dim == []:
        return list(range(rank))
    return [d % rank for d in (dim if isinstance(dim, (tuple, list)) else [dim])]


def each(value, count):
    """A list of `count` numbers from a number or a sequence."""
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * count if len(values) == 1 else values


def unless(default, **attributes):
    """Attributes that are not at their default everywhere."""
    return {k: v for k, v in attributes.items() if v != default and v != [default] * len(each(v, 1))}


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """A result that has no operator; using it is an error."""

    what: str
