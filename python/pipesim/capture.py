#!/usr/bin/env python3
"""Writes a PyTorch module as a model file of pipesim.

    python -m pipesim.capture my_module:make_model --input 'int64[8,1024]' -o model.json

Nothing is computed and no weight takes memory: modules are made and run with tensors that have a shape only.
The file also runs alone, `python capture.py …`, and needs torch 1.13 or later.

How it works, from top to bottom of this file:

    Weightless      modules made under it take no memory
    ModuleTracer    torch.fx, with proxies that know their shapes: a graph of calls
    exported_graph  the same by torch.export
    ModelWriter     goes through the calls and writes operators, with the writers of a table
    writers         one function for each torch function; `writes` puts it into the table
    finished        drops what no result needs, shares weights, finds repeats
    capture, write  for use in notebooks
    main            the command
"""

import argparse
import contextlib
import copy
import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import json
import math
import operator
import os
import re
import sys
import tempfile
import warnings
import weakref

try:
    import torch
    import torch.fx
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.nn.parameter import is_lazy
    from torch.overrides import TorchFunctionMode, is_tensor_method_or_property
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"capture: torch 1.13 or later is needed: {error}")


class CaptureError(Exception):
    """What is wrong with a module or with the command, in one line."""


# ---------------------------------------------------------------------------------------------------------
# Modules without memory

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


# ---------------------------------------------------------------------------------------------------------
# Tracing by torch.fx

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


class ModuleTracer(torch.fx.Tracer):
    """Traces a module. Each node's `meta` has `value` (its result on tensors without values), `path` (of the
    module that made the call), `leaf` (that module is one of torch.nn without children) and `line`."""

    def __init__(self, weightless):
        super().__init__()
        self.weightless = weightless
        self.stack = []
        self.failed_at = None  # path of the module in which the first error occurred
        self._computing = False
        self._constants = {}

    def traced(self, module, inputs, names):
        """The graph of module(*inputs, **names); inputs are tensors."""
        self._paths = {m: path for path, m in reversed(list(module.named_modules(remove_duplicate=False)))}
        self._parameters = {}
        for path, parameter in module.named_parameters():
            self._parameters.setdefault(id(parameter), (path, parameter))
        for path, buffer in module.named_buffers():
            self.weightless.name(buffer, path)
        self._inputs, self._names = inputs, names
        follow_einops()
        self.weightless.place = lambda: self.stack[-1] if self.stack else ""
        try:
            with replaced(torch.autograd.Function, "apply", self._function_apply()), followed_functions():
                return self.trace(module)
        finally:
            self.weightless.place = lambda: ""
            self.weightless.substitutes = {}

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        labels = iter(input_labels(self.root, self._inputs, self._names))

        def placeholder(value):
            if not isinstance(value, torch.Tensor):
                return value
            name = next(labels)
            node = self.create_node("placeholder", name, (), {})
            return self._proxy_of(node, shape_only(value), name)

        inputs, names = mapped(placeholder, (tuple(self._inputs), dict(self._names)))
        root = self.root

        def forward():
            self.stack.append("")
            result = self._forward(root, inputs, names)
            self.stack.pop()
            return result

        return forward, []

    def call_module(self, module, forward, args, kwargs):
        if self._computing:
            return forward(*args, **kwargs)
        self.stack.append(self._paths.get(module, self.stack[-1] if self.stack else ""))
        try:
            result = self._forward(module, args, kwargs, forward)
        except Exception:
            if self.failed_at is None:
                self.failed_at = self.stack[-1]
            raise
        finally:
            self.stack.pop()
        return result

    @staticmethod
    def _forward(module, args, kwargs, forward=None):
        for condition, instead in MODULE_CALLS:
            if condition(module, args):
                return instead(module, *args, **kwargs)
        return (forward or module.forward)(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        if self._computing or not isinstance(attr_val, nn.Parameter):
            return attr_val
        if id(attr_val) not in self._parameters:
            return attr_val
        return TensorProxy(self._parameter_node(attr_val), self)

    def proxy(self, node):
        return TensorProxy(node, self)

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        name = f"{kind}_{len(self.graph.nodes)}"  # torch.fx looks long for free names
        return super().create_node(kind, target, args, kwargs, name, type_expr)

    def create_arg(self, a):
        a = self.weightless.substitutes.get(id(a), a)
        if isinstance(a, torch.fx.Proxy):
            return a.node
        if isinstance(a, nn.Parameter) and id(a) in self._parameters:
            return self._parameter_node(a)
        if isinstance(a, torch.Tensor):
            return self._constant_node(a)
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            a = {f.name: getattr(a, f.name) for f in dataclasses.fields(a)}
        if isinstance(a, (tuple, list, dict, slice)):
            return mapped(self.create_arg, a)
        return a

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        label = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        if label in READS_VALUES:
            raise ReadsValues("a number read from a tensor")
        if label == "__setitem__":
            return self._substituted(args[0]).__setitem__(*args[1:])
        if (
            label in SHAPE_OF_VALUES
            or (label == "getitem" and chooses(args[1]))
            or (label == "where" and len(args) + len(kwargs) == 1)
        ):
            raise ReadsValues("a shape that depends on values of a tensor")
        function = target if kind == "call_function" else getattr(torch.Tensor, label)
        values = self._computed(function, args, kwargs)
        if label in MAKES_CONSTANTS:
            self.weightless.made(values, label)
            return values
        if not any(isinstance(v, torch.Tensor) for v in flat(values)):
            return values
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)))
        result = self._proxy_of(node, values, label)
        if in_place(kind, label):
            changed = self._substituted(args[0])
            changed.node = result.node
            return changed
        return result

    def iter(self, obj):
        return iter(obj.unbind(0))

    def to_bool(self, obj):
        raise ReadsValues("a branch on values of a tensor")

    def _proxy_of(self, node, value, label):
        node.meta.update(value=value, path=self.stack[-1] if self.stack else "", label=label)
        node.meta["leaf"] = self._is_leaf(node.meta["path"])
        node.meta["line"] = user_line(inspect.currentframe())
        if isinstance(value, torch.Tensor):
            return TensorProxy(node, self)
        parts = []
        for i, part in enumerate(value):
            if isinstance(part, (torch.Tensor, tuple, list)):
                item = self.create_node("call_function", operator.getitem, (node, i), {})
                parts.append(self._proxy_of(item, part, "getitem"))
            else:
                parts.append(part)
        return named_results(value, parts)

    def _substituted(self, tensor):
        """The proxy that stands for a tensor from now on: for a constant that is assigned to, one is made."""
        if isinstance(tensor, torch.fx.Proxy):
            return tensor
        proxy = TensorProxy(self._constant_node(tensor), self)
        self.weightless.substitutes[id(tensor)] = proxy
        return proxy

    def _is_leaf(self, path):
        module = self.root.get_submodule(path) if path else self.root
        known = type(module).__module__.startswith("torch.nn.") or is_rms_norm(module)
        return known and not any(module.children())

    def _parameter_node(self, parameter):
        path, _ = self._parameters[id(parameter)]
        if id(parameter) not in self._constants:
            node = self.create_node("get_attr", path, (), {})
            node.meta.update(value=shape_only(parameter), parameter=parameter)
            self._constants[id(parameter)] = node
        return self._constants[id(parameter)]

    def _constant_node(self, tensor):
        if id(tensor) not in self._constants:
            node = self.create_node("get_attr", "constant", (), {})
            path = self.stack[-1] if self.stack else ""
            node.meta.update(value=tensor, constant=self.weightless.origin(tensor), path=path)
            self._constants[id(tensor)] = node
        return self._constants[id(tensor)]

    def _computed(self, function, args, kwargs):
        """The call's result on tensors without values."""
        values = mapped(lambda a: a.value if isinstance(a, torch.fx.Proxy) else a, (tuple(args), kwargs))
        args, kwargs = mapped(shape_only, values)
        before, self._computing = self._computing, True
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for special in (cross_entropy_shape, repeat_interleave_shape, max_pool3d_shape):
                    shape = special(function, *args, **kwargs)
                    if shape is not None:
                        return shape
                try:
                    return function(*args, **kwargs)
                except NotImplementedError:
                    return self._computed_with_zeros(function, args, kwargs)
        finally:
            self._computing = before

    @staticmethod
    def _computed_with_zeros(function, args, kwargs):
        """For functions that need values. Refuses results whose shapes may depend on them."""
        size = sum(t.numel() for t in flat((args, kwargs)) if isinstance(t, torch.Tensor))
        if size > 1 << 26:
            raise CaptureError(
                f"torch.{function.__name__} has no rule for shapes, and its {size} elements are too many to try"
            )
        real = mapped(
            lambda a: torch.zeros(a.shape, dtype=a.dtype) if isinstance(a, torch.Tensor) else a,
            (args, kwargs),
        )
        result = mapped(shape_only, function(*real[0], **real[1]))
        if any(t.numel() == 0 for t in flat(result) if isinstance(t, torch.Tensor)):
            raise ReadsValues("a shape that depends on values of a tensor")
        return result

    def _function_apply(self):
        """Takes the place of torch.autograd.Function.apply: the function becomes one call, except that
        checkpoints are followed."""
        tracer = self

        def apply(cls, *args):
            if cls.__name__ == "CheckpointFunction":
                return args[0](*args[2:])

            def run(*values):
                return cls.forward(FunctionContext(), *values)

            run.__name__ = cls.__name__
            if any(isinstance(a, torch.fx.Proxy) for a in flat(args)):
                return tracer.create_proxy("call_function", run, args, {})
            return run(*args)

        return classmethod(apply)


class FunctionContext:
    """The `ctx` of an autograd function that only runs forward."""

    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def __getattr__(self, name):
        if name.startswith(("mark_", "set_")):
            return lambda *args, **kwargs: None
        raise AttributeError(name)


def chooses(index):
    """Whether an index is a mask."""
    return any(
        isinstance(i, (torch.Tensor, torch.fx.Proxy)) and i.dtype in (torch.bool, torch.uint8)
        for i in flat(index)
    )


def follow_einops():
    """Lets einops, if a module uses it, take proxies for the tensors that they stand for."""
    backends = sys.modules.get("einops._backends")
    if backends is not None:
        backends.TorchBackend.is_appropriate_type = lambda self, a: isinstance(
            a, (torch.Tensor, torch.fx.Proxy)
        )


@contextlib.contextmanager
def followed_functions():
    """Functions of torchvision that are kept whole by torch.fx.wrap are followed, but those of the table."""
    wrapped = torch.fx._symbolic_trace._wrapped_fns_to_patch
    before = wrapped.copy()

    def kept(scope, name):
        return name in WRITERS or not scope.get("__name__", "").startswith("torchvision.")

    if isinstance(wrapped, dict):
        left = {key: scope for key, scope in before.items() if kept(scope, key[1])}
    else:
        left = [entry for entry in before if kept(*entry)]
    wrapped.clear()
    (wrapped.update if isinstance(wrapped, dict) else wrapped.extend)(left)
    try:
        yield
    finally:
        wrapped.clear()
        (wrapped.update if isinstance(wrapped, dict) else wrapped.extend)(before)


def cross_entropy_shape(function, *args, reduction="mean", **kwargs):
    """A scalar; torch 1.13 has no rule for it with several dims."""
    if function in (F.cross_entropy, F.nll_loss) and reduction != "none":
        return torch.empty((), dtype=torch.float32, device="meta")
    return None


def repeat_interleave_shape(function, *args, **kwargs):
    if getattr(function, "__name__", "") != "repeat_interleave":
        return None

    def shape(input, repeats, dim=None, **_):
        if not isinstance(repeats, int):
            raise ReadsValues("a shape that depends on values of a tensor")
        input = input.flatten() if dim is None else input
        return torch.cat([input] * repeats, 0 if dim is None else dim)

    return shape(*args, **kwargs)


