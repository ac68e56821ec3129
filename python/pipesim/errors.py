"""What goes wrong in pipesim, as exceptions. Each message is one line.

Functions that are commands raise the line that the command prints. Models, topologies, plans and problems name the
arguments of Python instead of options.
"""


class Error(Exception):
    """Any error of pipesim."""


class InputError(Error, ValueError):
    """A model, topology, plan or file can't be used. The line says where, what was found, and what is allowed."""


class UsageError(Error, ValueError):
    """Arguments are missing, can't be read, or do not go together."""


class DeviceError(Error, RuntimeError):
    """A device or a program that pipesim starts failed."""


class OutOfMemory(Error, MemoryError):
    """Memory ran out. The line says what was being made and how to need less."""


class InternalError(Error, RuntimeError):
    """A bug in pipesim."""


class Interrupted(Error):
    """The call was asked to end before it had a result: a progress callback raised StopIteration."""


class Notice(UserWarning):
    """What a command says beside its result, as a warning."""
