"""Tracing by torch.fx: a graph of calls."""

import contextlib
import dataclasses
import inspect
import operator
import os
import re
import sys
import warnings

import torch
import torch.fx
import torch.nn as nn
import torch.nn.functional as F

from .errors import CaptureError, is_users, line_of, one_line
from .functions import WRITERS, each
from .weightless import flat, mapped, replaced, shape_only
from .proxies import MAKES_CONSTANTS, READS_VALUES, ReadsValues, SHAPE_OF_VALUES, TensorProxy


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