def max_pool3d_shape(function, *args, **kwargs):
    """torch 1.13 has no rule for it."""
    if getattr(function, "__name__", "") != "max_pool3d":
        return None

    def shape(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            return None
        kernel, pad, spread = (each(v, 3) for v in (kernel_size, padding, dilation))
        steps = each(stride, 3) if stride not in (None, [], ()) else kernel
        spatial = [pooled(*v, ceil_mode) for v in zip(input.shape[-3:], kernel, steps, pad, spread)]
        return input.new_empty((*input.shape[:-3], *spatial))

    return shape(*args, **kwargs)


def pooled(size, kernel, stride, pad, dilation, ceil):
    """Windows along one dim, as torch counts them."""
    room = size + 2 * pad - dilation * (kernel - 1) - 1
    windows = room // stride + 1 if not ceil else -(-room // stride) + 1
    return windows - 1 if ceil and (windows - 1) * stride >= size + pad else windows


def in_place(kind, label):
    return kind == "call_method" and label.endswith("_") and not label.endswith("__")


def named_results(value, parts):
    """A tuple of proxies with the names of the tuple that torch returns, such as `values`."""
    names = [n for n in dir(value) if not n.startswith("_") and not callable(getattr(value, n))]
    result = type("Results", (tuple,), {})(parts)
    for name in names:
        for i, part in enumerate(value):
            if getattr(value, name) is part:
                setattr(result, name, parts[i])
    return result


NOT_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(contextlib.__file__) + os.sep, "<")


def is_users(path):
    """Whether a source file is neither torch's, nor Python's, nor this one."""
    installed = "-packages" + os.sep in path
    return path != __file__ and not path.startswith(NOT_USERS[0] if installed else NOT_USERS)


def user_line(frame):
    """The innermost line that is one of the user's: "model.py:41"."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_users(name):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def input_labels(module, inputs, names):
    """A name for every tensor of the inputs: the parameters of forward."""
    signature = inspect.signature(module.forward)
    labels = []
    try:
        bound = signature.bind(*inputs, **names).arguments
    except TypeError as error:
        raise CaptureError(f"inputs do not fit {type(module).__name__}.forward{signature}: {error}") from None
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            labels += [key for key, v in value.items() for t in flat(v) if isinstance(t, torch.Tensor)]
            continue
        tensors = [t for t in flat(value) if isinstance(t, torch.Tensor)]
        many = len(tensors) > 1 or kind is inspect.Parameter.VAR_POSITIONAL
        labels += [f"{name}.{i}" if many else name for i in range(len(tensors))]
    return labels


def is_rms_norm(module):
    """A module that is called RMS norm and has one weight, of one dim."""
    if re.search(r"rms_?norm", type(module).__name__, re.IGNORECASE) is None:
        return False
    parameters = list(module.parameters())
    return len(parameters) == 1 and parameters[0].dim() == 1


def norms_last_dim(module, args):
    return is_rms_norm(module) and len(args) == 1 and args[0].shape[-1:] == next(module.parameters()).shape


def rms_norm_function(input, weight):
    return input * weight


rms_norm_function.__name__ = "rms_norm"


def call_rms_norm(module, input):
    (weight,) = module.parameters()
    return input.tracer.create_proxy("call_function", rms_norm_function, (input, weight), {})


def call_batch_norm(module, input):
    return F.batch_norm(
        input, module.running_mean, module.running_var, module.weight, module.bias, training=True
    )


# Modules that are not followed: a condition on the module and its arguments, and what is called instead.
MODULE_CALLS = [
    (lambda module, args: isinstance(module, nn.modules.batchnorm._BatchNorm), call_batch_norm),
    (norms_last_dim, call_rms_norm),
]


def traced_graph(module, inputs, names, weightless):
    """The module as a graph of calls; CaptureError names the module and the line that cannot be followed."""
    tracer = ModuleTracer(weightless)
    try:
        with weightless, torch.no_grad():
            return tracer.traced(module, inputs, names)
    except Exception as error:
        line = line_of(error)
        place = (tracer.failed_at or "the module") + (f" ({line})" if line else "")
        if isinstance(error, ReadsValues):
            why = f"{error}, allowed: branches and loops that depend on shapes and constants only"
        elif isinstance(error, CaptureError) and tracer.failed_at is None and not tracer.stack:
            raise
        else:
            why = str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        raise CaptureError(f"{place}: {one_line(why)}") from error


def line_of(error):
    """The innermost line of a traceback that is one of the user's."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if is_users(name):
            found = f"{os.path.basename(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def one_line(text):
    return " ".join(str(text).split())


# ---------------------------------------------------------------------------------------------------------
# Tracing by torch.export


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


# ---------------------------------------------------------------------------------------------------------
# The model file while it is written


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the model: the result of an operator, or a floating-point input."""

    name: str
    shape: tuple
    others: tuple = ()  # losses that were added to this one


@dataclasses.dataclass(frozen=True)
class Data:
    """A tensor made of integers that come in, or of constants: it becomes an input where an operator uses it."""

    name: str
    shape: tuple
    dtype: torch.dtype
    key: str
    causal: bool = False
    number: float = None  # of a constant with one element
    zero: bool = False


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter, or the transpose of one with two dims."""

    name: str
    shape: tuple
    transposed: bool = False


def is_number(a):
    return isinstance(a, (int, float)) or (isinstance(a, Data) and a.number is not None)


def number_of(a):
    value = a.number if isinstance(a, Data) else float(a)
    return max(-3e38, min(3e38, value))


class ModelWriter:
    """Turns a graph of calls into inputs and operators. Writers of the table get it as `at`: at.shape is the
    shape of the call's result, at.op adds an operator."""

    def __init__(self, batch, dtype, anywhere=False):
        self.batch = batch
        self.anywhere = anywhere  # the batch may be another dim than the first
        self.dtype = dtype
        self.inputs = {}  # name -> entry of the file
        self.operators = {}  # name -> entry of the file
        self.parameters = {}  # name -> torch.nn.Parameter
        self.listings = {}  # parameter -> (operator, True where its weight is listed as torch does), …
        self.notes = []
        self.opaque = {}  # what -> first place
        self._read = {}  # parameter -> the Value of the operator that reads it
        self._counted = set()  # parameters that an opaque operator counts
        self._names = set()
        self._numbers = {}  # name -> the last number that was appended to it
        self._data = {}
        self._wanted = {}  # input -> the name that it would have if that were free
        self._uses = {}
        self._producer = {}  # tensor -> operator
        self._values = {}  # tensor -> Value

    # Going through the graph

    def write(self, graph):
        """Writes all calls; returns the names of the results."""
        env = {}
        for node in graph.nodes:
            if node.op == "output":
                return self._results(env, node)
            env[node] = self._written(node, env)
            if isinstance(env[node], Value):
                self._uses[env[node].name] = self._uses.get(env[node].name, 0) + len(node.users)
        return []

    def _results(self, env, node):
        values = [
            env.get(leaf) if isinstance(leaf, torch.fx.Node) else leaf for leaf in flat(list(node.args))
        ]
        names = []
        for value in flat(values):
            if isinstance(value, Value) and value.name in self._producer:
                names += [value.name, *value.others]
        if not names:
            raise CaptureError("the module returns no tensor that it computes from floating-point numbers")
        return names

    def _written(self, node, env):
        meta = node.meta
        if "parameter" in meta:
            name = meta["label"] if node.op == "placeholder" else node.target
            self.parameters[name] = meta["parameter"]
            return Weight(name, tuple(meta["value"].shape))
        if "constant" in meta:
            return self._constant(meta)
        if node.op == "placeholder":
            return self._input(meta)
        if not shapes_of(meta["value"]):
            return meta["value"]
        label = function_name(meta["label"])
        args, kwargs = mapped(
            lambda a: env[a] if isinstance(a, torch.fx.Node) else a, (node.args, node.kwargs)
        )
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        return self._call(node, label, args, kwargs)

    def _call(self, node, label, args, kwargs):
        operands = [a for a in flat((args, kwargs)) if isinstance(a, (Value, Data, Weight))]
        results = node.meta["value"]
        self._begin(node, label)
        if all(isinstance(a, Data) for a in operands):
            return self._data_of(results, label, operands, (args, kwargs))
        if isinstance(results, torch.Tensor) and results.dim() == 0:
            losses = [a for a in operands if isinstance(a, Value) and a.shape == ()]
            if losses and all(a.shape in ((), (1,)) for a in operands):
                return sum_of_losses(losses)
        for a in flat((args, kwargs)):
            if isinstance(a, Unavailable):
                raise CaptureError(f"{self.where}: {label} needs {a.what}")
        kwargs = {k: v for k, v in kwargs.items() if k not in ("out", "inplace", "_stacklevel")}
        written = self._by_table(label, args, kwargs)
        if isinstance(written, Value) and not isinstance(results, torch.Tensor):
            written = (written, *(Unavailable(f"result {i} of it") for i in range(1, len(results))))
        if written is not None and self._fits(written, results):
            return written
        if written is not None:
            self.note(
                f"{self.where}: {label} is opaque, its writer made other shapes; this is a bug in capture"
            )
        return self.write_opaque(operands, (args, kwargs))

    def _by_table(self, label, args, kwargs):
        """What the function's writer makes of the call; None where there is none, or it does not fit."""
        writer = WRITERS.get(label)
        if writer is None or not accepts(writer, self, *args, **kwargs):
            return None
        try:
            return writer(self, *args, **kwargs)
        except CaptureError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            self.note(
                f"{self.where}: {label} is opaque, its writer failed with {why}; this is a bug in capture"
            )
            return None

    def _begin(self, node, label):
        meta = node.meta
        self.label = meta["label"]
        self.where = f"{meta['path'] or 'the module'}" + (f" ({meta['line']})" if meta.get("line") else "")
        self.base = meta["path"] if meta["leaf"] and meta["path"] else joined(meta["path"], label)
        self.path = meta["path"]
        value = meta["value"]
        self.shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
        self.shapes = shapes_of(value)
        items = [
            u for u in node.users if u.target is operator.getitem and u.users and isinstance(u.args[1], int)
        ]
        self.used = {u.args[1] for u in items}  # of several results, those that something uses

    @staticmethod
    def _fits(written, results):
        found = [written] if isinstance(written, (Value, Weight)) else list(flat(written))
        shapes = shapes_of(results)
        scalars = ((), (1,))
        return all(
            v.shape == s or (v.shape in scalars and s in scalars)
            for v, s in zip(found, shapes)
            if isinstance(v, (Value, Weight))
        )

    # Inputs

    def _input(self, meta):
        value, name = meta["value"], meta["label"]
        self._names.add(name)
        shape = tuple(value.shape)
        if not value.is_floating_point():
            return Data(name, shape, value.dtype, key=name)
        return self._entered(name, shape, None)

    def _entered(self, name, shape, dtype):
        """A new input. Samples are its first dim; where torch has them elsewhere, a transpose follows."""
        place = shape.index(self.batch) if self.anywhere and self.batch in shape else 0
        order = [place] + [i for i in range(len(shape)) if i != place] if shape else []
        self.inputs[name] = {"name": name, "shape": [shape[i] for i in order]}
        if dtype is not None:
            self.inputs[name]["dtype"] = dtype
        if place == 0:
            return Value(name, shape)
        back = [order.index(i) for i in range(len(shape))]
        first = Value(name, tuple(self.inputs[name]["shape"]))
        return self.op("transpose", [first], shape, name=f"{name}.transpose", order=back)

    def _constant(self, meta):
        origin, value = meta["constant"], meta["value"]
        name = origin.name or joined(meta.get("path", ""), "constant")
        number = None
        if value.numel() == 1:
            number = 1.0 if value.is_meta else float(value)
        causal = origin.causal or is_causal_mask(value)
        return Data(name, tuple(value.shape), value.dtype, origin.key, causal, number, origin.zero)

    def _data_of(self, results, label, operands, call):
        """What is made of data and constants is data."""
        causal = label in ("tril", "triu") or any(a.causal for a in operands)
        moved = operands and (label in MOVES or not self.path)
        name = operands[0].name if moved else joined(self.path, label)

        def made(value, i=""):
            key = digest(label, i, call)
            if value.numel() == 1 and all(a.number is not None for a in operands):
                return Data(name, tuple(value.shape), value.dtype, key, causal, 1.0)
            return Data(name, tuple(value.shape), value.dtype, key, causal)

        if isinstance(results, torch.Tensor):
            return made(results)
        return tuple(made(value, i) for i, value in enumerate(results))

    def data(self, name, shape, dtype=None, key=None, content=None):
        """A new input; the model's type where dtype is None. Equal keys stand for one input."""
        key = (key or name, tuple(shape), dtype)
        if key not in self._data:
            own = key[0] == name and name not in self.inputs
            unique = name if own else self.unique(name)
            self._names.add(unique)
            self._wanted[unique] = name
            self._data[key] = self._entered(unique, tuple(shape), dtype)
            if content is not None:
                self.inputs[unique]["content"] = content
        return self._data[key]

    def value(self, a):
        """An operand as a tensor of the model: data become an input, a parameter becomes an operator."""
        if isinstance(a, Value):
            return a
        if isinstance(a, Data):
            floating = a.dtype.is_floating_point or a.dtype.is_complex
            name = {torch.bool: "uint8", torch.int16: "int32", torch.int8: "uint8"}.get(
                a.dtype, str(a.dtype).replace("torch.", "")
            )
            if a.causal:
                content = "causal_mask" if floating else None
                return self.data(causal_name(a.name), a.shape, None if floating else name, "causal", content)
            return self.data(a.name, a.shape, None if floating else name, a.key)
        if isinstance(a, Weight):
            read = self._parameter(a.name, a.shape[::-1] if a.transposed else a.shape)
            return self.transposed(read, (1, 0)) if a.transposed else read
        raise CaptureError(f"{self.where}: {a!r} is no tensor; this is a bug in pipesim.capture")

    def _parameter(self, name, shape):
        """The operator that gives a parameter's value; one for all that read it."""
        if name not in self._read:
            shape = shape or (1,)
            more = {"weights": [name], "name": name + ".value", "attributes": {"shape": list(shape)}}
            self._read[name] = self.op("parameter", [], shape, **more)
        return self._read[name]

    def floating(self, a):
        """The same for operands that are computed with: integers and masks come in as floating point."""
        if isinstance(a, Data) and not a.dtype.is_floating_point:
            return self.data(a.name, a.shape, None, a.key + ":float")
        return self.value(a)

    def mask(self, a):
        """What is added to scores in place of a mask of booleans or of numbers."""
        if not isinstance(a, Data):
            return self.value(a)
        if a.causal:
            return self.data(causal_name(a.name), a.shape, None, "causal:mask", "causal_mask")
        return self.data(a.name, a.shape, None, a.key + ":mask")

    # Operators

    def unique(self, name):
        result = name
        while result in self._names:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            result = f"{name}_{self._numbers[name]}"
        self._names.add(result)
        return result

    def op(self, kind, inputs, shape, weights=(), part="", name="", parts=None, attributes=None, **more):
        """Adds an operator and returns its result, or results where `shape` is a list of shapes. Its name is
        that of the call, and _part where one call takes several operators. `parts`: what pipesim calls the
        results, 0, 1, … if left out."""
        name = self.unique(name or (f"{self.base}_{part}" if part else self.base))
        entry = {"name": name, "kind": kind, "inputs": [self.value(a).name for a in inputs]}
        if weights:
            entry["weights"] = list(weights)
        entry.update(more)
        entry.update(attributes or {})
        self.operators[name] = entry
        shapes = shape if isinstance(shape, list) else [shape]
        entry["_shapes"] = [tuple(s) for s in shapes]
        entry["_reads"] = [self.tensor(tensor).shape for tensor in entry["inputs"]]
        parts = parts or range(len(shapes))
        results = tuple(
            Value(name if len(shapes) == 1 else f"{name}.{p}", tuple(s)) for p, s in zip(parts, shapes)
        )
        for result in results:
            self._producer[result.name] = name
            self._values[result.name] = result
            self._names.add(result.name)
        return results if isinstance(shape, list) else results[0]

    def maker(self, value, kind):
        """The operator that made a value, if it is of this kind."""
        entry = self.operators.get(self._producer.get(value.name, ""))
        return entry if entry is not None and entry["kind"] == kind else None

    def tensor(self, name):
        """The value that has this name."""
        return self._values.get(name) or Value(name, tuple(self.inputs[name]["shape"]))

    def reshaped(self, x, shape, part=""):
        """x under another shape; the last of several reshapes counts."""
        x, shape = self.value(x), tuple(shape)
        while self.maker(x, "reshape"):
            x = self.tensor(self.maker(x, "reshape")["inputs"][0])
        if x.shape == shape:
            return x
        return self.op("reshape", [x], shape, part=part, attributes={"shape": list(shape)})

    def transposed(self, x, order, part=""):
        """x with its dims in another order; two that follow each other are one."""
        x, order = self.value(x), list(order)
        made = self.maker(x, "transpose")
        if made:
            x = self.tensor(made["inputs"][0])
            order = [made["order"][i] for i in order]
        if order == list(range(len(order))):
            return x
        return self.op("transpose", [x], tuple(x.shape[i] for i in order), part=part, order=order)

    def expanded(self, x, shape, part="expand"):
        x, shape = self.value(x), tuple(shape)
        if x.shape == shape:
            return x
        return self.op("expand", [x], shape, part=part, attributes={"shape": list(shape)})

    def affine(self, x, factor, offset=0.0, part=""):
        """factor · x + offset; folds into one that came just before."""
        made = self.maker(x, "affine")
        if made and self._uses.get(x.name, 0) <= 1:
            offset += factor * made.get("offset", 0.0)
            factor *= made.get("factor", 1.0)
            x = self.tensor(made["inputs"][0])
        if factor == 1 and offset == 0:
            return x
        attributes = {"factor": float(factor)} if factor != 1 else {}
        if offset != 0:
            attributes["offset"] = float(max(-3e38, min(3e38, offset)))
        return self.op("affine", [x], x.shape, part=part, attributes=attributes)

    def power(self, x, exponent, part=""):
        if exponent == 1:
            return x
        if exponent == 0.5:
            return self.op("sqrt", [x], x.shape, part=part)
        if exponent == -1:
            return self.op("reciprocal", [x], x.shape, part=part)
        return self.op("power", [x], x.shape, part=part, exponent=float(exponent))

    def reduced(self, x, dims, mode, part="", keepdim=False):
        """Sum, mean or largest element over dims; keepdim gives the shape of torch's."""
        kept = tuple(n for i, n in enumerate(x.shape) if i not in dims)
        result = self.op("reduce", [x], kept, part=part, axes=sorted(dims), mode=mode)
        if not keepdim:
            return result
        return self.reshaped(result, [1 if i in dims else n for i, n in enumerate(x.shape)], "keepdim")

    def write_opaque(self, operands, call):
        """A call that no kind stands for: known by its shapes."""
        what, shapes = opaque_name(self.label), self.shapes
        if not shapes or len(shapes) > 4:
            raise CaptureError(f"{self.where}: {what} has {len(shapes)} results, allowed: 1 to 4")
        self.opaque.setdefault(what, self.where)
        values = [self.value(a) for a in operands if not isinstance(a, Weight)]
        names = list(dict.fromkeys(a.name for a in operands if isinstance(a, Weight)))
        weights = [name for name in names if name not in self._counted]  # those of a call before are shared
        self._counted.update(weights)
        attributes = {"what": what}
        for i, shape in enumerate(shapes):
            attributes["shape" if i == 0 else f"shape{i + 1}"] = list(shape) or [1]
        if self._by_sample(values, call):
            attributes["samples"] = 1
        if weights:
            attributes["parameters"] = sum(self.parameters[name].numel() for name in weights)
        result = self.op("opaque", values, [s or (1,) for s in shapes], attributes=attributes)
        self.operators[self._producer[result[0].name]]["_opaque_weights"] = names
        if shapes == [()]:  # a loss has no dim
            return self.reduced(result[0], [0], "sum", part="scalar")
        return result[0] if len(result) == 1 else result

    def _by_sample(self, values, call):
        """Whether a call is known to work on each sample by itself: its first dim stays, and is none of its dims."""
        whole = [v.shape for v in values] + self.shapes
        dims = [a for a in flat(call) if isinstance(a, int) and not isinstance(a, bool)]
        return (
            function_name(self.label) in BY_SAMPLE
            and all(len(s) > 1 and s[0] == self.batch for s in whole)
            and all(d != 0 and d != -len(whole[0]) for d in dims)
        )

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)


