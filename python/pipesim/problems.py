"""Problems: plans that are made, changed and evaluated one after the other, without a command for each."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import errors
from .calling import (
    PathLike,
    ProgressCallback,
    compiled,
    described,
    number_named,
    path_named,
    size_named,
    text_named,
    told_to,
    whole_number,
)
from .html import duration, page, table
from .inputs import Config, Model, Plan, Topology

if TYPE_CHECKING:
    import _pipesim


class Evaluation:
    """What one iteration of a plan takes. Two are equal where the time and the memory are."""

    def __init__(self, iteration_time_s: float, fits: bool, proven: bool, memory: Any) -> None:
        #: the same to the bit as `simulate` says
        self.iteration_time_s = iteration_time_s
        #: whether the plan fits into the memory of all devices
        self.fits = fits
        #: False for schedules that never end, where the time is an estimate
        self.proven = proven
        self._memory = memory  # a function that finds it, or what it found

    def _found(self) -> Tuple[Dict[str, int], Optional[str]]:
        if callable(self._memory):
            self._memory = self._memory()
        found: Tuple[Dict[str, int], Optional[str]] = self._memory
        return found

    @property
    def peak_memory_bytes(self) -> Dict[str, int]:
        """By device. The plan is simulated in full when this is asked for, and only then."""
        return self._found()[0]

    @property
    def infeasible(self) -> Optional[str]:
        """Why the plan does not fit: "gpu3 needs 91.2 GB, has 80 GB". None where it fits."""
        return None if self.fits else self._found()[1]

    def __reduce__(self) -> Tuple[Any, ...]:
        return (Evaluation, (self.iteration_time_s, self.fits, self.proven, self._found()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evaluation) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.iteration_time_s, self.fits))

    def __repr__(self) -> str:
        return f"<Evaluation: {duration(self.iteration_time_s)}{'' if self.fits else ', does not fit'}>"


class NamedPlan(NamedTuple):
    """A baseline."""

    name: str
    plan: Plan
    evaluation: Evaluation


@dataclass(frozen=True)
class PlannerAnswer:
    """What an algorithm found."""

    plan: Plan
    evaluation: Evaluation
    found_by: str  #: the algorithm, or the baseline that is the best
    note: str  #: what the algorithm says of its plan; "" or a sentence
    proven: Optional[bool]  #: that no plan of the algorithm's is better; None where it proves nothing
    lower_bound_s: Optional[float]  #: no plan is faster; None where no bound is known
    seconds: float  #: how long the algorithm took
    interrupted: bool  #: `progress` ended it

    def _repr_html_(self) -> str:
        figures = {
            "found by": self.found_by,
            "note": self.note,
            "iteration": duration(self.evaluation.iteration_time_s),
            "lower bound": duration(self.lower_bound_s),
            "fits": self.evaluation.fits,
        }
        return page(f"{self.plan.model} on {self.plan.topology}", figures)


def plan_named(value: Any, allowed: str = "a Plan") -> Plan:
    """The argument `plan`."""
    if isinstance(value, Plan):
        return value
    hint = ""
    if isinstance(value, (str, bytes, os.PathLike)):
        hint = ", which problem.open(path) makes of a file"
    elif isinstance(getattr(value, "plan", None), Plan):
        hint = ", which is its member .plan"
    raise TypeError(f"plan: found {described(value)}, allowed: {allowed}{hint}")


#: Options of a problem that are words.
WORDS = (
    "optimizer",
    "gradient_type",
    "recompute",
    "state_sharding",
    "gathered_inputs",
    "gradient_reduction",
    "runtime",
)

#: The limits of the command `search`; plan files have no larger seed.
MOST_SEED, MOST_PROPOSALS, MOST_THREADS = 2**63 - 1, 2**62 - 1, 1024


class Problem:
    """A model on a topology, for which plans are made and evaluated.

    Evaluations build on each other: a plan that differs from the one before in a few operators costs about what these
    operators cost. Plans with several microbatches, stages, recomputation, sharded state or the runtime of a framework
    are evaluated in full, which takes longer. The results do not depend on the order.

    Plans that the problem makes have its options and its runtime. A recipe chooses recomputation, sharding, gathered inputs
    and what overlaps itself, so `recipe` and the algorithms that rank recipes refuse a problem that sets the first three.
    A plan that was opened, or made elsewhere, keeps its own options and runtime. The memory margin and the calibration
    hold for all evaluations.

    Args:
        model: a Model, or what it takes.
        topology: a Topology, or what it takes.
        microbatches: in an iteration; each has the model's batch.
        optimizer: "momentum", "adam", "adam,moments=bfloat16,main=none", …, as `simulate` takes it.
        gradient_type: "float32", "float16", "bfloat16" or "float64".
        gradient_piece: largest piece that gradient synchronisation sends at once: bytes, or text such as "25 MB".
        recompute: what --recompute takes, such as "none", "full", "mlp" or "moe_act+layernorm".
        state_sharding: "none", "zero1", "zero2", "zero3" and their parts, as `simulate` takes them.
        gathered_inputs: "keep" or "again".
        gradient_reduction: "overlapped" or "after-steps".
        imbalance: how unevenly tokens go to experts, "1" for evenly.
        memory_margin: memory to leave free on every device: bytes, or text such as "10%".
        runtime: what runs the plans: "pipesim", "megatron", …, as `simulate` takes them.
        calibration: a file of `calibrate`, or two with a comma between them.
    """

    def __init__(
        self,
        model: Union[PathLike, Model],
        topology: Union[PathLike, Topology],
        *,
        microbatches: int = 1,
        optimizer: str = "momentum",
        gradient_type: str = "float32",
        gradient_piece: Union[int, float, str] = "25 MB",
        recompute: str = "none",
        state_sharding: str = "none",
        gathered_inputs: str = "keep",
        gradient_reduction: str = "overlapped",
        imbalance: Union[int, float, str] = 1,
        memory_margin: Union[int, float, str, None] = None,
        runtime: str = "pipesim",
        calibration: Optional[PathLike] = None,
    ) -> None:
        self.model = model if isinstance(model, Model) else Model(model)
        self.topology = topology if isinstance(topology, Topology) else Topology(topology)
        self._options = {
            "microbatches": microbatches,
            "optimizer": optimizer,
            "gradient_type": gradient_type,
            "gradient_piece": gradient_piece,
            "recompute": recompute,
            "state_sharding": state_sharding,
            "gathered_inputs": gathered_inputs,
            "gradient_reduction": gradient_reduction,
            "imbalance": imbalance,
            "memory_margin": memory_margin,
            "runtime": runtime,
            "calibration": calibration,
        }
        texts = {name: text_named(name, self._options[name]).encode() for name in WORDS}
        texts["gradient_piece"] = size_named("gradient_piece", gradient_piece, " B").encode()
        texts["imbalance"] = size_named("imbalance", imbalance, "").encode()
        texts["memory_margin"] = b"" if memory_margin is None else size_named("memory_margin", memory_margin, " B").encode()
        texts["calibration"] = b"" if calibration is None else path_named("calibration", calibration)
        self._problem: _pipesim.Problem = compiled().Problem(
            self.model.text,
            self.model._graph,
            self.topology.text,
            self.topology._topology,
            whole_number("microbatches", microbatches),
            texts,
        )
        for line in self._problem.notes.splitlines():
            warnings.warn(line.removeprefix("pipesim: "), errors.Notice, stacklevel=2)

    def baselines(self) -> List[NamedPlan]:
        """The plans that people write down without a search, whether they fit or not."""
        plans = [(name, self.baseline(name)) for name in compiled().baseline_names()]
        return [NamedPlan(name, plan, self.evaluate(plan)) for name, plan in plans]

    def baseline(self, name: str) -> Plan:
        """The baseline of this name: "data-parallel", "expert", …"""
        return Plan._of(self._problem.baseline(text_named("name", name)))

    def recipe(self, text: str) -> Plan:
        """The plan of a recipe such as "dp2,tp4,mbs1", for an iteration with as many samples as the problem has."""
        return Plan._of(self._problem.recipe(text_named("text", text)))

    def open(self, plan: Union[PathLike, Plan]) -> Plan:
        """A plan file for this problem: it may name another topology with devices of the same names.

        The plan keeps its own options and runtime.
        """
        opened = Plan(plan) if isinstance(plan, (str, bytes, os.PathLike)) else plan_named(plan, "a path or a Plan")
        return Plan._of(self._problem.open(opened.to_json(), opened._source))

    def candidates(self, operator: str) -> List[Config]:
        """The legal configs of an operator, from which the searches draw. `Plan.with_config` takes others, too."""
        return [Config(*config) for config in self._problem.candidates(text_named("operator", operator))]

    def evaluate(self, plan: Plan) -> Evaluation:
        """Simulates an iteration. A plan that does not fit into memory is a result."""
        found = self.evaluate_below(plan, math.inf)
        assert found is not None
        return found

    def evaluate_below(self, plan: Plan, time_s: float) -> Optional[Evaluation]:
        """The same, but None where an iteration takes `time_s` or longer.

        That may be known before the whole time is, which makes searches faster. A plan that is evaluated in full takes as
        long as with `evaluate`.
        """
        made = plan_named(plan)._made
        found = self._problem.evaluate(made, number_named("time_s", time_s))
        return None if found is None else Evaluation(*found, lambda: self._problem.memory(made))

    def plan(
        self,
        algorithm: str = "auto",
        *,
        seconds: Optional[float] = None,
        proposals: Optional[int] = None,
        seed: Optional[int] = None,
        threads: Optional[int] = None,
        progress: Optional[ProgressCallback] = None,
    ) -> PlannerAnswer:
        """Asks an algorithm for a plan.

        Args:
            algorithm: one of those that `search` knows.
            seconds: how long the algorithm may take; 0 sets no limit. The default is 30, and no limit with `proposals`.
            proposals: how many plans the algorithm tries before it ends, so that it finds the same on every machine.
            seed: what all random choices depend on.
            threads: how many threads the algorithm uses, from 1 to 1024. The default is one for each core.
            progress: a function that is called while the algorithm runs, as `search` calls it.
        """
        if seconds is None:
            seconds = 30 if proposals is None else 0
        limit = number_named("seconds", seconds, 0)
        found = self._problem.plan(
            text_named("algorithm", algorithm),
            0 if limit == math.inf else limit,
            None if proposals is None else whole_number("proposals", proposals, 1, MOST_PROPOSALS),
            None if seed is None else whole_number("seed", seed, 0, MOST_SEED),
            None if threads is None else whole_number("threads", threads, 1, MOST_THREADS),
            told_to(progress),
        )
        plan = Plan._of(found[0])
        return PlannerAnswer(plan, self.evaluate(plan), *found[1:])

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_problem, (self.model, self.topology, self._options))

    def __repr__(self) -> str:
        return f"Problem({self.model.text!r}, {self.topology.text!r})"

    def _repr_html_(self) -> str:
        rows = [(name, value) for name, value in self._options.items() if value is not None]
        figures = {"model": self.model.text, "topology": self.topology.text}
        return page("problem", figures, table(("option", "value"), rows))


def _problem(model: Model, topology: Topology, options: Dict[str, Any]) -> Problem:
    return Problem(model, topology, **options)
