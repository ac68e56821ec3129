"""Modules that stand in for those a framework imports and this machine lacks, such as torch and transformer_engine.

install() makes every module that can't be found one whose attributes can be called, subclassed and used as decorators, so
that a framework's arguments and configurations, which are plain Python, can be checked without a GPU and without PyTorch.
Nothing is computed: comparisons are false, loops are empty.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
import typing

def custom_op(*names, **options):
    """torch.library's: its functions are registered further by decorators."""

    def registered(function):
        for name in ("register_fake", "register_autograd", "register_kernel", "register_vmap", "impl", "def_"):
            setattr(function, name, lambda *args, **kwargs: args[0] if args else registered)
        return function

    return registered


class DataType:
    """torch.dtype; the types are compared, and looked for among its instances."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name


TYPES = {name: DataType(name) for name in ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")}
TYPES.update(half=TYPES["float16"], float=TYPES["float32"], double=TYPES["float64"], long=TYPES["int64"])

# What checks ask for by value: devices are H100s, and libraries are new.
VALUES = {"major": 9, "minor": 0, "__version__": "2.11.0", "CUDA_HOME": "/usr/local/cuda",
          "custom_op": custom_op, "triton_op": custom_op, "get_device_capability": lambda *_: (9, 0)}
VERSIONS = {"torch": "2.11.0", "transformer-engine": "2.8.0", "transformer_engine": "2.8.0", "flash-attn": "2.8.3",
            "torchao": "0.20.0", "triton": "3.6.0"}


VALUES.update(TYPES, dtype=DataType)

# Modules of other systems, which Python's own library looks for.
PLATFORMS = {"_winapi", "winreg", "msvcrt", "java", "org", "pwd", "usercustomize", "sitecustomize"}


# What frameworks do without, and check more of where it is there.
OPTIONAL = {"OpenSSL", "nvidia_resiliency_ext", "multistorageclient", "modelopt", "one_logger_utils", "nvtx", "flashinfer", "emerging_optimizers"}


def is_special(name):
    return name.startswith("__") and name.endswith("__")


class StandInType(type(typing.Protocol)):
    """Classes that have every attribute."""

    def __getattr__(cls, name):
        if name in VALUES:
            return VALUES[name]
        if is_special(name) or name.startswith("_abc") or name.startswith("_is_"):
            raise AttributeError(name)
        found = make(name)
        setattr(cls, name, found)
        return found

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())

    def __call__(cls, *args, **kwargs):
        if not cls.__dict__.get("is_stand_in"):
            return super().__call__(*args, **kwargs)
        decorates = len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))
        return args[0] if decorates else Made()


class StandIn(metaclass=StandInType):
    """A base of classes of frameworks, in place of torch.nn.Module and others."""

    is_stand_in = True
    _is_protocol = False

    def __init__(self, *args, **kwargs):
        pass


def make(name):
    return StandInType(name, (StandIn,), {"is_stand_in": True})


class Made:
    """What calling a stand-in returns."""

    __file__ = "stand-in"

    def __getattr__(self, name):
        if name in VALUES:
            return VALUES[name]
        if is_special(name):
            raise AttributeError(name)
        found = make(name)
        self.__dict__[name] = found
        return found

    def __call__(self, *args, **kwargs):
        decorates = len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))
        return args[0] if decorates else Made()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __int__(self):
        return 0

    def __float__(self):
        return 0.0

    def __getitem__(self, key):
        return Made()

    def __lt__(self, other):
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def _same(self, *others):
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __neg__ = _same


class StandInModule(types.ModuleType):
    """A module with every attribute."""

    def __getattr__(self, name):
        if name in VALUES:
            return VALUES[name]
        if is_special(name):
            raise AttributeError(name)
        found = make(name)
        setattr(self, name, found)
        return found


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last, so that it sees only modules that nobody else finds."""

    def __init__(self, own):
        self.own = own

    def find_spec(self, fullname, path, target=None):
        package, _, rest = fullname.partition(".")
        if rest and not isinstance(sys.modules.get(fullname.rpartition(".")[0]), StandInModule):
            return None
        if package in self.own or package in sys.stdlib_module_names or package in PLATFORMS | OPTIONAL:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return StandInModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


class PartFinder(StandInFinder):
    """Comes first, for parts of a framework that no check needs."""

    def find_spec(self, fullname, path, target=None):
        if not any(fullname == part or fullname.startswith(part + ".") for part in self.own):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)


def install(own, parts=()):
    """`own`: packages whose missing modules are errors, but for some parts of them."""
    try:
        import packaging.version  # noqa: F401
    except ImportError:  # pip has a copy
        from pip._vendor import packaging
        sys.modules["packaging"] = packaging
        sys.modules["packaging.version"] = importlib.import_module("pip._vendor.packaging.version")
    if not hasattr(typing, "override"):  # of Python 3.12
        typing.override = lambda method: method
    sys.meta_path.append(StandInFinder(own))
    sys.meta_path.insert(0, PartFinder(parts))
    real = importlib.metadata.version

    def version(name):
        return VERSIONS[name] if name in VERSIONS else real(name)

    importlib.metadata.version = version
