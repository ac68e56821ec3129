"""Calls commands of the compiled part, with Python's values for options."""

from __future__ import annotations

import json
import math
import numbers
import os
import subprocess
import warnings
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any, Callable, Dict, Iterable, List, Mapping, NoReturn, Optional, Union

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


MISSING = (
    "the compiled part of pipesim is missing: tools/python builds it and starts Python with it, or put the folder "
    "build/release/python first into PYTHONPATH"
)


def compiled() -> ModuleType:
    """The compiled part. ImportError, with what to do, where it is missing."""
    try:
        import _pipesim
    except ImportError as error:
        raise ImportError(f"{MISSING} ({error})", name="_pipesim") from error
    return _pipesim


def not_built(**options: object) -> NoReturn:
    """Stands for each command where the build has not written the module of commands. ImportError, with what to do."""
    raise ImportError(f"{MISSING} (this is {os.path.dirname(__file__)}, without commands.py)", name="_pipesim")


def shown(value: object) -> str:
    """A value in a message: on one line, and short."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # the caller's classes may raise anything, and Python refuses to write very long integers
        text = "…"
    return text if len(text) <= 80 else text[:79] + "…"


def described(value: object) -> str:
    """A value of a wrong type in a message."""
    return "None" if value is None else f"{shown(value)} of type {type(value).__name__}"


def is_number(value: object) -> bool:
    """Whether it is a real number of Python or NumPy. Booleans are not."""
    return isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool)


def text_named(name: str, value: object) -> str:
    """The argument `name` as text that the compiled part takes."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: found {described(value)}, allowed: text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.UsageError(f"{name}: found {shown(value)}, allowed: text without surrogates") from None
    return value


def texts_named(name: str, values: Any) -> List[str]:
    """The argument `name` as a list of texts that the compiled part takes."""
    if not is_list(values):
        raise TypeError(f"{name}: found {described(values)}, allowed: a list of names")
    return [text_named(name, text) for text in values]


#: The whole numbers that the compiled part takes.
WHOLE = (-(2**63), 2**63 - 1)


def whole_number(name: str, value: Any, least: int = WHOLE[0], most: int = WHOLE[1]) -> int:
    """The argument `name` as a whole number from `least` to `most`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise TypeError(f"{name}: found {described(value)}, allowed: a whole number")
    number = int(value)
    if not least <= number <= most:
        allowed = "whole numbers of 64 bits" if (least, most) == WHOLE else f"from {least} to {most}"
        raise errors.UsageError(f"{name}: found {shown(number)}, allowed: {allowed}")
    return number


def number_named(name: str, value: Any, least: float = -math.inf) -> float:
    """The argument `name` as a number from `least` on, which may be infinite."""
    if isinstance(value, float) and value >= least:
        return value
    if not is_number(value):
        raise TypeError(f"{name}: found {described(value)}, allowed: a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # more digits than a float has; a nan that signals
        number = math.nan
    if not number >= least:
        allowed = "numbers" if least == -math.inf else f"numbers from {least:g} on"
        raise errors.UsageError(f"{name}: found {shown(value)}, allowed: {allowed}")
    return number


def size_named(name: str, value: Any, unit: str) -> str:
    """The argument `name`, which is text or a number in this unit, as text that the compiled part takes."""
    if isinstance(value, str) and value:
        return text_named(name, value)
    if not is_number(value):
        raise TypeError(f"{name}: found {described(value)}, allowed: text with a number, or a number")
    number_named(name, value)
    return text_of(value) + unit


def path_named(name: str, value: Any) -> bytes:
    """The argument `name`, which is a path, as the compiled part takes it."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: found {described(value)}, allowed: a path")
    try:
        path = os.fsencode(value)
    except UnicodeEncodeError:
        path = b""
    if not path or b"\0" in path:
        raise errors.UsageError(f"{name}: found {shown(value)}, allowed: a path")
    return path


