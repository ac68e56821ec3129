"""Modules that are made and run without memory: tensors have a shape only."""

import contextlib
import dataclasses
import hashlib
import itertools
import weakref

import torch
import torch.fx
import torch.nn as nn
from torch.overrides import TorchFunctionMode, is_tensor_method_or_property

from .functions import COMPARISONS, MOVES, function_name, joined


LARGEST_CONSTANT = 1 << 16  # elements of a tensor that is really made, so that code may read its values

FACTORIES = {
    "arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "normal", "ones", "rand",
    "randint", "randn", "randperm", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip


FILLS = {"uniform_", "normal_", "fill_", "zero_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_",
         "xavier_uniform_", "xavier_normal_", "orthogonal_"}  # fmt: skip


@dataclasses.dataclass
class Origin:
    """Where a constant tensor comes from."""

    name: str = ""  # of the buffer that it was made of, or of the function that made it
    key: str = ""  # equal for constants made in the same way
    causal: bool = False  # torch.tril or torch.triu made it, or a comparison of positions
    counts: bool = False  # torch.arange made it
    zero: bool = False  # torch.zeros made it


class Weightless(TorchFunctionMode):
    """Under it parameters and large tensors have a shape only; small other tensors are real.

    It also remembers how constants were made, which names them in the file.
    """

    def __init__(self):
        super().__init__()
        self.place = lambda: ""  # path of the module that is traced
        self.substitutes = {}  # id of a constant -> what it became when traced tensors were assigned to it
        self._origins = {}  # id of a tensor -> a weak reference to it, its Origin
        self._count = itertools.count()
        self._patches = contextlib.ExitStack()

    def __enter__(self):
        make_parameter = nn.Parameter.__new__

        def weightless_parameter(cls, data=None, requires_grad=True):
            return make_parameter(cls, shape_only(data), requires_grad)

        self._patches.enter_context(replaced(nn.Parameter, "__new__", weightless_parameter))
        self._patches.enter_context(replaced(torch.jit, "script", lambda function, *a, **k: function))
        return super().__enter__()

    def __exit__(self, *raised):
        self._patches.close()
        return super().__exit__(*raised)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if self.substitutes:
            args, kwargs = mapped(lambda a: self.substitutes.get(id(a), a), (args, kwargs))
            owner = args[0] if args and is_tensor_method_or_property(function) else None
            if isinstance(owner, torch.fx.Proxy):
                return getattr(owner, name)(*args[1:], **kwargs)
        if name in FACTORIES:
            return self._made(function, args, kwargs)
        if name in FILLS and args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            return args[0]
        tensors = [t for t in flat((args, kwargs)) if isinstance(t, torch.Tensor)]
        if name in ("to", "cuda", "cpu") and tensors:
            args, kwargs = without_devices(args), {k: v for k, v in kwargs.items() if k != "device"}
            if name != "to" or len(args) + len(kwargs) == 1:
                return args[0]
        if len({t.device for t in tensors}) > 1:
            alike = shape_only if any(t.is_meta for t in tensors) else on_cpu
            args, kwargs = mapped(alike, (args, kwargs))
        if name == "__iter__":
            function = torch.Tensor.unbind
        result = function(*args, **kwargs)
        if name != "__get__":
            result = self._without_large(result, tensors)
            for i, part in enumerate(flat(result)):
                if isinstance(part, torch.Tensor):
                    self._remember(part, name, tensors, (i, args))
        return iter(result) if name == "__iter__" else result

    @staticmethod
    def _without_large(result, tensors):
        """Large results keep their shape only, but for tensors that were there before."""

        def kept(a):
            small = not isinstance(a, torch.Tensor) or a.numel() <= LARGEST_CONSTANT
            return a if small or any(a is t for t in tensors) else shape_only(a)

        large = any(isinstance(a, torch.Tensor) and a.numel() > LARGEST_CONSTANT for a in flat(result))
        return mapped(kept, result) if large else result

    def _made(self, function, args, kwargs):
        kwargs.pop("device", None)
        kwargs.pop("pin_memory", None)
        result = function(*args, **kwargs, device="meta")
        if result.numel() <= LARGEST_CONSTANT:
            result = function(*args, **kwargs)
        self.made(result, function.__name__)
        return result

    def made(self, tensor, label):
        """Calls a constant by the function that made it."""
        zero = label in ("zeros", "zeros_like", "new_zeros")
        self._set(tensor, joined(self.place(), label), counts=label == "arange", zero=zero)

    def name(self, tensor, name):
        """Calls a buffer by its path."""
        self._set(tensor, name, name, causal=self.origin(tensor).causal)

    def origin(self, tensor):
        """Where a tensor comes from, as far as it is known."""
        known, origin = self._origins.get(id(tensor), (None, None))
        return origin if known is not None and known() is tensor else Origin(key=f"#{id(tensor)}")

    def _set(self, tensor, name, key="", **known):
        origin = Origin(name, key or f"#{next(self._count)}", **known)
        self._origins[id(tensor)] = (weakref.ref(tensor), origin)

    def _remember(self, result, name, tensors, args):
        sources = [self.origin(t) for t in tensors]
        first = next((s for s in sources if s.name), None)
        label = function_name(name)
        counts = label in MOVES | {"add", "sub"} and bool(sources) and all(s.counts for s in sources)
        compared = label in COMPARISONS and len(sources) == 2 and all(s.counts for s in sources)
        square = result.dim() > 1 and result.shape[-1] == result.shape[-2]
        causal = label in ("tril", "triu") or (compared and square) or any(s.causal for s in sources)
        if any(result is t for t in tensors):
            origin = self.origin(result)
            self._set(result, origin.name, origin.key, causal=origin.causal or causal)
            return
        if first is None and not causal:
            return
        how = mapped(lambda a: self.origin(a).key if isinstance(a, torch.Tensor) else a, args)
        moved = first is not None and label in MOVES
        self._set(
            result,
            first.name if moved else joined(self.place(), label),
            digest(name, how) if first else "",
            causal=causal,
            counts=counts,
            zero=moved and first.zero,
        )


@contextlib.contextmanager
def replaced(owner, attribute, value):
    """Gives an attribute another value for a while."""
    own = attribute in vars(owner)
    before = vars(owner).get(attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, attribute, before)
        else:
            delattr(owner, attribute)


def digest(*what):
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def on_cpu(a):
    return a.cpu() if isinstance(a, torch.Tensor) else a


def shape_only(a):
    """A tensor of the same shape without memory. `to` would not do: Weightless keeps tensors where they are."""
    return torch.empty_like(a.detach(), device="meta") if isinstance(a, torch.Tensor) and not a.is_meta else a


def without_devices(args):
    return tuple(
        a for a in args if not isinstance(a, torch.device) and not (isinstance(a, str) and is_device(a))
    )


def is_device(text):
    return text.split(":")[0] in ("cpu", "cuda", "meta", "mps", "xpu")


def flat(value):
    """The leaves of nested tuples, lists, dicts and slices."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        yield from flat(list(value.values()))
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value


def mapped(function, value):
    """`value` with every leaf replaced."""
    if isinstance(value, (tuple, list)):
        items = [mapped(function, item) for item in value]
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: mapped(function, item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(mapped(function, v) for v in (value.start, value.stop, value.step)))
    return function(value)
