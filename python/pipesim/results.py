"""What functions return. Times are seconds, memory is bytes, shares and errors are parts of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .calling import Answer
from .html import duration, page, table
from .inputs import Plan

if TYPE_CHECKING:
    import pandas


def frame(rows: Sequence[Mapping[str, object]]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(list(rows))


def interval_of(document: Mapping[str, Any], key: str = "interval_s") -> Optional[Tuple[float, float]]:
    interval = document.get(key)
    return None if interval is None else (interval[0], interval[1])


def gigabytes(size: Optional[float]) -> Optional[str]:
    return None if size is None else f"{size / 1e9:.4g} GB"


def percent(share: Optional[float]) -> Optional[str]:
    return None if share is None else f"{share * 100:.4g} %"


@dataclass(frozen=True)
class CriticalPath:
    """Shares of the iteration on the chain of tasks that makes it as long as it is."""

    compute: float
    host: float  #: launches
    communication: float
    waiting: float  #: a transfer was ready, and its link was busy


@dataclass(frozen=True)
class Communication:
    """Time of communication in an iteration, as a mean over devices."""

    exposed_s: float  #: while nothing is computed
    hidden_s: float  #: beside computation


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline."""

    devices: int
    operators: int
    compute_s: float  #: in an iteration
    in_flight: int  #: microbatches whose activations it holds, at most
    peak_memory_bytes: int