COMPARISONS = {"lt", "le", "gt", "ge"}
MOVES = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "getitem", "transpose", "permute", "expand",
         "contiguous", "to", "float", "long", "int", "clone", "detach", "unbind", "iter"}  # fmt: skip

# Functions that compute each sample by itself and each element's place in it alone.
BY_SAMPLE = {
    "argmax", "argsort", "bucketize", "celu", "ceil", "cumprod", "cumsum", "eq", "flip", "floor", "floordiv", "ge",
    "gt", "isnan", "le", "log1p", "expm1", "lt", "mod", "ne", "nan_to_num", "prelu", "remainder", "round", "sign",
    "sort", "tan", "atan", "where", "topk", "unfold", "grid_sample", "fmod", "atan2", "one_hot", "softshrink",
    "hardshrink", "threshold", "erfinv", "sinh", "cosh", "asin", "acos", "local_response_norm", "cdist", "prod",
    "gather", "take_along_dim", "scatter", "index_select",
}  # fmt: skip


def accepts(function, *args, **kwargs):
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def causal_name(name):
    return joined(name.rpartition(".")[0], "causal_mask")


def joined(path, name):
    return f"{path}.{name}" if path else name


def shapes_of(value):
    return [tuple(t.shape) for t in flat(value) if isinstance(t, torch.Tensor)]


def sum_of_losses(losses):
    names = [name for loss in losses for name in (loss.name, *loss.others)]
    names = list(dict.fromkeys(names))
    return Value(names[0], (), tuple(names[1:]))


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


def is_causal_mask(value):
    """Whether a constant allows each row the columns up to its own, in any of the usual ways."""
    if value.is_meta or value.dim() < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2:
        return False
    plane = value.reshape(-1, value.shape[-1], value.shape[-1])[0]
    plane = plane if plane.dtype == torch.bool else plane.float() != 0
    lower = torch.ones_like(plane).tril().bool()
    return bool((plane == lower).all()) or bool((plane == ~lower).all())


# ---------------------------------------------------------------------------------------------------------
# The table: torch functions, methods and operators, and what they are written as

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


# Elementwise

for _name, _kind in {
    "relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "relu6": "relu6",
    "hardswish": "hardswish", "hardsigmoid": "hardsigmoid", "mish": "mish", "softplus": "softplus", "exp": "exp",
    "log": "log", "sqrt": "sqrt", "reciprocal": "reciprocal", "abs": "abs", "sin": "sin", "cos": "cos",
    "erf": "erf", "gelu": "gelu",
}.items():  # fmt: skip

    def _elementwise(at, input, *_, _kind=_kind, **__):
        x = at.floating(input)
        return at.op(_kind, [x], x.shape)

    writes(_name)(_elementwise)


@writes("rrelu")
def write_rrelu(at, input, lower=1 / 8, upper=1 / 3, training=False):
    return at.op("leaky_relu", [input], at.shape, slope=(lower + upper) / 2)


@writes("leaky_relu")
def write_leaky_relu(at, input, negative_slope=0.01):
    return at.op("leaky_relu", [input], at.shape, **unless(0.01, slope=float(negative_slope)))


@writes("elu")
def write_elu(at, input, alpha=1.0):
    return at.op("elu", [input], at.shape, **unless(1.0, alpha=float(alpha)))


@writes("selu")
def write_selu(at, input):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return at.affine(at.op("elu", [input], at.shape, part="elu", alpha=alpha), scale)


@writes("celu")
def write_celu(at, input, alpha=1.0):
    x = at.floating(input) if alpha == 1 else at.affine(at.floating(input), 1 / alpha, part="scale")
    return at.affine(at.op("elu", [x], x.shape), alpha, part="unscale")


@writes("tanhshrink")
def write_tanhshrink(at, input):
    return at.op("sub", [input, at.op("tanh", [input], at.shape, part="tanh")], at.shape)


@writes("log_sigmoid", "logsigmoid")
def write_log_sigmoid(at, input):
    return at.op("log", [at.op("sigmoid", [input], at.shape, part="sigmoid")], at.shape)


@writes("softsign")
def write_softsign(at, input):
    size = at.affine(at.op("abs", [input], at.shape, part="abs"), 1, 1, part="size")
    return at.op("div", [input, size], at.shape)


@writes("glu")
def write_glu(at, input, dim=-1):
    x = at.value(input)
    axis = dim % len(x.shape)
    half, gate = at.op(
        "split", [x], [at.shape, at.shape], part="split", axis=axis, sizes=[at.shape[axis]] * 2
    )
    return at.op("mul", [half, at.op("sigmoid", [gate], at.shape, part="sigmoid")], at.shape)


