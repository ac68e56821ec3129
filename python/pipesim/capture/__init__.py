"""Writes a PyTorch module as a model file of pipesim.

    python -m pipesim.capture my_module:make_model --input 'int64[8,1024]' -o model.json

Nothing is computed and no weight takes memory: modules are made and run with tensors that have a shape only. torch
1.13 or later is needed. `tools/scripts/capture-file` writes all of it as one file that runs alone.

    weightless          modules made under Weightless take no memory
    proxies, tracing    torch.fx, with proxies that know their shapes: a graph of calls
    exporting           the same by torch.export
    model_writer        ModelWriter goes through the calls and writes operators, with the writers of a table
    functions, writers  one function for each torch function; `writes` puts it into the table
    finished            drops what no result needs, shares weights, finds repeats
    capturing           capture() and write(), for use in notebooks
    command             the command
"""

import sys

try:
    import torch  # noqa: F401
except ImportError as error:
    if sys.argv[:1] != ["-m"]:  # what it is while Python looks for the module of `python -m`
        raise
    sys.exit(f"capture: torch 1.13 or later is needed: {error}")

from . import writers
from .capturing import capture, to_text, write
from .command import command_inputs, main
from .errors import CaptureError
from .finished import finished
from .functions import WRITERS, Unavailable, writes
from .model_writer import ModelWriter
from .tracing import input_labels
from .values import Data, Value, Weight
from .weightless import Weightless, flat