@dataclass(frozen=True)
class Simulation:
    """An iteration of a plan, as it is predicted."""

    model: str
    topology: str
    recipe: str  #: the plan's recipe, or that which it is nearest to
    iteration_time_s: float
    interval_s: Optional[Tuple[float, float]]  #: that the time is in, where a calibration has constants
    samples_per_s: float
    tokens_per_s: Optional[float]  #: of models that have tokens, as is
    mfu: Optional[float]  #: model FLOP utilization
    hfu: Optional[float]  #: hardware FLOP utilization: what kernels compute, with recomputation
    flops_counting: Optional[Dict[str, Any]]  #: how model FLOPs are counted: causal_attention "half" or "full", …
    peak_flops_per_device: Optional[float]  #: FLOP/s by which both are divided, and
    peak_type: Optional[str]  #: the type whose rate that is
    fits: bool  #: into memory
    infeasible: Optional[str]  #: why the plan does not fit
    hints: Tuple[str, ...]  #: what to try where it does not fit
    in_full: bool  #: else a search had no time to simulate all, and what follows is empty or None where it is not known
    peak_memory_bytes: Dict[str, int] = field(repr=False)  #: by device, as are
    compute_s: Dict[str, float] = field(repr=False)
    communication_s: Dict[str, float] = field(repr=False)
    critical_path: Optional[CriticalPath]
    communication: Dict[str, Communication]  #: by cause: "tensor", "data", "pipeline", …
    stages: Tuple[Stage, ...]  #: of a pipeline
    idle: Optional[float]  #: share of the time in which a pipeline's devices do not compute
    training_days: Optional[float]  #: with tokens=
    plan: Optional[Plan]  #: None where it does not fit and was searched for
    document: Dict[str, Any] = field(repr=False)  #: everything, as `simulate --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Simulation:
        return cls._of_document(answer.document, answer.plan)

    @classmethod
    def _of_document(cls, d: Dict[str, Any], plan: Optional[str]) -> Simulation:
        path = d["critical_path"]
        by_cause = (d.get("communication_by_cause") or {}).get("mean", {}).get("by_cause", {})
        pipeline = d.get("pipeline") or {}
        return cls(
            model=d.get("model", ""),
            topology=d.get("topology", ""),
            recipe=d.get("recipe", ""),
            iteration_time_s=d["iteration_time_s"],
            interval_s=interval_of(d),
            samples_per_s=d["throughput_samples_per_s"],
            tokens_per_s=d.get("tokens_per_s"),
            mfu=d.get("mfu"),
            hfu=d.get("hfu"),
            flops_counting=d.get("flops_counting"),
            peak_flops_per_device=d.get("peak_flops_per_device"),
            peak_type=d.get("peak_type"),
            fits=d["fits"],
            infeasible=d.get("infeasible"),
            hints=tuple(d.get("hints", ())),
            in_full=d.get("simulated_in_full", True),
            peak_memory_bytes=dict(d["peak_memory_bytes"] or {}),
            compute_s=dict(d["compute_s"] or {}),
            communication_s=dict(d["communication_s"] or {}),
            critical_path=path
            and CriticalPath(path["compute"], path["host"], path["communication"], path["waiting"]),
            communication={cause: Communication(**times) for cause, times in by_cause.items()},
            stages=tuple(Stage(**stage) for stage in pipeline.get("stages", ())),
            idle=pipeline.get("idle"),
            training_days=d.get("training_days"),
            plan=None if plan is None else Plan.from_json(plan),
            document=d,
        )

    @property
    def most_memory_bytes(self) -> Optional[int]:
        """The peak of the fullest device."""
        return max(self.peak_memory_bytes.values(), default=None)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each device."""
        return frame(
            [
                {
                    "device": device,
                    "peak_memory_bytes": memory,
                    "compute_s": self.compute_s.get(device),
                    "communication_s": self.communication_s.get(device),
                }
                for device, memory in self.peak_memory_bytes.items()
            ]
        )

    def _figures(self) -> Dict[str, object]:
        interval = self.interval_s
        return {
            "recipe": self.recipe,
            "iteration": duration(self.iteration_time_s),
            "between": interval and f"{duration(interval[0])} and {duration(interval[1])}",
            "samples a second": self.samples_per_s,
            "tokens a second": self.tokens_per_s,
            "model FLOP utilization": percent(self.mfu),
            "memory": gigabytes(self.most_memory_bytes),
            "fits": self.fits,
            "because": self.infeasible,
            "try": "; ".join(self.hints) or None,
            "days of training": self.training_days,
        }

    def _repr_html_(self) -> str:
        causes = [(cause, t.exposed_s * 1e3, t.hidden_s * 1e3) for cause, t in self.communication.items()]
        return page(
            f"{self.model} on {self.topology}",
            self._figures(),
            table(("communication", "exposed, ms", "hidden, ms"), causes) if causes else None,
        )


@dataclass(frozen=True)
class RatedRecipe:
    """A recipe that a search simulated."""

    recipe: str
    iteration_time_s: float
    least_time_s: float  #: the bound that says no plan of this recipe is faster
    memory_bytes: int
    least_memory_bytes: int


@dataclass(frozen=True)
class RatedPlan:
    """A baseline or a recipe beside a plan."""

    name: str
    iteration_time_s: Optional[float]  #: None: it was not scored
    infeasible: Optional[str]  #: why it does not fit
    not_scored: Optional[str]  #: why it has no time


@dataclass(frozen=True)
class SearchResult:
    """The best plan that a search found."""

    simulation: Simulation  #: of the best plan
    plan: Optional[Plan]  #: None where it does not fit
    found_by: str  #: the algorithm, or the baseline that is the best
    reason: Optional[str]  #: why it is faster than the best baseline, in words
    proven_optimal: Optional[bool]  #: no plan of those that were searched is faster; None: not known
    lower_bound_s: Optional[float]  #: no plan is faster
    note: Optional[str]  #: what the algorithm says
    wall_time_s: float  #: of the search
    proposals: Optional[int]  #: of a search by proposals
    history: Tuple[Tuple[float, float], ...]  #: wall time, and the best iteration's time from then on
    baselines: Tuple[RatedPlan, ...]
    recipes: Tuple[RatedRecipe, ...]  #: the best that fit, of a search over recipes, as is
    pareto_front: Tuple[RatedRecipe, ...]  #: none of those simulated is both faster and leaner
    interrupted: bool  #: the search was asked to end
    document: Dict[str, Any] = field(repr=False)  #: everything, as `search --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> SearchResult:
        d = answer.document
        simulation = Simulation._of_document(d, answer.plan)
        recipes = d["recipes"] or {}
        search = d["search"]
        reason = d["reason"]
        return cls(
            simulation=simulation,
            plan=simulation.plan,
            found_by=d["best"],
            reason=None if reason is None else reason.get("text"),
            proven_optimal=d["proven_optimal"],
            lower_bound_s=d["lower_bound_s"],
            note=d["note"],
            wall_time_s=search["wall_time_s"],
            proposals=search["proposals"],
            history=tuple((step["wall_time_s"], step["iteration_time_s"]) for step in d["history"]),
            baselines=tuple(rated_plan(row) for row in d["baselines"]),
            recipes=tuple(RatedRecipe(**row) for row in recipes.get("best", ())),
            pareto_front=tuple(RatedRecipe(**row) for row in recipes.get("pareto_front", ())),
            interrupted=answer.stopped,
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each of the best recipes; of other searches, for each baseline."""
        return frame([vars(row) for row in (self.recipes or self.baselines)])

    def _repr_html_(self) -> str:
        s = self.simulation
        figures: Dict[str, object] = {"found by": self.found_by, **s._figures(), "why": self.reason, "note": self.note}
        rows = None
        if self.recipes:
            rows = table(
                ("recipe", "iteration, ms", "memory, GB"),
                [(r.recipe, r.iteration_time_s * 1e3, r.memory_bytes / 1e9) for r in self.recipes],
            )
        elif self.baselines:
            rows = rated_table(self.baselines)
        return page(f"{s.model} on {s.topology}", figures, rows)