def text_of(value: Any) -> str:
    """As an option's value is written."""
    as_text = getattr(value, "_as_option", None)
    if as_text is not None:
        return str(as_text())
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    if not is_number(value):
        raise TypeError(f"found {described(value)}, allowed: text, a number, a path, or an object of pipesim")
    if isinstance(value, numbers.Integral):
        return str(int(value))
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def is_list(value: object) -> bool:
    """A list, a set, an array, and so on."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike, Mapping))


def several(value: Any) -> List[object]:
    """The values of a list; another value alone."""
    return list(value) if is_list(value) else [value]


def settings_of(values: Mapping[Any, object]) -> List[str]:
    """{"nodes": [1, 2]} as ["nodes=1,2"]; where a value has commas, semicolons stand between them."""
    texts = []
    for key, value in values.items():
        parts = [text_of(one) for one in several(value)]
        if not is_list(value) or all("," not in part for part in parts):
            texts.append(f"{key}={','.join(parts)}")
        elif any(";" in part for part in parts):
            raise TypeError(f"{key}: found {parts}, allowed: values with commas, or values with semicolons, but not both")
        else:
            texts.append(f"{key}={';'.join(parts)}" + (";" if len(parts) == 1 else ""))
    return texts


#: Units of plain numbers, by what an option takes.
UNITS = {"TIME": " s", "SIZE": " B", "MARGIN": " B"}


def word_of(name: str, argument: str, value: object) -> str:
    """A value of an option that takes `argument`."""
    if isinstance(value, Mapping):
        raise TypeError("found a dict, allowed: text, a path, or an object; pipesim.Model(…) makes a model of a dict")
    return f"--{name}={text_of(value)}" + (UNITS.get(argument, "") if is_number(value) else "")


def words_of(command: str, options: Mapping[str, object]) -> List[str]:
    """Options as the words of a command line; None is left out."""
    known = compiled().options_of(command)
    words: List[str] = []
    for keyword, value in options.items():
        name = keyword.rstrip("_").replace("_", "-")
        argument, may_stand_alone, repeated = known[name]
        if value is None or (value is False and (not argument or may_stand_alone)):
            continue
        try:
            if not argument and not isinstance(value, bool):
                raise TypeError(f"found {described(value)}, allowed: True or False")
            if value is True and (not argument or may_stand_alone):
                words.append(f"--{name}")
            elif repeated and isinstance(value, Mapping):
                words += [f"--{name}={setting}" for setting in settings_of(value)]
            elif repeated:
                words += [word_of(name, argument, one) for one in several(value)]
            else:
                words.append(word_of(name, argument, value))
        except TypeError as error:
            raise TypeError(f"{keyword}: {error}") from None
    return words


def execution_program() -> str:
    """The program that runs plans on devices: PIPESIM_EXECUTION, or where it was built or installed."""
    built = os.path.join(os.path.dirname(compiled().__file__ or ""), os.pardir, "pipesim-execution")
    named = os.environ.get("PIPESIM_EXECUTION")
    for path in [named] if named else [os.path.normpath(built), "/usr/libexec/pipesim/pipesim-execution"]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise errors.DeviceError(
        "the program pipesim-execution, which runs plans on devices, is not there; `tools/pipesim devices` builds "
        "it, and PIPESIM_EXECUTION names it elsewhere"
    )


#: Exit statuses of the program.
ERRORS = {1: errors.InputError, 2: errors.UsageError, 3: errors.DeviceError, 70: errors.InternalError}


def run_program(command: str, words: List[str]) -> Dict[str, Any]:
    """The same as the compiled part's call_command, of what runs plans on devices. Progress is not told."""
    program = execution_program()
    try:
        ran = subprocess.run(
            [program, command, *words], capture_output=True, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise errors.DeviceError(f"can't start {program}: {error.strerror}") from None
    if ran.returncode not in (0, INTERRUPTED) and not (ran.returncode == 1 and ran.stdout):
        line = ran.stderr.strip().removeprefix("pipesim: ")
        raise ERRORS.get(ran.returncode, errors.DeviceError)(line or f"{command}: ended with status {ran.returncode}")
    try:
        document = json.loads(ran.stdout)
    except ValueError:
        raise errors.DeviceError(f"{program}: is not pipesim-execution: it printed no JSON") from None
    return {"status": ran.returncode, "document": document, "plan": None, "stopped": False, "messages": ran.stderr}


def told_to(progress: object) -> Optional[Callable[..., object]]:
    """What the compiled part calls for a callback of the user's."""
    if progress is None:
        return None
    if not callable(progress):
        raise TypeError(f"progress: found {described(progress)}, allowed: a function of a Progress")
    call_back = progress
    return lambda *now: call_back(Progress(*now))


def call(command: str, options: Dict[str, object], *flags: str) -> Answer:
    """Runs a command with these options, and with --json and the other flags. `options` may have a progress
    callback. Raises the exceptions of pipesim.errors, KeyboardInterrupt on Ctrl-C, and what the callback raises.
    """
    options = dict(options)
    told = told_to(options.pop("progress", None))
    words = words_of(command, options) + [f"--{flag}" for flag in ("json", *flags)]
    if options.get("output") is not None and getattr(options.get("model"), "is_temporary", False):
        raise errors.UsageError(
            "output: the model was made of a dict, which a plan file can't name; write it with Model.save(), and "
            "open that file"
        )
    try:
        given = compiled().call_command(command, [os.fsencode(word) for word in words], told)
    except compiled().NeedsExecution:
        given = run_program(command, words)
    messages = given["messages"]
    if given["document"] is None:
        raise errors.Interrupted(messages.strip() or f"{command}: ended before it had a result")
    if given["status"] == 0 and not given["stopped"]:
        for line in messages.splitlines():
            warnings.warn(line.removeprefix("pipesim: ").removeprefix("note: "), errors.Notice, stacklevel=3)
    return Answer(given["status"], given["document"], given["plan"], messages, given["stopped"])
