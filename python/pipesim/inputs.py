"""Models, topologies and plans."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple, Union

from .calling import PathLike, call, compiled, described, path_named, settings_of, text_named, texts_named, whole_number
from .html import page, significant, table
from .errors import InputError

if TYPE_CHECKING:
    import _pipesim
    import pandas


def written(path: PathLike, text: str) -> None:
    """InputError where that fails; then a file that was there is as it was."""
    compiled().write_file(os.fsencode(path), text)


#: Files of this process for commands to read, with the process that made them: a fork must not remove its parent's.
_kept: Dict[str, int] = {}


def kept_file(text: str, suffix: str) -> str:
    """A file that commands read, until Python ends."""
    if not _kept:
        atexit.register(remove_kept_files)
    descriptor, path = tempfile.mkstemp(prefix="pipesim-", suffix=suffix)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    _kept[path] = os.getpid()
    return path


def is_kept(model: str) -> bool:
    """Whether a model's text names one of them."""
    return model.partition(":")[0] in _kept


def remove_kept_files() -> None:
    for path, process in _kept.items():
        if process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(path)


@dataclass(frozen=True)
class OperatorInfo:
    """An operator of a model."""

    name: str
    kind: str
    parameters: int  #: those that operators share count at their first use
    forward_flops: float  #: floating-point operations of a forward pass of a whole batch
    factors: Dict[str, int]  #: the index ranges along which it can be split


class Model:
    """A model.

    Args:
        source: what `model=` takes as text: a model of the zoo with options ("llama3-8b:batch=8"), a model file
            (.json), an ONNX file, a config.json of Hugging Face; or a dict, as `pipesim.capture.capture` makes it.
            Functions read a file again when they are called.
        **settings: options of the model, such as batch=8.
    """

    def __init__(self, source: Union[str, os.PathLike[str], Mapping[str, Any]], **settings: object) -> None:
        if isinstance(source, Mapping):
            text = kept_file(json.dumps(source), ".model.json")
        elif isinstance(source, (str, os.PathLike)):
            text = text_named("model", os.fspath(source))
        else:
            raise TypeError(f"model: found {described(source)}, allowed: a name, a file, or a dict of a model file")
        texts = settings_of(settings)
        #: how the model is named to commands
        self.text: str = compiled().model_text(text, texts)
        self._graph: _pipesim.OperatorGraph = compiled().OperatorGraph(self.text)

    @property
    def name(self) -> str:
        return self._graph.name

    @property
    def is_temporary(self) -> bool:
        """Made of a dict: files of plans can't name it, since it ends with Python."""
        return is_kept(self.text)

    @property
    def batch(self) -> int:
        """Samples of a microbatch."""
        return self._graph.batch

    @property
    def parameters(self) -> int:
        """Elements of all weights; shared ones count once."""
        return self._graph.parameters

    @property
    def trained_parameters(self) -> int:
        """Without those that are frozen."""
        return self._graph.parameters - self._graph.frozen_parameters

    @property
    def forward_flops(self) -> float:
        """Floating-point operations of a forward pass of a whole batch; a multiply and an add are two."""
        return self._graph.forward_flops

    @property
    def fingerprint(self) -> str:
        """Equal for models that any plan treats alike."""
        return self._graph.fingerprint

    @property
    def operators(self) -> List[OperatorInfo]:
        """In an order in which they can run."""
        return [OperatorInfo(*operator) for operator in self._graph.operators()]

    def to_json(self) -> str:
        """The text of a model file."""
        return self._graph.to_json()

    def save(self, path: PathLike) -> None:
        """Writes a model file, or where the name ends in .onnx an ONNX file of the forward pass."""
        if os.fspath(path).endswith(".onnx"):
            self._graph.write_onnx(os.fspath(path))
        else:
            written(path, self.to_json())

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each operator."""
        import pandas

        return pandas.DataFrame([vars(operator) for operator in self.operators])

    def _as_option(self) -> str:
        return self.text

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Model, (json.loads(self.to_json()),)) if self.is_temporary else (Model, (self.text,))

    def __repr__(self) -> str:
        return f"Model({self.text!r})"

    def _repr_html_(self) -> str:
        kinds: Dict[str, List[Any]] = {}
        for operator in self.operators:
            row = kinds.setdefault(operator.kind, [0, 0, 0.0])
            row[0] += 1
            row[1] += operator.parameters
            row[2] += operator.forward_flops
        rows = [(kind, row[0], row[1], row[2] / 1e12) for kind, row in sorted(kinds.items(), key=lambda item: -float(item[1][2]))]
        figures = {
            "batch": self.batch,
            "parameters": self.parameters,
            "forward": f"{significant(self.forward_flops / 1e12)} TFLOP",
            "operators": sum(row[1] for row in rows),
        }
        return page(self.name, figures, table(("kind", "operators", "parameters", "forward, TFLOP"), rows))


@dataclass(frozen=True)
class Device:
    """A device of a topology."""

    name: str
    kind: str  #: "H100-SXM5"
    memory_bytes: int
    memory_bytes_per_s: float
    peak_flops: Dict[str, float]  #: dense products by type of element, in floating-point operations a second


class Topology:
    """Devices and their links.

    Args:
        source: what `topology=` takes as text: a preset ("dgx-h100:4", "dgx-h100:gpus=4"), or a file.
    """

    def __init__(self, source: PathLike) -> None:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"topology: found {described(source)}, allowed: a name or a file")
        #: how the topology is named to commands
        self.text: str = text_named("topology", os.fspath(source))
        self._topology: _pipesim.Topology = compiled().Topology(self.text)

    @property
    def name(self) -> str:
        return self._topology.name

    @property
    def nodes(self) -> int:
        return self._topology.nodes

    @property
    def devices(self) -> List[Device]:
        return [Device(*device) for device in self._topology.devices()]

    @property
    def fingerprint(self) -> str:
        """Equal for topologies in which any plan runs alike."""
        return self._topology.fingerprint

    def to_json(self) -> str:
        """The text of a topology file."""
        return self._topology.to_json()

    def save(self, path: PathLike) -> None:
        """Writes a topology file."""
        written(path, self.to_json())

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each device."""
        import pandas

        return pandas.DataFrame([vars(device) for device in self.devices])

    def _as_option(self) -> str:
        return self.text

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Topology, (self.text,))

    def __repr__(self) -> str:
        return f"Topology({self.text!r})"

    def _repr_html_(self) -> str:
        kinds: Dict[str, List[Device]] = {}
        for device in self.devices:
            kinds.setdefault(device.kind, []).append(device)
        rows = [(kind, len(all), all[0].memory_bytes / 1e9, all[0].memory_bytes_per_s / 1e9) for kind, all in kinds.items()]
        figures = {"nodes": self.nodes, "devices": sum(row[1] for row in rows)}
        return page(self.name, figures, table(("kind", "devices", "memory, GB", "memory, GB/s"), rows))


