"""pipesim in Python: models, topologies and plans, and the commands as functions.

    import pipesim
    best = pipesim.search(model="llama3-8b", topology="dgx-h100:2", batch=128, algorithm="recipes")
    best.simulation.iteration_time_s, best.plan.recipe

`Problem` makes, changes and evaluates plans without a command for each.

What computes is the compiled part; the first call loads it. `pipesim.capture` writes PyTorch modules as model
files and needs no compiled part.
"""

from .calling import Progress
from .errors import (
    DeviceError,
    Error,
    InputError,
    InternalError,
    Interrupted,
    Notice,
    OutOfMemory,
    UsageError,
)
from .inputs import (
    Config,
    Device,
    Model,
    OperatorInfo,
    Plan,
    PlanOptions,
    Topology,
    TopologyPreset,
    ZooModel,
    models,
    topologies,
)
from .problems import Evaluation, NamedPlan, PlannerAnswer, Problem
from .results import (
    Accuracy,
    AccuracyTable,
    Calibration,
    Communication,
    Comparison,
    Constant,
    CriticalPath,
    Crossover,
    Errors,
    Execution,
    Export,
    Figure,
    Figures,
    PlanAnswers,
    RatedPlan,
    RatedRecipe,
    SearchResult,
    Sensitivity,
    Simulation,
    Stage,
    Study,
    StudyPoint,
    SuggestedRun,
)

try:
    from .commands import (
        accuracy,
        calibrate,
        compare,
        execute,
        export,
        search,
        simulate,
        whatif,
        whatif_figures,
        whatif_plan,
    )
except ModuleNotFoundError as error:
    # The build writes this module. Where nothing was built, `pipesim.capture` works, and a command says what is missing.
    if error.name != "pipesim.commands":
        raise
    from .calling import not_built

    functions = "accuracy calibrate compare execute export search simulate whatif whatif_figures whatif_plan"
    globals().update(dict.fromkeys(functions.split(), not_built))
    del functions, not_built

__version__ = "0.1.0"

__all__ = [
    "Accuracy",
    "AccuracyTable",
    "Calibration",
    "Communication",
    "Comparison",
    "Config",
    "Constant",
    "CriticalPath",
    "Crossover",
    "Device",
    "DeviceError",
    "Error",
    "Errors",
    "Evaluation",
    "Execution",
    "Export",
    "Figure",
    "Figures",
    "InputError",
    "InternalError",
    "Interrupted",
    "Model",
    "NamedPlan",
    "Notice",
    "OperatorInfo",
    "OutOfMemory",
    "Plan",
    "PlanAnswers",
    "PlanOptions",
    "PlannerAnswer",
    "Problem",
    "Progress",
    "RatedPlan",
    "RatedRecipe",
    "SearchResult",
    "Sensitivity",
    "Simulation",
    "Stage",
    "Study",
    "StudyPoint",
    "SuggestedRun",
    "Topology",
    "TopologyPreset",
    "UsageError",
    "ZooModel",
    "accuracy",
    "calibrate",
    "compare",
    "execute",
    "export",
    "models",
    "search",
    "simulate",
    "topologies",
    "whatif",
    "whatif_figures",
    "whatif_plan",
]