def rated_plan(row: Mapping[str, Any]) -> RatedPlan:
    return RatedPlan(row["name"], row.get("iteration_time_s"), row.get("infeasible"), row.get("not_scored"))


def rated_table(plans: Sequence[RatedPlan]) -> str:
    rows = [(p.name, duration(p.iteration_time_s), p.infeasible or p.not_scored) for p in plans]
    return table(("plan", "iteration", "does not fit"), rows)


@dataclass(frozen=True)
class StudyPoint:
    """A combination of values, and what was predicted for it."""

    values: Dict[str, str]  #: by what is varied
    recipe: Optional[str]  #: None, as all that follows, where there is an error
    iteration_time_s: Optional[float]
    samples_per_s: Optional[float]
    tokens_per_s: Optional[float]
    mfu: Optional[float]
    mfu_counts: Optional[str]  #: how, and by which rate it is divided
    devices: Optional[int]
    memory_bytes: Optional[int]  #: of the fullest device
    fits: Optional[bool]
    price_per_hour: Optional[float]
    objective_s: Optional[float]  #: with noise=: the time that `objective` says
    error: Optional[str]  #: why there is no plan


@dataclass(frozen=True)
class Crossover:
    """Between two values of an axis, another kind of plan becomes the best."""

    axis: str
    others: Dict[str, str]  #: the values of the other axes there
    low: str  #: it lies between these values
    high: str
    plan_at_low: str  #: the kinds of plans at both
    plan_at_high: str

    @classmethod
    def _of(cls, row: Mapping[str, Any], axes: Mapping[str, Sequence[str]]) -> Crossover:
        others = {name: axes[name][place] for name, place in zip(axes, row["before"]) if name != row["axis"]}
        return cls(row["axis"], others, row["low"], row["high"], row["from"], row["to"])