@writes("clamp", "hardtanh", "clamp_min", "clamp_max")
def write_clamp(at, input, min=None, max=None, min_val=-1.0, max_val=1.0):
    if function_name(at.label) == "hardtanh":
        min, max = (min_val if min is None else min), (max_val if max is None else max)
    if function_name(at.label) == "clamp_max":
        min, max = None, max if min is None else min
    result = at.floating(input)
    for kind, bound in (("maximum", min), ("minimum", max)):
        if isinstance(bound, (Value, Data, Weight)) and not is_number(bound):
            result, min, max = write_binary(at, kind, result, bound), None, None
    limits = {k: number_of(v) for k, v in (("low", min), ("high", max)) if v is not None}
    if limits == {"low": 0, "high": 6}:
        return at.op("relu6", [result], at.shape)
    return at.op("clip", [result], at.shape, attributes=limits) if limits else result


@writes("neg")
def write_neg(at, input):
    return at.affine(at.floating(input), -1.0)


@writes("rsqrt")
def write_rsqrt(at, input):
    return at.power(at.floating(input), -0.5)


@writes("square")
def write_square(at, input):
    return at.power(at.floating(input), 2)


@writes("log2", "log10", "log1p")
def write_log(at, input):
    x = at.floating(input)
    x = at.affine(x, 1, 1, part="add") if at.label.startswith("log1p") else x
    base = {"log2": math.log(2), "log10": math.log(10)}.get(function_name(at.label), 1)
    return at.affine(at.op("log", [x], x.shape), 1 / base, part="scale")


@writes("exp2")
def write_exp2(at, input):
    return at.op("exp", [at.affine(at.floating(input), math.log(2), part="scale")], at.shape)


@writes("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
        "stochastic_depth")  # fmt: skip
def write_dropout(at, input, p=0.5, *rest, training=True, **_):
    numbers = [r for r in rest if isinstance(r, bool)]
    training = numbers[0] if numbers else training
    x = at.value(input)
    return at.op("dropout", [x], x.shape, rate=float(p)) if training and p > 0 else x


@writes("contiguous", "to", "type", "type_as", "float", "half", "bfloat16", "double", "detach", "cuda", "cpu",
        "requires_grad", "identity", "alias", "lift_fresh_copy", "clone")  # fmt: skip
def write_same(at, input, *_, **__):
    return input if isinstance(input, Weight) else at.value(input)


# Two operands


def write_binary(at, kind, x, y):
    """An operator of two tensors, either of which may be broadcast."""
    x, y = at.floating(x), at.floating(y)
    if x.shape == () and y.shape != ():
        x = at.reshaped(x, (1,), "scalar")
    if y.shape == () and x.shape != ():
        y = at.reshaped(y, (1,), "scalar")
    shape = torch.broadcast_shapes(x.shape, y.shape)
    if x.shape != shape and y.shape == shape and kind in ("add", "mul", "maximum", "minimum"):
        x, y = y, x
    return at.op(kind, [at.expanded(x, shape), y], tuple(shape))


@writes("add")
def write_add(at, input, other, alpha=1):
    if is_number(other):
        return at.affine(at.floating(input), 1.0, alpha * number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), alpha, number_of(input))
    for zero, kept in ((input, other), (other, input)):
        if isinstance(zero, Data) and zero.zero and kept.shape == at.shape and alpha == 1:
            return at.floating(kept)
    y = other if alpha == 1 else at.affine(at.floating(other), alpha, part="scale")
    return write_binary(at, "add", input, y)


@writes("sub")
def write_sub(at, input, other, alpha=1):
    if is_number(other):
        return at.affine(at.floating(input), 1.0, -alpha * number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), -alpha, number_of(input))
    y = other if alpha == 1 else at.affine(at.floating(other), alpha, part="scale")
    return write_binary(at, "sub", input, y)


@writes("rsub")
def write_rsub(at, input, other, alpha=1):
    return write_sub(at, other, input, alpha)


@writes("mul", "rmul")
def write_mul(at, input, other):
    if is_number(other):
        return at.affine(at.floating(input), number_of(other))
    if is_number(input):
        return at.affine(at.floating(other), number_of(input))
    return write_binary(at, "mul", input, other)


@writes("div")
def write_div(at, input, other, rounding_mode=None):
    if rounding_mode is not None:
        return None
    if is_number(other):
        return at.affine(at.floating(input), 1 / number_of(other)) if number_of(other) != 0 else None
    if is_number(input):
        x = at.floating(other)
        return at.affine(at.op("reciprocal", [x], x.shape), number_of(input), part="scale")
    return write_binary(at, "div", input, other)


@writes("rtruediv")
def write_rtruediv(at, input, other):
    return write_div(at, other, input)


@writes("pow")
def write_pow(at, input, exponent):
    if is_number(exponent):
        return at.power(at.floating(input), number_of(exponent))
    if is_number(input) and number_of(input) > 0:
        x = at.affine(at.floating(exponent), math.log(number_of(input)), part="scale")
        return at.op("exp", [x], x.shape)
    return None


@writes("rpow")
def write_rpow(at, input, other):
    return write_pow(at, other, input)


@writes("maximum")
def write_maximum(at, input, other):
    return write_binary(at, "maximum", input, other)


@writes("minimum")
def write_minimum(at, input, other):
    return write_binary(at, "minimum", input, other)


@writes("addcmul")
def write_addcmul(at, input, tensor1, tensor2, value=1):
    product = write_binary(at, "mul", tensor1, tensor2)
    return write_binary(at, "add", input, at.affine(product, value, part="scale"))


@writes("lerp")
def write_lerp(at, input, end, weight):
    step = write_binary(at, "sub", end, input)
    step = (
        at.affine(step, number_of(weight), part="scale")
        if is_number(weight)
        else write_binary(at, "mul", step, weight)
    )
    return write_binary(at, "add", input, step)


@writes("masked_fill")
def write_masked_fill(at, input, mask, value):
    x = at.floating(input)
    if not isinstance(mask, Data) or not is_number(value):
        return None
    return write_binary(at, "add", x, at.mask(mask))


@writes("where")
def write_where(at, condition, input, other):
    if not isinstance(condition, Data):
        return None
    tensor, fill = (input, other) if not is_number(input) else (other, input)
    if is_number(tensor) or not (is_number(fill) or isinstance(fill, Data)):
        return None
    return write_binary(at, "add", tensor, at.mask(condition))


@writes("tril", "triu")
def write_triangle(at, input, diagonal=0):
    x = at.floating(input)
    return at.op("mul", [x, at.data(at.base + "_mask", x.shape[-2:])], x.shape)


# Shapes


