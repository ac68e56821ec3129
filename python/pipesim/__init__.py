"""pipesim in Python: models, topologies and plans, and the commands as functions.

    import pipesim
    best = pipesim.search(model="llama3-8b", topology="dgx-h100:2", batch=128, algorithm="recipes")
    best.simulation.iteration_time_s, best.plan.recipe

What computes is the compiled part; the first call loads it. `pipesim.capture` writes PyTorch modules as model
files and needs no compiled part.
"""

from .calling import Progress
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
    Device,
    Model,
    OperatorInfo,
    Plan,
    Topology,
    TopologyPreset,
    ZooModel,
    models,
    topologies,
)
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

__version__ = "0.1.0"

__all__ = [name for name, value in list(globals().items()) if not name.startswith("_") and callable(value)]
