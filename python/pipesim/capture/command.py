"""The command."""

import argparse
import contextlib
import importlib
import importlib.util
import os
import re
import sys
import warnings

import torch
import torch.fx
import torch.nn as nn

from .errors import CaptureError, line_of, one_line
from .weightless import Weightless
from .capturing import FLOATING, arguments, capture, to_text, write


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