@writes("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "atleast_2d")
def write_reshape(at, input, *_, **__):
    return at.reshaped(input, at.shape)


@writes("transpose")
def write_transpose(at, input, dim0=None, dim1=None, axis0=None, axis1=None):
    rank = len(input.shape)
    first, second = ((a if a is not None else b) % rank for a, b in ((dim0, axis0), (dim1, axis1)))
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return write_order(at, input, order)


@writes("t")
def write_t(at, input):
    return write_order(at, input, list(range(len(input.shape)))[::-1])


@writes("permute")
def write_permute(at, input, *dims, **named):
    dims = dims or tuple(named.values())
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    return write_order(at, input, [d % len(input.shape) for d in dims])


@writes("movedim")
def write_movedim(at, input, source, destination):
    rank = len(input.shape)
    source, destination = dims_of(source, rank), dims_of(destination, rank)
    order = [d for d in range(rank) if d not in source]
    for target, origin in sorted(zip(destination, source)):
        order.insert(target, origin)
    return write_order(at, input, order)


def write_order(at, input, order):
    if isinstance(input, Weight) and list(order) == [1, 0]:
        return Weight(input.name, input.shape[::-1], not input.transposed)
    return at.transposed(input, order)


@writes("expand", "expand_as", "broadcast_to")
def write_expand(at, input, *_, **__):
    return at.expanded(input, at.shape, "")


@writes("repeat", "tile")
def write_repeat(at, input, *_, **__):
    x = at.value(input)
    shape = (1,) * (len(at.shape) - len(x.shape)) + x.shape
    return repeated(at, x, shape, inner=False)


@writes("repeat_interleave")
def write_repeat_interleave(at, input, repeats, dim=None, output_size=None):
    x = at.value(input)
    shape = x.shape if dim is not None else (math.prod(x.shape),)
    return repeated(at, x, shape, inner=True)


def repeated(at, x, shape, inner):
    """Copies along new dims, which a reshape then merges."""
    narrow, wide = [], []
    for old, new in zip(shape, at.shape):
        times = new // old
        if times == 1:
            narrow, wide = narrow + [old], wide + [old]
        elif inner:
            narrow, wide = narrow + [old, 1], wide + [old, times]
        else:
            narrow, wide = narrow + [1, old], wide + [times, old]
    x = at.expanded(at.reshaped(x, narrow, "dims"), wide)
    return at.reshaped(x, at.shape)


@writes("cat", "hstack", "vstack")
def write_cat(at, tensors, dim=0, axis=None):
    axis = (dim if axis is None else axis) % len(at.shape)
    values = [at.floating(t) for t in tensors if t.shape != (0,)]
    return at.op("concat", values, at.shape, axis=axis) if len(values) > 1 else values[0]


@writes("stack")
def write_stack(at, tensors, dim=0):
    axis = dim % len(at.shape)
    wide = [1 if i == axis else n for i, n in enumerate(at.shape)]
    values = [at.reshaped(at.floating(t), wide, "dims") for t in tensors]
    return at.op("concat", values, at.shape, axis=axis) if len(values) > 1 else values[0]


@writes("split", "chunk", "tensor_split")
def write_split(at, input, split_size_or_sections=None, dim=0, **named):
    return pieces(at, input, dim % len(input.shape), at.shapes)


@writes("unbind")
def write_unbind(at, input, dim=0):
    x = at.value(input)
    axis = dim % len(x.shape)
    part = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
    parts = pieces(at, x, axis, [part] * x.shape[axis])
    return tuple(at.reshaped(p, shape, "squeeze") for p, shape in zip(parts, at.shapes))


def pieces(at, x, axis, shapes):
    if len(shapes) == 1:
        return (at.value(x),)
    return at.op("split", [x], list(shapes), axis=axis, sizes=[s[axis] for s in shapes])


@writes("getitem")
def write_getitem(at, input, index):
    index = list(index) if isinstance(index, (tuple, list)) else [index]
    if any(isinstance(i, (Value, Data)) for i in index):
        return write_take(at, input, index)
    if any(isinstance(i, (list, torch.Tensor, bool)) for i in index):
        return None
    x, shape = sliced(at, at.value(input), index)
    return at.reshaped(x, shape)


def sliced(at, x, index):
    """x cut by numbers, slices, None and Ellipsis; and the shape that torch gives it."""
    rank, used = len(x.shape), sum(1 for i in index if i is not None and i is not Ellipsis)
    if Ellipsis not in [i for i in index if i is Ellipsis]:
        index = index + [Ellipsis]
    axis, shape = 0, []
    for i in index:
        if i is None:
            shape.append(1)
        elif i is Ellipsis:
            shape += x.shape[axis : axis + rank - used]
            axis += rank - used
        elif isinstance(i, int):
            x = cut(at, x, axis, i % x.shape[axis], 1, 1)
            axis += 1
        else:
            start, stop, step = i.indices(x.shape[axis])
            length = max(0, -(-(stop - start) // step))
            x = cut(at, x, axis, start, length, step)
            shape.append(length)
            axis += 1
    return x, shape


def cut(at, x, axis, start, length, step=1):
    if start == 0 and length == x.shape[axis] and step == 1:
        return x
    if length < 1:
        raise CaptureError(f"{at.where}: an empty slice of {list(x.shape)}")
    shape = x.shape[:axis] + (length,) + x.shape[axis + 1 :]
    more = {**({"start": start} if start else {}), "length": length, **({"step": step} if step != 1 else {})}
    return at.op("slice", [x], shape, part="slice", axis=axis, attributes=more)


@writes("index")
def write_aten_index(at, input, indices):
    index = [slice(None) if i is None else i for i in indices]
    return write_take(at, input, index)


def write_take(at, input, index):
    """Indices that are tensors: rows of a parameter, or a gather along dims that follow each other."""
    if isinstance(input, Weight) and len(index) == 1 and len(input.shape) == 2 and not input.transposed:
        return write_embedding(at, index[0], input)
    places = [i for i, a in enumerate(index) if isinstance(a, (Value, Data))]
    whole = all(isinstance(a, slice) and a == slice(None) for i, a in enumerate(index) if i not in places)
    if not whole or places != list(range(places[0], places[-1] + 1)):
        return None
    x, first, count = at.value(input), places[0], len(places)
    merged = x.shape[:first] + (math.prod(x.shape[first : first + count]),) + x.shape[first + count :]
    x = at.reshaped(x, merged, "dims")
    shape = torch.broadcast_shapes(*(index[i].shape for i in places))
    if not all(isinstance(index[i], Data) for i in places):
        return None
    indices = at.data(index[first].name, shape, "int64", "".join(index[i].key for i in places))
    return at.op("gather", [x, indices], at.shape, axis=first)


@writes("select")
def write_select(at, input, dim, index):
    x = at.value(input)
    axis = dim % len(x.shape)
    return at.reshaped(cut(at, x, axis, index % x.shape[axis], 1), at.shape)


@writes("narrow")
def write_narrow(at, input, dim, start, length):
    return cut(at, at.value(input), dim % len(input.shape), start, length)


@writes("slice")
def write_slice(at, input, dim=0, start=None, end=None, step=1):
    axis = dim % len(input.shape)
    first, last, step = slice(start, end, step).indices(input.shape[axis])
    return cut(at, at.value(input), axis, first, max(0, -(-(last - first) // step)), step)


@writes("index_select")
def write_index_select(at, input, dim, index):
    if isinstance(input, Weight) and dim == 0 and len(input.shape) == 2:
        return write_embedding(at, index, input)
    if not isinstance(index, Data):
        return None
    return at.op("gather", [input, index], at.shape, axis=dim % len(input.shape))


@writes("roll")
def write_roll(at, input, shifts, dims=None):
    x = at.value(input)
    if dims is None or dims == ():
        return None
    for shift, dim in zip(each(shifts, 1), dims_of(dims, len(x.shape))):
        x = at.op("roll", [x], x.shape, axis=dim, shift=shift % x.shape[dim])
    return x


@writes("pad")
def write_pad(at, input, pad, mode="constant", value=None):
    x, rank = at.value(input), len(input.shape)
    modes = {"constant": "zeros", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        return None
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis in range(rank):
        low, high = min(before[axis], 0), min(after[axis], 0)
        x = cut(at, x, axis, -low, x.shape[axis] + low + high)
        before[axis], after[axis] = max(before[axis], 0), max(after[axis], 0)
    if not any(before + after):
        return x
    more = {} if mode == "constant" else {"mode": modes[mode]}
    return at.op("pad", [x], at.shape, before=before, after=after, **more)


@writes("constant_pad_nd")
def write_constant_pad(at, input, pad, value=0):
    return write_pad(at, input, pad)


@writes("pixel_shuffle")
def write_pixel_shuffle(at, input, upscale_factor):
    n, c, h, w = at.shape
    r = upscale_factor
    x = at.reshaped(input, (n, c, r, r, h // r, w // r), "dims")
    return at.reshaped(at.transposed(x, (0, 1, 4, 2, 5, 3), "transpose"), at.shape)


@writes("pixel_unshuffle")
def write_pixel_unshuffle(at, input, downscale_factor):
    n, _, h, w = at.shape
    r = downscale_factor
    x = at.reshaped(input, (n, input.shape[1], h, r, w, r), "dims")
    return at.reshaped(at.transposed(x, (0, 1, 3, 5, 2, 4), "transpose"), at.shape)


# Sums


def write_reduction(mode):
    def write(at, input, dim=None, keepdim=False, dtype=None, **_):
        x = at.floating(input)
        return at.reduced(x, dims_of(dim, len(x.shape)), mode, keepdim=keepdim)

    return write


for _name, _mode in {"sum": "sum", "mean": "mean", "amax": "max"}.items():
    writes(_name)(write_reduction(_mode))


@writes("max")
def write_max(at, input, dim=None, keepdim=False):
    if isinstance(dim, (Value, Data, Weight)):
        return write_binary(at, "maximum", input, dim)
    if 1 in at.used:
        return None
    x = at.floating(input)
    result = at.reduced(x, dims_of(dim, len(x.shape)), "max", keepdim=keepdim)
    return result if dim is None else (result, Unavailable("the places of the largest elements"))


@writes("min", "amin")
def write_min(at, input, dim=None, keepdim=False):
    if isinstance(dim, (Value, Data, Weight)):
        return write_binary(at, "minimum", input, dim)
    if 1 in at.used:
        return None
    x = at.affine(at.floating(input), -1.0, part="neg")
    result = at.reduced(x, dims_of(dim, len(x.shape)), "max", part="max", keepdim=keepdim)
    result = at.affine(result, -1.0)
    if dim is None or function_name(at.label) == "amin":
        return result
    return (result, Unavailable("the places of the smallest elements"))


@dataclasses.dataclass(frozen=True)
class Unavailable:
    """A result that has no operator; using it is an error."""

    what: str


def write_variance(at, x, dim, unbiased, keepdim, part=""):
    dims = dims_of(dim, len(x.shape))
    count = math.prod(x.shape[d] for d in dims)
    mean = at.reduced(x, dims, "mean", part="mean", keepdim=True)
    squares = at.power(at.op("sub", [x, mean], x.shape, part="centre"), 2, part="square")
    result = at.reduced(squares, dims, "mean", part=part, keepdim=keepdim)
    return at.affine(result, count / (count - 1), part="unbiased") if unbiased and count > 1 else result


@writes("var")
def write_var(at, input, dim=None, unbiased=True, keepdim=False, correction=None):
    unbiased = unbiased if correction is None else correction != 0
    return write_variance(at, at.floating(input), dim, unbiased, keepdim)


@writes("std")
def write_std(at, input, dim=None, unbiased=True, keepdim=False, correction=None):
    unbiased = unbiased if correction is None else correction != 0
    result = write_variance(at, at.floating(input), dim, unbiased, keepdim, "variance")
    return at.op("sqrt", [result], result.shape)


@writes("norm", "vector_norm", "linalg_vector_norm", "linalg_norm")
def write_norm(at, input, p=2, dim=None, keepdim=False, ord=None, dtype=None):
    p = p if ord is None else ord
    if p not in (2, 2.0, "fro", None):
        return None
    x = at.floating(input)
    squares = at.power(x, 2, part="square")
    total = at.reduced(squares, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=keepdim)
    return at.op("sqrt", [total], total.shape)


@writes("normalize")
def write_normalize(at, input, p=2.0, dim=1, eps=1e-12):
    if p != 2:
        return None
    x = at.floating(input)
    squares = at.power(x, 2, part="square")
    total = at.reduced(squares, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=True)
    length = at.op(
        "clip", [at.op("sqrt", [total], total.shape, part="sqrt")], total.shape, part="clip", low=eps
    )
    return at.op("div", [x, length], x.shape)


@writes("cosine_similarity")
def write_cosine_similarity(at, x1, x2, dim=1, eps=1e-8):
    a, b = write_normalize(at, x1, dim=dim), write_normalize(at, x2, dim=dim)
    product = write_binary(at, "mul", a, b)
    return at.reduced(product, dims_of(dim, len(product.shape)), "sum")


@writes("logsumexp")
def write_logsumexp(at, input, dim, keepdim=False):
    x = at.floating(input)
    powers = at.op("exp", [x], x.shape, part="exp")
    total = at.reduced(powers, dims_of(dim, len(x.shape)), "sum", part="sum", keepdim=keepdim)
    return at.op("log", [total], total.shape)


def write_last_dim(at, x, dim, kind):
    """An operator over the last dim, applied over another."""
    rank = len(x.shape)
    axis = (rank - 1 if dim is None else dim) % rank
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = at.transposed(x, order, "in")
    return at.transposed(at.op(kind, [moved], moved.shape), order, "out")


@writes("softmax")
def write_softmax(at, input, dim=None, *_, **__):
    return write_last_dim(at, at.floating(input), dim, "softmax")


@writes("softmin")
def write_softmin(at, input, dim=None, *_, **__):
    return write_last_dim(at, at.affine(at.floating(input), -1.0, part="neg"), dim, "softmax")


@writes("log_softmax")
def write_log_softmax(at, input, dim=None, *_, **__):
    x = write_last_dim(at, at.floating(input), dim, "softmax")
    return at.op("log", [x], x.shape)


# Products


@writes("linear")
def write_linear(at, input, weight, bias=None):
    x = at.value(input)
    if not isinstance(weight, Weight):
        letters = batch_letters(len(x.shape) - 1)
        result = contracted(at, [letters + "y", "zy"], [x, at.value(weight)], letters + "z")
        return result if bias is None else write_binary(at, "add", result, bias)
    return linear_operator(at, x, weight, bias, by_rows=True)


def linear_operator(at, x, weight, bias=None, by_rows=False):
    """`by_rows`: the weight's first dim is the output. Rows that were flattened before get their dims back."""
    torch_listing = by_rows != weight.transposed
    out = weight.shape[0] if by_rows else weight.shape[1]
    rows = (*x.shape[:-1], out)
    if len(x.shape) == 1:
        x = at.reshaped(x, (1, *x.shape), "row")
    elif at.maker(x, "reshape"):
        source = at.tensor(at.maker(x, "reshape")["inputs"][0])
        x = source if source.shape[-1:] == x.shape[-1:] and len(source.shape) > len(x.shape) else x
    own_bias = isinstance(bias, Weight)
    weights = [weight.name] + ([bias.name] if own_bias else [])
    more = {} if own_bias else {"bias": False}
    result = at.op("linear", [x], (*x.shape[:-1], out), weights, out=[out], **more)
    at.listings.setdefault(weight.name, []).append((result.name, torch_listing))
    if bias is not None and not own_bias:
        result = write_binary(at, "add", result, bias)
    return at.reshaped(result, rows, "rows")


def batch_letters(count):
    return "abcdefghijkl"[:count]


@writes("matmul")
def write_matmul(at, input, other, *_):
    if isinstance(other, Weight) and len(other.shape) == 2 and not isinstance(input, Weight):
        return linear_operator(at, at.floating(input), other)
    p, q = at.floating(input), at.floating(other)
    if len(p.shape) > 1 and len(p.shape) == len(q.shape) and p.shape[:-2] == q.shape[:-2]:
        return at.op("matmul", [p, q], at.shape)
    batch = batch_letters(max(len(p.shape), len(q.shape), 2) - 2)
    left = (batch[len(batch) - len(p.shape) + 2 :] if len(p.shape) > 2 else "") + (
        "xy" if len(p.shape) > 1 else "y"
    )
    right = (batch[len(batch) - len(q.shape) + 2 :] if len(q.shape) > 2 else "") + (
        "yz" if len(q.shape) > 1 else "y"
    )
    out = batch + ("x" if len(p.shape) > 1 else "") + ("z" if len(q.shape) > 1 else "")
    return contracted(at, [left, right], [p, q], out)


@writes("mv", "dot", "inner")
def write_mv(at, input, other):
    return write_matmul(at, input, other) if len(other.shape) == 1 else None


@writes("outer", "ger")
def write_outer(at, input, other):
    return contracted(at, ["x", "y"], [at.floating(input), at.floating(other)], "xy")


@writes("addmm", "baddbmm")
def write_addmm(at, input, mat1, mat2, beta=1, alpha=1):
    if (
        isinstance(input, Weight)
        and isinstance(mat2, Weight)
        and beta == alpha == 1
        and len(input.shape) == 1
    ):
        return linear_operator(at, at.floating(mat1), mat2, input)
    product = at.affine(write_matmul(at, mat1, mat2), alpha, part="scale")
    return write_binary(at, "add", product, at.affine(at.floating(input), beta, part="beta"))


@writes("einsum")
def write_einsum(at, equation, *operands):
    operands = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
    )
    values = [at.floating(a) for a in operands]
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    counts = [len(v.shape) - len(t.replace("...", "")) for t, v in zip(terms, values)]
    dots = "".join(free[: max(counts)])
    terms = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, counts)]
    if "->" not in equation:
        letters = "".join(terms)
        out = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    out = out.replace("...", dots)
    if any(len(set(t)) != len(t) for t in terms + [out]):
        return None
    while len(terms) > 2:
        rest = set("".join(terms[2:]) + out)
        between = "".join(c for c in dict.fromkeys(terms[0] + terms[1]) if c in rest)
        values = [contracted(at, terms[:2], values[:2], between, part="product")] + values[2:]
        terms = [between] + terms[2:]
    return contracted(at, terms, values, out)


def contracted(at, terms, values, out, part=""):
    """An einsum whose dims of length 1 may be stretched."""
    sizes = {}
    for term, value in zip(terms, values):
        for letter, size in zip(term, value.shape):
            sizes[letter] = max(sizes.get(letter, 1), size)
    for i, (term, value) in enumerate(zip(terms, values)):
        kept = [(c, n) for c, n in zip(term, value.shape) if n == sizes[c]]
        if len(kept) < len(term):
            terms[i] = "".join(c for c, _ in kept)
            values[i] = at.reshaped(value, [n for _, n in kept], "dims")
    equation = ",".join(terms) + "->" + out
    return at.op("einsum", values, tuple(sizes[c] for c in out), part=part, equation=equation)


# Convolutions, pools, images


def write_convolution(kind, rank):
    def write(at, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        x = at.value(input)
        if not isinstance(weight, Weight) or len(x.shape) != rank + 2:
            return None
        kernel, dilation = list(weight.shape[2:]), each(dilation, rank)
        pad, more = pads(padding, kernel, dilation)
        more = {**unless(1, stride=each(stride, rank)), **unless(0, pad=pad), **more}
        return convolution(at, kind, x, weight, bias, weight.shape[0], kernel, dilation, groups, more)

    return write


def convolution(at, kind, x, weight, bias, out, kernel, dilation, groups, more):
    weights = [weight.name] + ([bias.name] if isinstance(bias, Weight) else [])
    more = {**more, **unless(1, dilation=dilation, groups=groups)}
    if bias is None:
        more["bias"] = False
    return at.op(kind, [x], at.shape, weights, out=out, kernel=kernel, attributes=more)


def pads(padding, kernel, dilation):
    """Zeros before each dim, and pad_end where those after it differ."""
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        before, after = [t // 2 for t in total], [t - t // 2 for t in total]
        return before, ({} if before == after else {"pad_end": after})
    return each(0 if padding == "valid" else padding, len(kernel)), {}


def write_transposed_convolution(kind, rank):
    def write(at, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        x = at.value(input)
        if not isinstance(weight, Weight) or len(x.shape) != rank + 2:
            return None
        more = {
            **unless(1, stride=each(stride, rank)),
            **unless(0, pad=each(padding, rank), output_pad=each(output_padding, rank)),
        }
        out, kernel = weight.shape[1] * groups, list(weight.shape[2:])
        return convolution(at, kind, x, weight, bias, out, kernel, each(dilation, rank), groups, more)

    return write


def write_pool(mode, rank):
    def write(at, input, kernel_size, stride=None, padding=0, *rest, ceil_mode=False, **named):
        x = at.value(input)
        names = (
            ("dilation", "ceil_mode")
            if mode == "max"
            else ("ceil_mode", "count_include_pad", "divisor_override")
        )
        named.update(zip(names, rest), ceil_mode=ceil_mode or dict(zip(names, rest)).get("ceil_mode", False))
        if (
            len(x.shape) != rank + 2
            or named.get("divisor_override")
            or each(named.get("dilation", 1), rank) != [1] * rank
        ):
            return None
        if named.get("return_indices"):
            return None
        more = {"stride": each(stride, rank)} if stride not in (None, [], ()) else {}
        more.update(unless(0, pad=each(padding, rank)))
        if named["ceil_mode"]:
            more["ceil"] = True
        if named.get("count_include_pad") is False:
            more["exclude_pad"] = True
        return at.op(
            f"pool{rank}d", [x], at.shape, mode=mode, kernel=each(kernel_size, rank), attributes=more
        )

    return write


def write_pool_with_indices(rank):
    def write(at, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        at.shape = at.shapes[0]
        result = write_pool("max", rank)(at, input, kernel_size, stride, padding, dilation, ceil_mode)
        return result and (result, Unavailable("the places of the largest elements"))

    return write


def write_adaptive_pool(mode, rank):
    def write(at, input, output_size, return_indices=False):
        x = at.value(input)
        if return_indices or len(x.shape) != rank + 2:
            return None
        return at.op("adaptive_pool", [x], at.shape, out=list(at.shape[2:]), mode=mode)

    return write


for _rank in (1, 2, 3):
    writes(f"conv{_rank}d")(write_convolution(f"conv{_rank}d", _rank))
    writes(f"conv_transpose{_rank}d")(write_transposed_convolution(f"conv_transpose{_rank}d", _rank))
    writes(f"max_pool{_rank}d_with_indices")(write_pool_with_indices(_rank))
    for _mode in ("max", "avg"):
        writes(f"{_mode}_pool{_rank}d")(write_pool(_mode, _rank))
        writes(f"adaptive_{_mode}_pool{_rank}d")(write_adaptive_pool(_mode, _rank))


@writes("convolution")
def write_aten_convolution(
    at, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    rank = len(weight.shape) - 2
    if transposed:
        write = write_transposed_convolution(f"conv_transpose{rank}d", rank)
        return write(at, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return write_convolution(f"conv{rank}d", rank)(at, input, weight, bias, stride, padding, dilation, groups)


@writes("interpolate", "upsample")
def write_interpolate(at, input, size=None, scale_factor=None, mode="nearest", align_corners=None, *_, **__):
    x = at.value(input)
    if mode == "area":
        return at.op("adaptive_pool", [x], at.shape, out=list(at.shape[2:]), mode="avg")
    modes = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}
    more = {"align_corners": True} if align_corners else {}
    return at.op("resize", [x], at.shape, out=list(at.shape[2:]), mode=modes.get(mode, "linear"), **more)


for _name, _mode in {"nearest1d": "nearest", "nearest2d": "nearest", "nearest3d": "nearest",
                     "linear1d": "linear", "bilinear2d": "linear", "trilinear3d": "linear",
                     "bicubic2d": "cubic"}.items():  # fmt: skip

    def _upsample(at, input, size, *rest, _mode=_mode):
        more = {"align_corners": True} if _mode != "nearest" and rest and rest[0] is True else {}
        return at.op("resize", [input], at.shape, out=list(at.shape[2:]), mode=_mode, **more)

    writes(f"upsample_{_name}")(_upsample)


# Norms


def gamma_beta(weight, bias):
    return [weight.name, bias.name]


def write_affine_norm(at, kind, x, weight, bias, attributes, shape=None):
    """A norm with gamma and beta; where only one of them is there, that follows as an operator of its own."""
    if isinstance(weight, Weight) and isinstance(bias, Weight):
        return at.op(kind, [x], x.shape, gamma_beta(weight, bias), attributes=attributes)
    result = at.op(kind, [x], x.shape, attributes={**attributes, "affine": False})
    for other, operand in (("mul", weight), ("add", bias)):
        if operand is not None:
            value = at.value(operand)
            value = at.reshaped(value, shape, "channels") if shape else value
            result = at.op(other, [result, value], x.shape, part="scale" if other == "mul" else "shift")
    return result


@writes("layer_norm")
def write_layer_norm(at, input, normalized_shape, weight=None, bias=None, eps=1e-5, *_):
    x, dims = at.floating(input), len(normalized_shape)
    if dims == 1:
        return write_affine_norm(at, "layer_norm", x, weight, bias, {})
    if (weight is None) != (bias is None):
        return None
    wide = at.reshaped(x, (*x.shape[:-dims], math.prod(normalized_shape)), "rows")
    return at.reshaped(write_affine_norm(at, "layer_norm", wide, weight, bias, {}), x.shape, "dims")


@writes("native_layer_norm")
def write_native_layer_norm(at, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    result = write_layer_norm(at, input, normalized_shape, weight, bias)
    return (result, Unavailable("the mean"), Unavailable("the deviation"))


@writes("rms_norm")
def write_rms_norm(at, input, *operands, weight=None, **_):
    weights = [a for a in (*operands, weight) if isinstance(a, Weight)]
    x = at.floating(input)
    if len(weights) != 1 or weights[0].shape != x.shape[-1:]:
        return None
    return at.op("rms_norm", [x], x.shape, [weights[0].name])


@writes("group_norm")
def write_group_norm(at, input, num_groups, weight=None, bias=None, *_, **__):
    x = at.floating(input)
    channels = (x.shape[1],) + (1,) * (len(x.shape) - 2)
    return write_affine_norm(at, "group_norm", x, weight, bias, {"groups": num_groups}, channels)


@writes("native_group_norm")
def write_native_group_norm(at, input, weight, bias, n, channels, size, groups, eps):
    result = write_group_norm(at, input, groups, weight, bias)
    return (result, Unavailable("the mean"), Unavailable("the deviation"))


@writes("instance_norm")
def write_instance_norm(at, input, running_mean=None, running_var=None, weight=None, bias=None, *_, **__):
    return write_group_norm(at, input, input.shape[1], weight, bias)


@writes("native_batch_norm")
def write_native_batch_norm(at, input, weight=None, bias=None, *_):
    result = write_batch_norm(at, input, weight, bias)
    return (result, *(Unavailable("statistics of a batch norm") for _ in at.shapes[1:]))


@writes("batch_norm")
def write_batch_norm(at, input, *operands, weight=None, bias=None, **_):
    x = at.floating(input)
    weights = [a for a in (*operands, weight, bias) if isinstance(a, Weight)]
    if len(weights) == 2:
        return at.op("batch_norm", [x], x.shape, [w.name for w in weights])
    at.note(f"{at.where}: a batch norm without weights is written with weights that are frozen")
    return at.op("batch_norm", [x], x.shape, frozen=True)


# Tables


@writes("embedding")
def write_embedding(at, input, weight, *_, **__):
    if isinstance(input, Weight):
        input, weight = weight, input
    if not isinstance(weight, Weight) or not isinstance(input, Data):
        return None
    rows, width = weight.shape
    result = at.op("embedding", [input], at.shape, [weight.name], rows=rows, width=width)
    at.listings.setdefault(weight.name, []).append((result.name, None))
    return result


@writes("embedding_bag")
def write_embedding_bag(at, input, weight, offsets=None, *rest, mode="mean", **_):
    words = [r for r in rest if isinstance(r, str)]
    mode = words[0] if words else mode
    if not isinstance(weight, Weight) or offsets is not None or len(input.shape) != 2 or mode == "max":
        return None
    rows, width = weight.shape
    result = at.op("embedding_bag", [input], at.shape, [weight.name], rows=rows, width=width, mode=mode)
    at.listings.setdefault(weight.name, []).append((result.name, None))
    return result


# Attention


@writes("scaled_dot_product_attention")
def write_attention_function(
    at, query, key, value, attn_mask=None, dropout_p=0.0, *flags, is_causal=False, scale=None, **_
):
    if flags:  # torch 1.13 calls it _scaled_dot_product_attention and has another flag before this one
        is_causal = flags[-1] if at.label.startswith("_") else flags[0]
    q, k, v = (at.floating(a) for a in (query, key, value))
    if len(q.shape) not in (3, 4):
        return None
    if len(q.shape) == 3:
        q, k, v = (at.reshaped(a, (a.shape[0], 1, *a.shape[1:]), "head") for a in (q, k, v))
    k, v = without_copies(at, k, v)
    q, k, v = (at.transposed(a, (0, 2, 1, 3), part) for a, part in ((q, "query"), (k, "key"), (v, "value")))
    result = attention(at, q, k, v, attn_mask, is_causal, scale)
    if result is None:
        return None
    result = at.reshaped(at.transposed(result, (0, 2, 1, 3), "heads"), at.shapes[0])
    return result if at.shape is not None else (result, Unavailable("the softmax of the scores"))


def without_copies(at, k, v):
    """Keys and values [b, g, t, d] as they were before they were copied for the queries of each group."""
    results = []
    for x in (k, v):
        merged = at.maker(x, "reshape")
        copied = at.maker(at.tensor(merged["inputs"][0]), "expand") if merged else None
        source = at.tensor(copied["inputs"][0]) if copied else x
        grouped = len(source.shape) == 5 and source.shape[2] == 1
        results.append(at.reshaped(source, source.shape[:2] + source.shape[3:], "groups") if grouped else x)
    return results if results[0].shape[1] == results[1].shape[1] else (k, v)


def attention(at, q, k, v, mask, causal, scale=None):
    """The result [b, s, heads, e] of q[b, s, heads, d], k[b, t, g, d], v[b, t, g, e]; None: no kind does it."""
    batch, length, heads, width = q.shape
    groups = k.shape[2]
    if mask is not None and isinstance(mask, Data) and mask.causal:
        mask, causal = None, True
    if scale is not None and abs(scale * math.sqrt(width) - 1) > 1e-6:
        q = at.affine(q, scale * math.sqrt(width), part="scale")
    q = at.reshaped(q, (batch, length, groups, heads // groups, width), "groups")
    inputs, kind = [q, k, v], "attention"
    if mask is not None:
        bias = at.mask(mask)
        shape = (1,) * (4 - len(bias.shape)) + bias.shape
        if shape[0] != 1:
            at.note(f"{at.where}: a mask of each sample's own is left out")
        elif shape[1] == 1:
            inputs.append(at.reshaped(bias, (1, *shape[1:]), "bias"))
        else:
            inputs.append(at.reshaped(bias, (groups, heads // groups, *shape[2:]), "bias"))
        kind = "biased_attention" if len(inputs) == 4 else "attention"
    more = {"causal": True} if causal and kind == "attention" else {}
    shape = (batch, length, groups, heads // groups, v.shape[-1])
    return at.reshaped(at.op(kind, inputs, shape, **more), (batch, length, heads, v.shape[-1]), "merge")


@writes("multi_head_attention_forward")
def write_multi_head_attention(at, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias,
                               bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias,
                               training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                               use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                               v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                               is_causal=False):  # fmt: skip
    if bias_k is not None or add_zero_attn or static_k is not None or static_v is not None:
        return None
    at.base = joined(at.path, "attention")
    plain = len(query.shape) == 2
    rows = [at.floating(a) for a in (query, key, value)]
    rows = [at.reshaped(a, (a.shape[0], 1, a.shape[1]), "sample") if plain else a for a in rows]
    rows = [at.transposed(a, (1, 0, 2), "samples_first") for a in rows]
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        projected = separate_projections(at, rows, weights, in_proj_bias)
    else:
        projected = projections(at, rows, in_proj_weight, in_proj_bias)
    q, k, v = (at.reshaped(a, (*a.shape[:2], num_heads, a.shape[2] // num_heads), "heads") for a in projected)
    if key_padding_mask is not None:
        at.note(f"{at.where}: key_padding_mask is left out")
    if attn_mask is not None and len(attn_mask.shape) == 3:  # a plane for each sample and head
        at.note(f"{at.where}: a mask of each sample's own is left out")
        attn_mask = None
    mixed = attention(at, q, k, v, attn_mask, is_causal)
    mixed = at.reshaped(mixed, (*mixed.shape[:2], math.prod(mixed.shape[2:])), "merge")
    weights = [w.name for w in (out_proj_weight, out_proj_bias) if w is not None]
    result = projection(at, mixed, "out_proj", out_proj_weight.shape[0], weights)
    result = at.reshaped(at.transposed(result, (1, 0, 2), "samples_second"), at.shapes[0], "sample")
    return (result, Unavailable("the weights of attention, which are not written"))


def projection(at, x, name, out, weights):
    more = {} if len(weights) == 2 else {"bias": False}
    name = joined(at.path, name)
    result = at.op("linear", [x], (*x.shape[:-1], out), weights, name=name, out=[out], **more)
    at.listings.setdefault(weights[0], []).append((result.name, True))
    return result


def projections(at, rows, weight, bias):
    """Queries, keys and values by slices of one weight. It stays one operator where all read the same."""
    width, results, groups = weight.shape[0] // 3, [], ["q", "k", "v"]
    if rows[1] == rows[2]:
        groups = ["qkv"] if rows[0] == rows[1] else ["q", "kv"]
    for letters in groups:
        part, count = "" if letters == "qkv" else letters, len(letters)
        x = rows["qkv".index(letters[0])]
        weights = [slice_name(at, w, part) for w in (weight, bias) if w is not None]
        name = f"in_proj_{part}" if part else "in_proj"
        result = projection(at, x, name, width * count, weights)
        if count == 1:
            results.append(result)
        else:
            shapes = [(*x.shape[:-1], width)] * count
            results += at.op("split", [result], shapes, part="split", axis=2, sizes=[width] * count)
    return results


def separate_projections(at, rows, weights, bias):
    results = []
    for letter, x, weight in zip("qkv", rows, weights):
        names = [weight.name] + ([slice_name(at, bias, letter)] if bias is not None else [])
        results.append(projection(at, x, f"{letter}_proj", weight.shape[0], names))
    return results


def slice_name(at, weight, part):
    """The name of a slice of a parameter; of all of it where `part` is empty."""
    name = f"{weight.name}.{part}" if part else weight.name
    at.parameters[name] = at.parameters[weight.name]
    return name


# Recurrent layers

MOST_STEPS = 4096  # cells of a layer that are written one by one


class Recurrent:
    """One of torch's recurrent functions, written step by step. `cell(at, label, x, states, weights)` writes a
    step and returns the new states, the hidden one first; `letters` name the states."""

    def __init__(self, at, cell, letters, weights, layers, bidirectional, batch_first, dropout):
        self.at, self.cell, self.letters, self.weights = at, cell, letters, weights
        self.layers, self.directions = layers, 2 if bidirectional else 1
        self.batch_first, self.dropout = batch_first, dropout

    def write(self, input, first):
        """The results of torch's function; None where it cannot be said."""
        at, x = self.at, self.at.floating(input)
        x = at.transposed(x, (1, 0, 2), "steps_first") if self.batch_first else x
        cells = self.layers * self.directions
        if len(self.weights) // cells > 4 or x.shape[0] * cells > MOST_STEPS:
            return None
        steps, last = self._steps_of(x), [[] for _ in self.letters]
        for layer in range(self.layers):
            outputs = [self._pass(steps, first, layer, d, last) for d in range(self.directions)]
            steps = outputs[0] if self.directions == 1 else [self._joined(pair) for pair in zip(*outputs)]
            if self.dropout > 0 and layer + 1 < self.layers:
                steps = [at.op("dropout", [s], s.shape, part="dropout", rate=self.dropout) for s in steps]
        return self._results(steps, last)

    def _steps_of(self, x):
        at, count, shape = self.at, x.shape[0], x.shape[1:]
        parts = [x]
        if count > 1:
            parts = at.op("split", [x], [(1, *shape)] * count, part="steps", axis=0, sizes=[1] * count)
        return [at.reshaped(part, shape, "step") for part in parts]

    def _pass(self, steps, first, layer, direction, last):
        """One layer in one direction: the hidden state after every step. Adds the states at its end to `last`."""
        at, place = self.at, layer * self.directions + direction
        count = len(self.weights) // (self.layers * self.directions)
        weights = self.weights[place * count : (place + 1) * count]
        label = joined(at.base, f"layer{layer}" + ("_reverse" if direction else ""))
        shape = (steps[0].shape[0], weights[1].shape[1])
        states = [first_state(at, f"{label}.{n}0", s, place, shape) for n, s in zip(self.letters, first)]
        hidden = []
        for i, x in enumerate(steps[::-1] if direction else steps):
            before = len(at.operators)
            states = self.cell(at, f"{label}.step{i}", x, states, weights)
            for name in list(at.operators)[before:]:
                at.operators[name]["_repeat"] = name.replace(f"{label}.step{i}", f"{label}.step#")
            hidden.append(states[0])
        for values, state in zip(last, states):
            values.append(state)
        return hidden[::-1] if direction else hidden

    def _joined(self, pair):
        rows, width = pair[0].shape
        return self.at.op("concat", list(pair), (rows, 2 * width), part="directions", axis=1)

    def _results(self, steps, last):
        at = self.at
        output, *shapes = at.shapes
        axis = 1 if self.batch_first else 0
        wide = [n if i != axis else 1 for i, n in enumerate(output)]
        results = [self._whole([at.reshaped(s, wide, "output") for s in steps], output, "outputs", axis)]
        for letter, shape, values in zip(self.letters, shapes, last):
            rows = [at.reshaped(v, (1, *v.shape), "state") for v in values]
            results.append(self._whole(rows, shape, letter, 0))
        return tuple(results)

    def _whole(self, parts, shape, part, axis):
        return self.at.op("concat", parts, shape, part=part, axis=axis) if len(parts) > 1 else parts[0]


def first_state(at, name, state, place, shape):
    """The state before the first step: an input where it is a constant."""
    if isinstance(state, Data):
        return at.data(name, shape)
    whole = at.floating(state)
    return at.reshaped(cut(at, whole, 0, place, 1), shape, "state")


def lstm_step(at, label, x, states, weights):
    why = (
        "has one bias in pipesim, torch's two add up to it"
        if len(weights) == 4
        else "has a bias in pipesim only"
    )
    at.note(f"{at.where}: an LSTM cell {why}")
    names = [w.name for w in weights[:3]]
    names += [names[0] + ".bias"] if len(names) == 2 else []
    shape, hidden = states[0].shape, weights[1].shape[1]
    return at.op("lstm_cell", [x, *states], [shape, shape], names, name=label, parts="hc", hidden=hidden)


def state_products(at, label, x, h, weights):
    """What input and hidden state contribute to the gates."""
    results = []
    for part, operand, i in (("input", x, 0), ("hidden", h, 1)):
        own = [w.name for w in weights[i::2]]
        out = weights[i].shape[0]
        more = {} if len(own) == 2 else {"bias": False}
        name = f"{label}.{part}"
        results.append(at.op("linear", [operand], (x.shape[0], out), own, name=name, out=[out], **more))
        at.listings.setdefault(own[0], []).append((results[-1].name, True))
    return results


def gru_step(at, label, x, states, weights):
    (h,) = states

    def op(kind, part, *inputs):
        return at.op(kind, list(inputs), h.shape, name=f"{label}.{part}")

    gates = []
    for part, product in zip(("input", "hidden"), state_products(at, label, x, h, weights)):
        width = h.shape[1]
        name = f"{label}.{part}_gates"
        gates.append(at.op("split", [product], [h.shape] * 3, name=name, axis=1, sizes=[width] * 3))
    reset = op("sigmoid", "reset", op("add", "reset_sum", gates[0][0], gates[1][0]))
    update = op("sigmoid", "update", op("add", "update_sum", gates[0][1], gates[1][1]))
    kept = op("mul", "kept", reset, gates[1][2])
    new = op("tanh", "new", op("add", "new_sum", gates[0][2], kept))
    return [op("add", "result", new, op("mul", "updated", update, op("sub", "change", h, new)))]


def rnn_step(activation):
    def step(at, label, x, states, weights):
        products = state_products(at, label, x, states[0], weights)
        total = at.op("add", products, states[0].shape, name=f"{label}.sum")
        return [at.op(activation, [total], total.shape, name=f"{label}.result")]

    return step


def write_recurrent(cell, letters):
    def layer(at, input, hx, weights, has_biases, layers, dropout, train, bidirectional, batch_first=False):
        first = hx if isinstance(hx, (tuple, list)) else [hx]
        if not isinstance(weights, (tuple, list)) or len(input.shape) != 3 or len(first) != len(letters):
            return None
        dropout = float(dropout) if train else 0.0
        written = Recurrent(at, cell, letters, weights, layers, bidirectional, batch_first, dropout)
        return written.write(input, first)

    def one_step(at, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        first = hx if isinstance(hx, (tuple, list)) else [hx]
        if len(input.shape) != 2 or len(first) != len(letters):
            return None
        weights = [w for w in (w_ih, w_hh, b_ih, b_hh) if w is not None]
        shape = at.shapes[0]
        states = [
            at.data(f"{at.base}.{n}0", shape) if isinstance(s, Data) else at.floating(s)
            for n, s in zip(letters, first)
        ]
        results = cell(at, at.base, at.floating(input), states, weights)
        return results if len(letters) > 1 else results[0]

    return layer, one_step


for _name, _cell, _letters in (
    ("lstm", lstm_step, "hc"),
    ("gru", gru_step, "h"),
    ("rnn_tanh", rnn_step("tanh"), "h"),
    ("rnn_relu", rnn_step("relu"), "h"),
):
    _layer, _one_step = write_recurrent(_cell, _letters)
    writes(_name)(_layer)
    writes(_name + "_cell")(_one_step)


# Losses


@writes("cross_entropy")
def write_cross_entropy(at, input, target, *_, **__):
    x = at.floating(input)
    if at.shape != ():
        return None
    if isinstance(target, Data) and not target.dtype.is_floating_point:
        return classes_loss(at, x, target)
    axis = 1 if len(x.shape) > 1 else 0
    chances = write_last_dim(at, x, axis, "softmax")
    logs = at.op("log", [chances], x.shape, part="log")
    product = at.op("mul", [logs, at.floating(target)], x.shape, part="mul")
    product = at.affine(product, -x.shape[axis] / math.prod(x.shape), part="mean")
    return at.reduced(product, list(range(len(x.shape))), "sum", part="sum")


def classes_loss(at, x, target):
    """cross_entropy over the last dim, with the dims that the logits had before they were flattened."""
    rank = len(x.shape)
    if rank > 2:
        x = at.transposed(x, [0, *range(2, rank), 1], "classes_last")
    elif rank == 1:
        x = at.reshaped(x, (1, *x.shape), "row")
    else:
        made = at.maker(x, "reshape")
        source = at.tensor(made["inputs"][0]) if made else x
        x = source if source.shape[-1:] == x.shape[-1:] and len(source.shape) > 1 else x
    shape = x.shape[:-1]
    key = target.name if at.inputs.get(target.name, {}).get("shape") == list(shape) else target.key
    labels = at.data(target.name, shape, str(target.dtype).replace("torch.", ""), key)
    return at.op("cross_entropy", [x, labels], ())


@writes("nll_loss_forward")
def write_nll_loss_forward(at, input, target, *_):
    result = write_nll_loss(at, input, target)
    return result and (result, Unavailable("the weight of all labels"))


@writes("nll_loss", "nll_loss_nd")
def write_nll_loss(at, input, target, *_, **__):
    x = at.floating(input)
    log = at.maker(x, "log")
    softmax = at.maker(at.tensor(log["inputs"][0]), "softmax") if log else None
    if softmax is None or not isinstance(target, Data) or at.shapes[0] != ():
        return None
    return classes_loss(at, at.tensor(softmax["inputs"][0]), target)


@writes("mse_loss")
def write_mse_loss(at, input, target, *_, **__):
    x, y = at.floating(input), at.floating(target)
    if at.shape != ():
        return at.power(write_binary(at, "sub", x, y), 2, part="square")
    return at.op("squared_error", [x, y], ()) if x.shape == y.shape else None


@writes("binary_cross_entropy_with_logits")
def write_bce_with_logits(at, input, target, *_, **__):
    x, y = at.floating(input), at.floating(target)
    if at.shape != () or x.shape != y.shape:
        return None
    return at.op("binary_cross_entropy", [x, y], ())


@writes("binary_cross_entropy")
def write_bce(at, input, target, *_, **__):
    made = at.maker(at.floating(input), "sigmoid")
    if made is None or at.shape != ():
        return None
    return at.op("binary_cross_entropy", [at.tensor(made["inputs"][0]), at.floating(target)], ())


@writes("smooth_l1_loss", "huber_loss")
def write_smooth_l1_loss(at, input, target, *_, beta=1.0, delta=1.0, **__):
    difference = write_binary(at, "sub", input, target)
    size = at.op("abs", [difference], difference.shape, part="abs")
    width = delta if function_name(at.label) == "huber_loss" else beta
    if width <= 0:
        return None
    near = at.op("clip", [size], size.shape, part="near", high=float(width))
    far = at.op("sub", [size, at.affine(near, 0.5, part="half")], size.shape, part="far")
    loss = at.op("mul", [near, far], size.shape)
    loss = at.affine(
        loss, delta / width if function_name(at.label) == "huber_loss" else 1 / width, part="scale"
    )
    return loss if at.shape != () else at.reduced(loss, list(range(len(loss.shape))), "mean", part="mean")


@writes("kl_div")
def write_kl_div(at, input, target, *_, reduction="mean", log_target=False, **__):
    x, y = at.floating(input), at.floating(target)
    logs = y if log_target else at.op("log", [y], y.shape, part="log")
    chances = at.op("exp", [y], y.shape, part="exp") if log_target else y
    loss = at.op("mul", [at.op("sub", [logs, x], x.shape, part="sub"), chances], x.shape)
    if at.shape != ():
        return loss
    if reduction == "batchmean":
        loss = at.affine(loss, 1 / x.shape[0], part="scale")
    return at.reduced(loss, list(range(len(x.shape))), "mean" if reduction == "mean" else "sum", part="sum")


@writes("l1_loss")
def write_l1_loss(at, input, target, *_, **__):
    difference = write_binary(at, "sub", input, target)
    size = at.op("abs", [difference], difference.shape, part="abs")
    return size if at.shape != () else at.reduced(size, list(range(len(size.shape))), "mean", part="mean")


# ---------------------------------------------------------------------------------------------------------
# The finished file


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


# ---------------------------------------------------------------------------------------------------------
# A named batch


def with_named_batch(document, doubled, batch):
    """The document with "b" for the batch; `doubled` is the same model with twice the samples. The document
    as it is where some size grows in another way."""
    try:
        named = in_terms_of_batch(
            {k: document[k] for k in ("inputs", "operators")},
            {k: doubled[k] for k in ("inputs", "operators")},
            batch,
        )
    except ValueError:
        return document
    result = {}
    for key, value in document.items():
        if key == "batch":
            result["sizes"] = {"b": batch}
        result[key] = "b" if key == "batch" else named.get(key, value)
    return result


def mistaken_for_samples(document, batch):
    """pipesim takes the first dim of an input for samples where it is as long as the batch."""
    names = [entry["name"] for entry in document["inputs"] if entry["shape"][:1] == [batch]]
    if document["batch"] == batch or not names:
        return []
    return [f"the first dim of {first_of(names)} is as long as the batch, {batch}, and is taken for samples; "
            "another batch tells them apart"]  # fmt: skip


def in_terms_of_batch(one, two, batch):
    if type(one) is not type(two):
        raise ValueError
    if isinstance(one, dict):
        if list(one) != list(two):
            raise ValueError
        return {key: in_terms_of_batch(one[key], two[key], batch) for key in one}
    if isinstance(one, list):
        if len(one) != len(two):
            raise ValueError
        return [in_terms_of_batch(a, b, batch) for a, b in zip(one, two)]
    if one == two:
        return one
    if type(one) is not int or two != 2 * one or one % batch != 0:
        raise ValueError
    return "b" if one == batch else f"{one // batch}*b"


def doubled_inputs(inputs, names, batch, anywhere):
    """The inputs with twice the samples: the first dim, or the first dim of that length with `anywhere`."""

    def double(a):
        if not isinstance(a, torch.Tensor):
            return a
        shape = list(a.shape)
        places = [i for i, n in enumerate(shape) if n == batch]
        if places and (anywhere or places[0] == 0):
            shape[places[0]] *= 2
        return torch.empty(shape, dtype=a.dtype, device="meta")

    return mapped(double, (tuple(inputs), dict(names)))


# ---------------------------------------------------------------------------------------------------------
# Capture

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


def first_of(names):
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


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


# ---------------------------------------------------------------------------------------------------------
# The command

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


def parsed_input(text):
    """`tokens=int64[8,1024]` as its name, which may be empty, and a tensor without values."""
    match = re.fullmatch(r"(?:([A-Za-z_]\w*)=)?(\w+)\[([\d, ]*)\]", text.strip())
    if match is None:
        raise CaptureError(
            f"--input: found {text!r}, allowed: dtype[dims] such as int64[8,1024], or NAME=dtype[dims]"
        )
    name, dtype, dims = match.groups()
    if dtype not in DTYPES:
        raise CaptureError(f"--input: unknown type {dtype!r} in {text!r}, allowed: {', '.join(DTYPES)}")
    try:
        shape = [int(d) for d in dims.split(",")] if dims.strip() else []
    except ValueError:
        raise CaptureError(
            f"--input: found dims {dims!r} in {text!r}, allowed: integers joined by commas"
        ) from None
    if any(d < 1 for d in shape):
        raise CaptureError(f"--input: found dim {min(shape)} in {text!r}, allowed: 1 or more")
    return name or "", torch.empty(shape, dtype=getattr(torch, dtype), device="meta")


def command_inputs(texts):
    inputs, names = [], {}
    for text in texts:
        name, tensor = parsed_input(text)
        if name in names:
            raise CaptureError(f"--input: a second input named {name!r}")
        if name:
            names[name] = tensor
        elif names:
            raise CaptureError(
                f"--input: {text!r} has no name but follows one that has, allowed: names come last"
            )
        else:
            inputs.append(tensor)
    return inputs, names


def loaded(target):
    """What MODULE:NAME names: MODULE is importable from here, or a file."""
    place, separator, name = target.rpartition(":")
    if not separator or not place or not name:
        raise CaptureError(
            f"found {target!r}, allowed: MODULE:NAME or FILE.py:NAME, such as my_module:make_model"
        )
    try:
        if place.endswith(".py"):
            if not os.path.isfile(place):
                raise CaptureError(f"no such file: {place!r}")
            sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
            label = os.path.splitext(os.path.basename(place))[0]
            spec = importlib.util.spec_from_file_location(label, place)
            module = importlib.util.module_from_spec(spec)
            sys.modules[label] = module
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
    except CaptureError:
        raise
    except Exception as error:
        where = f" ({line_of(error)})" if line_of(error) else ""
        raise CaptureError(
            f"cannot import {place!r}{where}: {type(error).__name__}: {one_line(error)}"
        ) from error
    if not hasattr(module, name):
        public = [n for n in vars(module) if callable(getattr(module, n)) and not n.startswith("_")]
        public = [n for n in public if getattr(getattr(module, n), "__module__", "") == module.__name__]
        raise CaptureError(
            f"{place!r} has no {name!r}, allowed: {', '.join(sorted(public)) or 'it defines nothing'}"
        )
    return getattr(module, name)


def made_module(found, target):
    """The module, and inputs that came with it or None."""
    if not isinstance(found, nn.Module) and callable(found):
        try:
            found = found()
        except Exception as error:
            where = f" ({line_of(error)})" if line_of(error) else ""
            raise CaptureError(f"{target}(){where}: {type(error).__name__}: {one_line(error)}") from error
    inputs = None
    if isinstance(found, tuple) and len(found) == 2:
        found, inputs = found
    if not isinstance(found, nn.Module):
        raise CaptureError(
            f"{target}: found {type(found).__name__}, allowed: a torch.nn.Module, (module, inputs), "
            "or a function without arguments that returns one of them"
        )
    return found, inputs


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise CaptureError(f"{message}; see --help")


def parser():
    result = Parser(
        prog="python -m pipesim.capture", description="Writes a PyTorch module as a model file of pipesim."
    )
    result.add_argument("target", metavar="MODULE:NAME", help="a function that returns a module, or (module, inputs); "
                        "or a module; FILE.py:NAME too")  # fmt: skip
    result.add_argument("--input", action="append", default=[], metavar="[NAME=]DTYPE[DIMS]",
                        help="an argument of forward, such as int64[8,1024]; once for each")  # fmt: skip
    result.add_argument("-o", "--output", metavar="FILE", help="the model file; stdout if left out")
    result.add_argument("--name", help="the model's name in reports; that of the module's class if left out")
    result.add_argument("--batch", type=int, help="samples, if the first dim of the first input does not say")
    result.add_argument("--dtype", choices=sorted(FLOATING.values()), help="type of weights and results; "
                        "that of most parameters if left out")  # fmt: skip
    result.add_argument("--by", choices=["export", "fx"], help="torch.export or torch.fx; if left out, "
                        "torch.export where there is one")  # fmt: skip
    return result


def run(arguments):
    options = parser().parse_args(arguments)
    if options.batch is not None and options.batch < 1:
        raise CaptureError(f"--batch: found {options.batch}, allowed: 1 or more")
    with contextlib.redirect_stdout(sys.stderr):  # what the module prints
        document, notes = captured_by_command(options)
    if options.output is None:
        sys.stdout.write(to_text(document))
    else:
        write(document, options.output)
    for line in notes:
        print(f"capture: {line}", file=sys.stderr)


def captured_by_command(options):
    weightless = Weightless()
    inputs, names = command_inputs(options.input)
    with weightless:
        module, own = made_module(loaded(options.target), options.target)
    if not inputs and not names:
        if own is None:
            raise CaptureError(
                f"{options.target} says no inputs, so --input is needed, such as --input 'int64[8,1024]'"
            )
        inputs, names = arguments(own)
    notes = []
    document = capture(module, (inputs, names), options.name, batch=options.batch, dtype=options.dtype,
                       by=options.by, weightless=weightless, notes=notes)  # fmt: skip
    return document, notes


def main(arguments=None):
    """Runs the command; returns its exit status."""
    warnings.simplefilter("ignore")
    try:
        run(sys.argv[1:] if arguments is None else arguments)
    except CaptureError as error:
        print(f"capture: {one_line(error)}", file=sys.stderr)
        return 1
    except Exception as error:
        trace = error.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        why = f"{type(error).__name__}: {one_line(error)} ({place})"
        print(f"capture: {why}; this is a bug in pipesim.capture", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.modules["pipesim.capture"] = sys.modules["__main__"]  # for models that add to the table
    sys.exit(main())