@dataclass(frozen=True)
class Study:
    """Predictions for many variants."""

    model: str
    plans: str  #: "same", "recipes" or "search"
    axes: Dict[str, Tuple[str, ...]]  #: what is varied, and its values
    points: Tuple[StudyPoint, ...]  #: those that are done
    crossovers: Tuple[Crossover, ...]  #: with crossovers=True
    complete: bool  #: all points are done
    document: Dict[str, Any] = field(repr=False)  #: everything, as `whatif --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Study:
        d = answer.document
        axes = {axis["name"]: tuple(axis["values"]) for axis in d["axes"]}
        names = list(axes)
        points = tuple(
            StudyPoint(
                values={name: axes[name][place] for name, place in zip(names, point["at"])},
                recipe=point.get("recipe"),
                iteration_time_s=point.get("time_s"),
                samples_per_s=point.get("samples_per_s"),
                tokens_per_s=point.get("tokens_per_s"),
                mfu=point.get("mfu"),
                mfu_counts=point.get("mfu_counts"),
                devices=point.get("devices"),
                memory_bytes=point.get("memory_bytes"),
                fits=point.get("fits"),
                price_per_hour=point.get("price_per_hour"),
                objective_s=point.get("objective_s"),
                error=point.get("error"),
            )
            for point in d["points"]
        )
        return cls(
            model=d["model"],
            plans=d["plans"],
            axes=axes,
            points=points,
            crossovers=tuple(Crossover._of(row, axes) for row in d.get("crossovers", ())),
            complete=len(points) == math.prod(len(values) for values in axes.values()),
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each point, with a column for each axis."""
        return frame([{**point.values, **{k: v for k, v in vars(point).items() if k != "values"}} for point in self.points])

    def _repr_html_(self) -> str:
        rows = [
            (
                *point.values.values(),
                point.error or point.recipe,
                point.iteration_time_s and point.iteration_time_s * 1e3,
                point.tokens_per_s or point.samples_per_s,
                point.memory_bytes and point.memory_bytes / 1e9,
                point.fits,
            )
            for point in self.points
        ]
        of_tokens = any(point.tokens_per_s for point in self.points)
        columns = (*self.axes, "plan", "iteration, ms", f"{'tokens' if of_tokens else 'samples'} a second", "memory, GB", "fits")
        return page(self.model, {"plans": self.plans}, table(columns, rows))


@dataclass(frozen=True)
class Sensitivity:
    """What a tenth more of a figure would bring."""

    figure: str
    value: str  #: what it becomes: "x1.1"
    first_order_s: Optional[float]  #: the iteration's time by the tasks of the critical path; None: other tasks
    simulated_s: Optional[float]  #: simulated anew


@dataclass(frozen=True)
class PlanAnswers:
    """What would change the time of one plan."""

    model: str
    topology: str
    recipe: str
    iteration_time_s: float
    fits: bool
    sensitivities: Tuple[Sensitivity, ...]
    noise_quantiles_s: Dict[str, float]  #: with noise=: "p50", "p95", …
    noise_mean_s: Optional[float]
    goodput: Optional[float]  #: with mtbf=: the share of the time that trains
    checkpoint_interval_s: Optional[float]  #: with mtbf=: the best one
    document: Dict[str, Any] = field(repr=False)  #: everything, as `whatif --sensitivity --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> PlanAnswers:
        d = answer.document
        noise, failures = d.get("noise", {}), d.get("failures", {})
        return cls(
            model=d["model"],
            topology=d["topology"],
            recipe=d["recipe"],
            iteration_time_s=d["iteration_time_s"],
            fits=d["fits"],
            sensitivities=tuple(Sensitivity(**row) for row in d["sensitivity"]),
            noise_quantiles_s=noise.get("quantiles_s", {}),
            noise_mean_s=noise.get("mean_s"),
            goodput=failures.get("goodput"),
            checkpoint_interval_s=failures.get("checkpoint_interval_s"),
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each figure."""
        return frame([vars(row) for row in self.sensitivities])

    def _repr_html_(self) -> str:
        figures = {
            "recipe": self.recipe,
            "iteration": duration(self.iteration_time_s),
            **{f"{share} with noise": duration(time) for share, time in self.noise_quantiles_s.items()},
            "time that trains": percent(self.goodput),
        }
        rows = [(s.figure, s.value, self._change(s.first_order_s), self._change(s.simulated_s)) for s in self.sensitivities]
        return page(
            f"{self.model} on {self.topology}",
            figures,
            table(("figure", "becomes", "critical path", "simulated"), rows),
        )

    def _change(self, time: Optional[float]) -> Optional[str]:
        return None if time is None else f"{(time / self.iteration_time_s - 1) * 100:+.2f} %"


@dataclass(frozen=True)
class Figure:
    """A figure that whatif can vary."""

    path: str  #: what `vary` calls it
    now: str
    takes: str


@dataclass(frozen=True)
class Figures:
    """What whatif can vary."""

    figures: Tuple[Figure, ...]

    @classmethod
    def _of(cls, answer: Answer) -> Figures:
        return cls(tuple(Figure(**row) for row in answer.document["figures"]))

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each figure."""
        return frame([vars(row) for row in self.figures])

    def _repr_html_(self) -> str:
        rows = [(f.path, f.now, f.takes) for f in self.figures]
        return page("what whatif can vary", {}, table(("vary", "now", "takes"), rows))


@dataclass(frozen=True)
class Comparison:
    """Baselines and recipes side by side."""

    model: str
    topology: str
    lower_bound_s: Optional[float]  #: no plan is faster
    baselines: Tuple[RatedPlan, ...]
    recipes: Tuple[RatedPlan, ...]
    reason: Optional[str]  #: why the fastest is, in words
    document: Dict[str, Any] = field(repr=False)  #: everything, as `compare --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Comparison:
        d = answer.document
        return cls(
            model=d["model"],
            topology=d["topology"],
            lower_bound_s=d.get("lower_bound_s"),
            baselines=tuple(rated_plan(row) for row in d["baselines"]),
            recipes=tuple(rated_plan(row) for row in d.get("recipes", ())),
            reason=d.get("reason", {}).get("text"),
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each baseline and recipe."""
        return frame([vars(row) for row in (*self.baselines, *self.recipes)])

    def _repr_html_(self) -> str:
        return page(
            f"{self.model} on {self.topology}",
            {"why": self.reason, "lower bound": duration(self.lower_bound_s)},
            rated_table((*self.baselines, *self.recipes)),
        )


@dataclass(frozen=True)
class Errors:
    """Relative errors of the predictions of a group of runs."""

    of: str  #: "time", "peak", …
    group: str
    runs: int
    median: float  #: of their sizes, as is
    mean: float
    bias: float  #: mean with sign; below 0: predictions are too low
    worst: float  #: with sign
    worst_run: str


@dataclass(frozen=True)
class AccuracyTable:
    """Predictions beside the measured runs of a table."""

    table: str
    predicted: int  #: runs
    errors: Tuple[Errors, ...]
    not_predicted: Dict[str, int]  #: reasons, and how many runs have them
    runs: Tuple[Dict[str, Any], ...] = field(repr=False)  #: each run's figures


@dataclass(frozen=True)
class Accuracy:
    """Predictions beside measured runs."""

    tables: Tuple[AccuracyTable, ...]
    document: Dict[str, Any] = field(repr=False)  #: everything, as `accuracy --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Accuracy:
        return cls(
            tables=tuple(
                AccuracyTable(
                    table=t["table"],
                    predicted=t["predicted"],
                    errors=tuple(
                        Errors(of=errors["of"], **group) for errors in t["errors"] for group in errors["groups"]
                    ),
                    not_predicted={row["reason"]: row["runs"] for row in t["not_predicted"]},
                    runs=tuple(t["runs"]),
                )
                for t in answer.document["tables"]
            ),
            document=answer.document,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each run."""
        return frame([{"table": t.table, **run} for t in self.tables for run in t.runs])

    def _repr_html_(self) -> str:
        rows = [
            (t.table, e.of, e.group, e.runs, percent(e.median), percent(e.mean), percent(e.bias), percent(e.worst))
            for t in self.tables
            for e in t.errors
        ]
        columns = ("table", "error of", "group", "runs", "median", "mean", "bias", "worst")
        return page("accuracy", {}, table(columns, rows))


@dataclass(frozen=True)
class Constant:
    """A constant of a cluster, as a factor on what topology and runtime say."""

    constant: str
    factor: float
    interval: Optional[Tuple[float, float]]
    learned: Optional[float]  #: how much of it the runs tell, from 0 to 1


@dataclass(frozen=True)
class SuggestedRun:
    """A run that would tell most about what is not known yet."""

    model: str
    devices: str
    recipe: str
    batch: int
    runtime: str
    predicted_s: float
    interval_s: Tuple[float, float]  #: that the time is in

    @classmethod
    def _of(cls, row: Dict[str, Any]) -> SuggestedRun:
        interval = {"interval_s": tuple(row["interval_s"])}
        return cls(**dict(row, **interval))


@dataclass(frozen=True)
class Calibration:
    """What was measured on this machine, or the constants of a cluster, from measured runs or from traces."""

    durations: Optional[int]  #: measured on this machine; None, as all up to predicted_s, where nothing was run
    samples: Optional[int]
    dropped: Optional[int]  #: samples in which the system took the processor away
    measured_s: Optional[float]  #: an iteration of the plan that was run once more
    predicted_s: Optional[float]  #: the same, predicted from what was measured
    constants: Tuple[Constant, ...]
    error_before: Optional[float]  #: mean error of the runs' times on figures as published, as is
    error_after: Optional[float]  #: with the constants
    next: Tuple[SuggestedRun, ...]
    operators: Tuple[Dict[str, Any], ...] = field(repr=False)  #: from traces: times by operator and shape
    document: Dict[str, Any] = field(repr=False)  #: everything, as `calibrate --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Calibration:
        d = answer.document
        constants = d.get("constants", ())
        if isinstance(constants, Mapping):  # a file of constants, from traces
            constants = constants.get("constants", ())
        fitted, again = d.get("fitted", {}), d.get("run_once_more", {})
        return cls(
            durations=d.get("durations"),
            samples=d.get("samples"),
            dropped=d.get("dropped"),
            measured_s=again.get("measured_s"),
            predicted_s=again.get("predicted_s"),
            constants=tuple(
                Constant(row["constant"], row["factor"], interval_of(row, "interval"), row.get("learned"))
                for row in constants
            ),
            error_before=fitted.get("mean_error_before"),
            error_after=fitted.get("mean_error_after"),
            next=tuple(SuggestedRun._of(row) for row in d.get("next", ())),
            operators=tuple(row for device in d.get("devices", ()) for row in device["operators"]),
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each constant; of traces without any, for each operator."""
        return frame([vars(row) for row in self.constants] or self.operators)

    def _repr_html_(self) -> str:
        parts = []
        if self.constants:
            rows = [(c.constant, c.factor, *(c.interval or (None, None)), c.learned) for c in self.constants]
            parts.append(table(("constant", "factor", "at least", "at most", "learned"), rows))
        if self.operators:
            rows = [(o["operator"], o["inputs"], o["calls"], o["median_s"] * 1e3) for o in self.operators]
            parts.append(table(("operator", "inputs", "calls", "median, ms"), rows))
        figures = {
            "durations": self.durations,
            "run once more": duration(self.measured_s),
            "predicted": duration(self.predicted_s),
            "mean error before": percent(self.error_before),
            "after": percent(self.error_after),
        }
        return page("calibration", figures, *parts)


@dataclass(frozen=True)
class Execution:
    """Training steps that were run, beside what was predicted."""

    model: str
    topology: str
    backend: str
    devices: int  #: that do anything
    measured_s: float  #: the median of iterations
    predicted_s: float
    error: Optional[float]  #: (predicted - measured) / measured; None where the host was not quiet
    not_quiet: Optional[str]  #: why times can't be relied on
    loss: Tuple[float, ...]  #: by step, where the model has a scalar result
    equal: Optional[bool]  #: to the unsplit model, as far as rounding allows; None without check=True
    document: Dict[str, Any] = field(repr=False)  #: everything, as `execute --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Execution:
        d = answer.document
        checks = d.get("check")
        return cls(
            model=d["model"],
            topology=d["topology"],
            backend=d["backend"],
            devices=d["devices"],
            measured_s=d["measured_s"]["median"],
            predicted_s=d["predicted_s"],
            error=d.get("error") if not d.get("not_quiet") else None,
            not_quiet=d.get("not_quiet"),
            loss=tuple(d.get("loss", ())),
            equal=all(check["equal"] for check in checks) if checks else None,
            document=d,
        )

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each operator's forward, backward or update."""
        return frame(self.document.get("operators", ()))

    def _repr_html_(self) -> str:
        figures = {
            "devices": self.devices,
            "measured": duration(self.measured_s),
            "predicted": duration(self.predicted_s),
            "equal to the unsplit model": self.equal,
        }
        rows = [
            (row["name"], row["tasks"], duration(row["measured_s"]), duration(row["predicted_s"]))
            for row in self.document.get("operators", ())
        ]
        return page(
            f"{self.model} on {self.topology}", figures, table(("task", "tasks", "measured", "predicted"), rows)
        )


@dataclass(frozen=True)
class Export:
    """Files that were written for another program."""

    files: Tuple[str, ...]
    recipe: Optional[str]
    document: Dict[str, Any] = field(repr=False)  #: everything, as `export --json` prints it

    @classmethod
    def _of(cls, answer: Answer) -> Export:
        d = answer.document
        return cls(tuple(d["files"]), d.get("recipe"), d)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each file."""
        return frame([{"file": file} for file in self.files])

    def _repr_html_(self) -> str:
        return page("export", {"recipe": self.recipe}, table(("file",), [(file,) for file in self.files]))
