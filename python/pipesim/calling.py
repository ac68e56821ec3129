"""Calls commands of the compiled part, with Python's values for options."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import errors

#: A path of a file or folder.
PathLike = Union[str, os.PathLike[str]]

INTERRUPTED = 130  # an exit status


@dataclass(frozen=True)
class Progress:
    """How far a call is."""

    text: str  #: for people: "12 of 40 points, about 3 s left"
    share: Optional[float]  #: of all the work, or of the time it may take, from 0 to 1; None: not known
    best_time_s: Optional[float]  #: an iteration of the best plan so far, in seconds; None: no plan yet

    def __str__(self) -> str:
        return self.text


#: Called about ten times a second. What it raises ends the call; StopIteration ends it with the results so far.
ProgressCallback = Callable[[Progress], object]


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    status: int  #: 0: done; 1: a plan that does not fit
    document: Dict[str, Any]  #: what `--json` prints
    plan: Optional[str]  #: the plan file that was made, if one was
    messages: str  #: what the command said beside its result
    stopped: bool  #: the call was asked to end


def compiled() -> ModuleType:
    """The compiled part. ImportError, with what to do, where it is missing."""
    try:
        import _pipesim
    except ImportError as error:
        raise ImportError(
            "the compiled part of pipesim is missing: tools/python builds it and starts Python with it, or add "
            f"the folder build/release/python to PYTHONPATH ({error})",
            name="_pipesim",
        ) from error
    return _pipesim


def text_of(value: object) -> str:
    """As an option's value is written."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    as_text = getattr(value, "_as_option", None)
    if as_text is not None:
        return str(as_text())
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"found {value!r}, allowed: text, a number, a path, or an object of pipesim")


def settings_of(values: Mapping[str, object]) -> List[str]:
    """{"nodes": [1, 2]} as ["nodes=1,2"]."""
    return [f"{key}={','.join(text_of(one) for one in several(value))}" for key, value in values.items()]


def several(value: object) -> Sequence[object]:
    """The values of a list or a tuple; another value alone."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def words_of(options: Mapping[str, object]) -> List[str]:
    """Options as the words of a command line. None and False are left out."""
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        if isinstance(value, Mapping):
            value = settings_of(value)
        for one in several(value):
            try:
                words.append(f"{option}={text_of(one)}")
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
    return words


def execution_program() -> str:
    """The program that runs plans on devices: PIPESIM_EXECUTION, or where it was built or installed."""
    built = os.path.join(os.path.dirname(compiled().__file__ or ""), os.pardir, "pipesim-execution")
    for path in (os.environ.get("PIPESIM_EXECUTION"), os.path.normpath(built), "/usr/libexec/pipesim/pipesim-execution"):
        if path and os.access(path, os.X_OK):
            return path
    raise errors.DeviceError(
        "the program pipesim-execution, which runs plans on devices, is not there; `tools/pipesim devices` builds "
        "it, and PIPESIM_EXECUTION names it elsewhere"
    )


#: Exit statuses of the program.
ERRORS = {1: errors.InputError, 2: errors.UsageError, 3: errors.DeviceError, 70: errors.InternalError}


def run_program(command: str, words: List[str]) -> Dict[str, Any]:
    """The same as the compiled part's call_command, of what runs plans on devices. Progress is not told."""
    ran = subprocess.run([execution_program(), command, *words], capture_output=True, text=True)
    if ran.returncode not in (0, INTERRUPTED) and not (ran.returncode == 1 and ran.stdout):
        line = ran.stderr.strip().removeprefix("pipesim: ")
        raise ERRORS.get(ran.returncode, errors.DeviceError)(line or f"{command}: ended with status {ran.returncode}")
    document = json.loads(ran.stdout) if ran.stdout else None
    return {"status": ran.returncode, "document": document, "plan": None, "stopped": False, "messages": ran.stderr}


def call(command: str, options: Dict[str, object], *flags: str) -> Answer:
    """Runs a command with these options, and with --json and the other flags. `options` may have a progress
    callback. Raises the exceptions of pipesim.errors, KeyboardInterrupt on Ctrl-C, and what the callback raises.
    """
    options = dict(options)
    progress = options.pop("progress", None)
    told = None
    if callable(progress):
        call_back = progress
        told = lambda *now: call_back(Progress(*now))  # noqa: E731
    elif progress is not None:
        raise TypeError(f"progress: found {progress!r}, allowed: a function of a Progress")
    words = words_of(options) + [f"--{flag}" for flag in ("json", *flags)]
    try:
        given = compiled().call_command(command, words, told)
    except compiled().NeedsExecution:
        given = run_program(command, words)
    messages = given["messages"]
    if given["document"] is None:
        raise errors.Interrupted(messages.strip() or f"{command}: ended before it had a result")
    if given["status"] == 0 and not given["stopped"]:
        for line in messages.splitlines():
            warnings.warn(line.removeprefix("pipesim: "), errors.Notice, stacklevel=3)
    return Answer(given["status"], given["document"], given["plan"], messages, given["stopped"])