class Config(NamedTuple):
    """How an operator is split and placed."""

    splits: Dict[str, int]  #: the number of parts by factor; factors that are not here stay whole
    devices: Tuple[str, ...]  #: of the shards; the last factor comes fastest, copies slowest
    copies: int = 1  #: shards that compute the same
    ring: bool = False  #: shards that divide queries pass keys and values round a ring


@dataclass(frozen=True)
class PlanOptions:
    """What a plan says beside its configs, in the words of the options of commands."""

    microbatches: int
    optimizer: str
    gradient_type: str
    gradient_piece: int  #: bytes
    recompute: str
    state_sharding: str
    gathered_inputs: str
    gradient_reduction: str
    imbalance: str
    runtime: str
    schedule: Optional[str]  #: of a pipeline; else None
    stages: Tuple[Tuple[str, ...], ...]  #: the operators of each stage of a pipeline


class Plan:
    """A plan: how each operator is split and placed, and in what order stages run. It never changes.

    Args:
        path: of a plan file, as `pipesim search -o` writes it.
    """

    _path: Optional[str] = None
    # A plan is a file's text, or what the compiled part made. Each becomes the other when it is needed.
    _known_text: Optional[str] = None
    _known_document: Optional[Dict[str, Any]] = None
    _known_made: Optional[_pipesim.Plan] = None

    def __init__(self, path: PathLike) -> None:
        self._path = os.fsdecode(path_named("path", path))
        try:
            with open(self._path, encoding="utf-8-sig") as file:
                text = file.read()
        except OSError as error:
            raise InputError(f"{self._source}: can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{self._source}: is no text, allowed: a plan file") from None
        self._take(text)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan of a plan file's text."""
        plan = cls.__new__(cls)
        plan._take(text_named("text", text))
        return plan

    @classmethod
    def _of(cls, made: _pipesim.Plan) -> Plan:
        plan = cls.__new__(cls)
        plan._known_made = made
        return plan

    def _take(self, text: str) -> None:
        self._known_text = text
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InputError(f"{self._source}: is no JSON: {error}") from None
        if not isinstance(document, dict) or "pipesim_plan" not in document:
            raise InputError(f'{self._source}: has no "pipesim_plan", allowed: a plan file')
        for key in ("model", "topology"):
            if not isinstance(document.get(key), str):
                raise InputError(f'{self._source}: has no "{key}", allowed: a plan file')
        self._known_document = document

    @property
    def _source(self) -> str:
        """What messages call it."""
        return "plan" if self._path is None else os.fsencode(self._path).decode(errors="replace")

    @property
    def _text(self) -> str:
        if self._known_text is None:
            self._known_text = self._made.to_json()
        return self._known_text

    @property
    def _document(self) -> Dict[str, Any]:
        if self._known_document is None:
            self._known_document = json.loads(self._text)
        return self._known_document

    @property
    def _made(self) -> _pipesim.Plan:
        if self._known_made is None:
            self._known_made = compiled().Plan(self._text, self._source)
        return self._known_made

    @property
    def model(self) -> str:
        """The model's text."""
        return str(self._document["model"])

    @property
    def topology(self) -> str:
        """The topology's text."""
        return str(self._document["topology"])

    @property
    def recipe(self) -> str:
        """Its recipe, or that which it is nearest to."""
        return str(self._document.get("recipe", ""))

    @property
    def configs(self) -> Dict[str, Config]:
        """By operator, in an order in which they can run. The plan's model and topology are opened for this."""
        return {name: Config(*config) for name, config in self._made.configs().items()}

    @property
    def options(self) -> PlanOptions:
        """What holds for the whole plan."""
        return PlanOptions(*self._made.options())

    def with_config(
        self, operator: str, splits: Mapping[str, int], devices: Iterable[str], copies: int = 1, ring: bool = False
    ) -> Plan:
        """The same plan with another config of one operator: `plan.with_config("fc1", *config)` takes a Config.

        InputError for an unknown operator, factor or device, and where the plan is not legal with this config.
        """
        # Searches change plans all the time, so the usual types go to the compiled part at once. What it refuses is
        # checked here, to name the argument that is wrong.
        made: Any = self._made
        usual = type(splits) is dict and type(devices) in (tuple, list) and type(copies) is int and type(ring) is bool
        if usual and bool not in map(type, splits.values()):
            try:
                return Plan._of(made.with_config(operator, splits, devices, copies, ring))
            except TypeError:
                pass
        if not isinstance(splits, Mapping):
            raise TypeError(f"splits: found {described(splits)}, allowed: a dict of numbers of parts by factor")
        parts = {text_named("splits", factor): whole_number("splits", number) for factor, number in splits.items()}
        names = texts_named("devices", devices)
        if not isinstance(ring, bool):
            raise TypeError(f"ring: found {described(ring)}, allowed: True or False")
        return Plan._of(made.with_config(text_named("operator", operator), parts, names, whole_number("copies", copies), ring))

    def to_json(self) -> str:
        """The text of a plan file."""
        return self._text

    def save(self, path: PathLike) -> None:
        """Writes a plan file. InputError where the model was made of a dict, which no file can name."""
        if is_kept(self.model):
            raise InputError(
                f"{os.fspath(path)}: the plan's model was made of a dict, which a plan file can't name; write it with "
                "Model.save(), and plan with that file"
            )
        written(path, self._text)

    def _as_option(self) -> str:
        # The file may have changed since it was read.
        if self._path is not None:
            with contextlib.suppress(OSError, UnicodeDecodeError), open(self._path, encoding="utf-8-sig") as file:
                if file.read() == self._text:
                    return self._path
        self._path = kept_file(self._text, ".plan.json")
        return self._path

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Plan.from_json, (self._text,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._document == other._document

    def __hash__(self) -> int:
        return hash(json.dumps(self._document, sort_keys=True))

    def __repr__(self) -> str:
        return f"<Plan {self.recipe!r} of {self.model} on {self.topology}>"

    def _repr_html_(self) -> str:
        figures = {"model": self.model, "topology": self.topology, "recipe": self.recipe}
        return page("plan", figures)


@dataclass(frozen=True)
class ZooModel:
    """A model that pipesim knows by name."""

    name: str
    description: str
    source: str
    options: Dict[str, Dict[str, str]]  #: by key: "default", "allowed" and "help"


@dataclass(frozen=True)
class TopologyPreset:
    """A topology that pipesim knows by name."""

    name: str
    nodes: int  #: where NAME stands alone; NAME:N has N
    devices_per_node: int
    description: str
    source: str


def models() -> List[ZooModel]:
    """The models that pipesim knows by name."""
    return [ZooModel(**model) for model in call("models", {}).document["models"]]


def topologies() -> List[TopologyPreset]:
    """The topologies that pipesim knows by name."""
    return [TopologyPreset(**preset) for preset in call("topologies", {}).document["topologies"]]
