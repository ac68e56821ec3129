"""Proxies of torch.fx that know their shapes."""

import torch
import torch.fx

from .errors import CaptureError


SHAPE_OF_VALUES = {"nonzero", "masked_select", "unique", "unique_consecutive", "argwhere", "bincount"}
READS_VALUES = {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__"}
MAKES_CONSTANTS = {
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor",
}  # fmt: skip


class ReadsValues(Exception):
    """A module asked for numbers of a tensor that has only a shape."""


class TensorProxy(torch.fx.Proxy):
    """Stands for a tensor while a module is traced. Shape, type and device are known; values are not."""

    @property
    def value(self):
        return self.node.meta["value"]

    def __getattr__(self, name):
        if name == "data":
            return self
        if name in ("T", "mT"):
            order = list(range(self.value.dim()))
            order = order[::-1] if name == "T" else order[:-2] + [order[-1], order[-2]]
            return self.permute(order)
        found = getattr(torch.Tensor, name)
        if callable(found):
            return lambda *args, **kwargs: self.tracer.create_proxy(
                "call_method", name, (self,) + args, kwargs
            )
        value = getattr(self.value, name)
        if isinstance(value, torch.Tensor):
            return self.tracer.create_proxy("call_function", getattr, (self, name), {})
        return value

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return iter(self.unbind(0))

    def __bool__(self):
        raise ReadsValues("a branch on values of a tensor")

    def __int__(self):
        raise ReadsValues("a number read from a tensor")

    __float__ = __index__ = __int__

    def __setitem__(self, key, value):
        index = list(key) if isinstance(key, tuple) else [key]
        if any(i is None or not isinstance(i, (int, slice, type(...))) for i in index):
            raise CaptureError("an assignment to chosen elements of a tensor, allowed: numbers and slices")
        shape = self[key].shape
        if not isinstance(value, (torch.Tensor, torch.fx.Proxy)):
            value = torch.full((), float(value))
        if value.shape != shape:
            value = value.expand(shape)
        self.node = assigned(
            self, whole_slices(index, self.shape), value.reshape(self[kept_dims(index)].shape)
        ).node


def kept_dims(index):
    """The index with slices of length 1 in place of numbers."""
    return tuple(slice(i, i + 1 if i != -1 else None) if isinstance(i, int) else i for i in index)


def whole_slices(index, shape):
    """A (start, stop) for every dim."""
    index = list(kept_dims(index))
    if Ellipsis not in index:
        index.append(Ellipsis)
    place = index.index(Ellipsis)
    index[place : place + 1] = [slice(None)] * (len(shape) - len(index) + 1)
    bounds = [i.indices(n) for i, n in zip(index, shape)]
    if any(step != 1 for _, _, step in bounds):
        raise CaptureError("an assignment to every other element of a tensor, allowed: slices of step 1")
    return [(start, stop) for start, stop, _ in bounds]


def assigned(x, bounds, value, axis=0):
    """x with `value` in a box, put together from slices."""
    while axis < len(bounds) and bounds[axis] == (0, x.shape[axis]):
        axis += 1
    if axis == len(bounds):
        return value
    start, stop = bounds[axis]
    parts = [(0, start), (start, stop), (stop, x.shape[axis])]
    parts = [x[(slice(None),) * axis + (slice(a, b),)] if a < b else None for a, b in parts]
    parts[1] = assigned(parts[1], bounds, value, axis + 1)
    return torch.cat([p for p in parts if p is not None], axis)
