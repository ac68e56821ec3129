"""What is wrong with a module or with the command, and where."""

import contextlib
import os

import torch


class CaptureError(Exception):
    """What is wrong with a module or with the command, in one line."""


OWN = os.path.dirname(__file__) + os.sep if __package__ else __file__  # the package, or a file of all its parts
NOT_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(contextlib.__file__) + os.sep, "<")


def is_users(path):
    """Whether a source file is neither torch's, nor Python's, nor one of these."""
    installed = "-packages" + os.sep in path
    return not path.startswith(OWN) and not path.startswith(NOT_USERS[0] if installed else NOT_USERS)


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
