# Written by `pipesim help --python`; do not edit.
"""Commands as functions. Each keyword is an option of the command line; None means that it is not given.

Errors are the exceptions of pipesim.errors, each with the one line that the command would print.
"""

from __future__ import annotations

from typing import Optional, Union

from .calling import PathLike, ProgressCallback, call
from .keywords import Axes, ModelLike, Number, Paths, PlanLike, Plans, Settings, Texts, TopologyLike
from .results import Accuracy, Calibration, Comparison, Execution, Export, Figures, PlanAnswers, SearchResult, Simulation, Study

__all__ = ["simulate", "search", "whatif", "whatif_plan", "whatif_figures", "compare", "accuracy", "calibrate", "execute", "export"]


def simulate(
    *,
    plan: Optional[PlanLike] = None,
    recipe: Optional[str] = None,
    baseline: Optional[str] = None,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    trace: Optional[PathLike] = None,
    set: Optional[Settings] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    memory_margin: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    for_: Optional[str] = None,
    runtime: Optional[str] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    output: Optional[PathLike] = None,
    tokens: Optional[Number] = None,
    dot: Optional[PathLike] = None,
    progress: Optional[ProgressCallback] = None,
) -> Simulation:
    """Simulate one iteration of a plan and show where the time goes.

    Reads a plan file, builds its tasks and runs them in virtual time. The plan names its model and topology.
    model and topology replace them, if they have the same operators and devices of the same names. The report
    says what else differs, such as slower links or another batch.

    The critical path is the chain of tasks that makes the iteration as long as it is. Its time is compute,
    launches by the host, communication, or waiting: a transfer was ready, and its link was busy.

    For a pipeline the report has a table of stages, draws their time with a row for each group of devices,
    and says what fills the memory of each.

    A plan that does not fit into memory is reported too.

    Args:
        plan: the plan to simulate, as search output writes it.
        recipe: simulate model and topology split as a recipe says. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        baseline: simulate a baseline of model and topology instead. One of single-device, data-parallel,
            model-parallel, expert.
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        trace: write the timeline, for ui.perfetto.dev.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        microbatches: microbatches in an iteration. Each has the model's batch. They run one after the
            other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam. For a baseline; a plan file has its own.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64. For a baseline; a plan file has its own.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB). For a
            baseline; a plan file has its own.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        stages: run the data-parallel baseline as a pipeline. N: stages of about equal compute time, each
            on an equal share of the devices. LIST: for each stage DEVICES@LAST_OPERATOR, or DEVICES alone,
            such as 8@layer12.ffn_add,8. Without operators, the cuts are chosen so that the longest stage is
            as short as possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, 1024),8'.
            4x2 means 4 replicas of 2 devices each, which take microbatches in turn; the schedules pipedream,
            pipedream-vertical-sync and inference allow it.
        chunks: stages on each group of devices (schedule interleaved) (default: 1).
        schedule: the order of a pipeline's steps (default: 1f1b). One of gpipe, 1f1b, eager-1f1b,
            interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v, pipedream,
            pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        output: write the plan to FILE.
        tokens: tell how long training takes with N tokens. Such as 15T or 300B.
        dot: write the task graph for Graphviz.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        What an iteration takes. A plan that does not fit into memory is a result, too.
    """
    return Simulation._of(call("simulate", locals()))


def search(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    algorithm: Optional[str] = None,
    seconds: Optional[Number] = None,
    proposals: Optional[Number] = None,
    output: Optional[PathLike] = None,
    set: Optional[Settings] = None,
    for_: Optional[str] = None,
    recipe: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    memory_margin: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    runtime: Optional[str] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    cost_model: Optional[str] = None,
    activation_transfers: Optional[Union[bool, str]] = None,
    layers: Optional[Number] = None,
    stage_costs: Optional[PathLike] = None,
    mesh: Optional[str] = None,
    only: Optional[Texts] = None,
    not_: Optional[Texts] = None,
    within: Optional[Number] = None,
    straight: bool = False,
    use_fewer: bool = False,
    memory_limit: Optional[Number] = None,
    seed: Optional[Number] = None,
    threads: Optional[Number] = None,
    chains: Optional[Number] = None,
    moves: Optional[str] = None,
    checkpoint: Optional[PathLike] = None,
    checkpoint_every: Optional[Number] = None,
    resume: Optional[PathLike] = None,
    search_log: Optional[PathLike] = None,
    progress: Optional[ProgressCallback] = None,
) -> SearchResult:
    """Find a fast parallelization of a model on a topology.

    Scores the baselines, searches for a faster plan, and writes it to a file. One simulator judges every
    plan.

    The baselines are single-device, data-parallel, model-parallel and expert. With a budget in proposals, the
    same seed gives the same bytes, whatever threads says.

    seconds limits everything that the command does. When the time is over, unfinished work stops and the
    report says so: baselines may have no score, planners give their best plan so far, and a plan with many
    tasks gets a short report.

    The report first says why the plan is faster than the best baseline: which operators gain most, what
    changed for them, and where the time of an iteration goes. Tables at the end give the figures of both
    plans and the operators whose split changed. The time on links of an operator is summed over links; it
    counts its outputs, their gradients, and the gradients of its weights. Last come the operators for which
    one other config would help most. A tenth of the search's effort goes into finding them.

    Planners of pipelines do not search, except auto. Each minimises a cost model of its own; the report
    prints that cost, and the simulator judges the plan.

    No plan can be faster than the lower bound. With calibration there is no bound, since measured durations
    may be shorter than the analytic model thinks possible.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        batch: samples in an iteration, in all microbatches together.
        microbatches: microbatches in an iteration (default: 1). Each has the model's batch. They run one
            after the other; then the weights are updated.
        algorithm: auto, recipes, mcmc, gpipe, … (default: auto). One of mcmc, exhaustive, gpipe,
            pipedream, dapple, alpa, recipes, intra, auto, single-device, data-parallel, model-parallel,
            expert.
        seconds: finish within this time (default: 30). For baselines, lower bound, planners, search and
            report together, whatever the algorithm. 0: no limit, so that recipes are ranked until the best is
            proven. Without seconds there is none where proposals is given, or under mpirun.
        proposals: stop after this many proposals, instead of seconds. With exhaustive and pipelines:
            pipelines that are simulated.
        output: write the plan to FILE.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        recipe: a recipe to begin with, for mcmc and auto. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB).
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        stages: stages of the pipeline: their number, or a list. gpipe: N stages of about equal compute
            time, on equal shares of the devices. Without stages it simulates every number that divides the
            devices, with schedule or with all schedules. dapple: scores and simulates these stages instead of
            looking for better ones; N, or a list as for simulate (8@layer12.ffn_add,8). exhaustive: N stages
            only.
        chunks: gpipe: stages on each group of devices (interleaved) (default: 1).
        schedule: the order of steps in a planned pipeline (default: 1f1b). One of gpipe, 1f1b,
            eager-1f1b, interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v,
            pipedream, pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        cost_model: what pipedream and dapple minimise. One of paper, repaired, simulated.
        activation_transfers: pipedream: activations that cross a cut take time. Their size is divided by
            the ratio (default: 1).
        layers: alpa, exhaustive: number of layers to form (default: 16). Operators are grouped into this
            many layers, and stages consist of layers. The default of exhaustive is 8.
        stage_costs: alpa: a file with the costs of stages. JSON. They take the place of simulated costs.
            Without model the best partition is printed.
        mesh: intra: only splits over the axes of this mesh of all devices. Such as 8x8, where the last
            axis runs over neighbouring devices. Each axis splits one dimension of an operator, or copies it.
            A dimension may take several axes that are beside each other. Without mesh an operator may be
            split in any way, on any node, part of a node or group of nodes.
        only: recipes, auto: choose among recipes with this part. Such as tp=4,8, zero=0,1, sp=on or
            schedule=1f1b. Parts: tp, cp, dp, ep, etp, pp, vpp, mbs, sp (on, off), zero, shard (a number,
            all), recompute, schedule, first and last (a number, even); and what runs beside compute: overlap
            (gather: of weights with zero1 and zero2; none), reduce (overlapped, after-steps: gradients of
            pipelines), tp-overlap (always, never) and messages (beside, blocking: between stages; none:
            without them), which are on where the framework has them, unless a condition says otherwise. May
            be given several times.
        not_: recipes, auto: choose among recipes without it.
        within: recipes, auto: end when no recipe can be better by more (default: 0). Of the best one's
            time. A little saves much: the last proofs take longest.
        straight: pipedream: no stage on more than one device.
        use_fewer: pipedream: devices may stay idle.
        memory_limit: pipedream: memory for all batches in flight on a device.
        seed: seed of all random choices (default: 1).
        threads: threads to run chains or simulations of recipes on (default: all cores). At most as many
            as chains. With a budget in proposals the plan does not depend on them, nor do recipes that are
            ranked to the end.
        chains: number of Markov chains, each at its own temperature (default: 8).
        moves: which changes are proposed (default: all). One of all, flexflow.
        checkpoint: write checkpoints to FILE, for resume. Written every checkpoint_every seconds and at
            the end. FILE is replaced as a whole, so it is always complete.
        checkpoint_every: seconds between checkpoints; 0: as often as possible (default: 3).
        resume: continue from a checkpoint of the same search. Budgets count from the beginning of the
            first run. Seed and chains come from the checkpoint; others are refused. With a budget in
            proposals the result is the same, byte for byte, as without the interruption. auto does not repeat
            algorithms that are done. So with a larger budget its plan may differ from that of one long run: a
            search over splits that was done keeps its share of the smaller budget.
        search_log: log how the best plan improved. CSV, written during the search: wall time in seconds,
            proposals, best iteration time in seconds, and the chain that found it. FILE is replaced.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        The best plan and what is known about it.
    """
    return SearchResult._of(call("search", locals()))


def whatif(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    recipe: Optional[str] = None,
    vary: Optional[Axes] = None,
    plans: Optional[str] = None,
    output: Optional[PathLike] = None,
    plan: Optional[PlanLike] = None,
    baseline: Optional[str] = None,
    set: Optional[Settings] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    memory_margin: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    for_: Optional[str] = None,
    runtime: Optional[str] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    cost_model: Optional[str] = None,
    activation_transfers: Optional[Union[bool, str]] = None,
    layers: Optional[Number] = None,
    stage_costs: Optional[PathLike] = None,
    mesh: Optional[str] = None,
    only: Optional[Texts] = None,
    not_: Optional[Texts] = None,
    within: Optional[Number] = None,
    straight: bool = False,
    use_fewer: bool = False,
    memory_limit: Optional[Number] = None,
    crossovers: bool = False,
    noise: Optional[str] = None,
    samples: Optional[Number] = None,
    objective: Optional[str] = None,
    tokens: Optional[Number] = None,
    target_time: Optional[Number] = None,
    target_cost: Optional[Number] = None,
    threads: Optional[Number] = None,
    resume: Optional[PathLike] = None,
    yes: bool = False,
    algorithm: Optional[str] = None,
    seconds: Optional[Number] = None,
    proposals: Optional[Number] = None,
    seed: Optional[Number] = None,
    chains: Optional[Number] = None,
    moves: Optional[str] = None,
    checkpoint: Optional[PathLike] = None,
    checkpoint_every: Optional[Number] = None,
    csv: Optional[PathLike] = None,
    progress: Optional[ProgressCallback] = None,
) -> Study:
    """Predict many variants of a topology, model or plan.

    Varies figures of the topology, the model, the recipe or the runtime, and predicts each combination.

    The plan of a point is the same everywhere, the best recipe, or what a search finds. Points run in
    parallel; results do not depend on threads. A study that is written with output is written during the run,
    too, and goes on with resume after an interruption. Each point is what simulate or search predicts with
    these options; figures of a topology stand behind a + in its text.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        recipe: predict model and topology split as a recipe says. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        vary: what to vary, and its values; may be repeated. VALUES is a list (10,25,50Gb/s) or a range
            (1..64*2, 1..8+1). Values that have commas are separated by semicolons (recipe='tp8,pp2;tp4,pp4').
            x2 multiplies what a figure is. Paths that change together have | between them
            ('nodes|batch=1|64;2|128'). Each combination is a point; the last vary changes fastest.
        plans: where each point's plan comes from. One of same, recipes, search. Left out: same, where a
            plan, recipe or baseline is given or varied; search, where algorithm is, and for models without
            recipes; else recipes.
        output: write the study to FILE.
        plan: the plan to predict, as search output writes it.
        baseline: predict a baseline of model and topology instead. One of single-device, data-parallel,
            model-parallel, expert.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        microbatches: microbatches in an iteration. Each has the model's batch. They run one after the
            other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam. For a baseline; a plan file has its own.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64. For a baseline; a plan file has its own.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB). For a
            baseline; a plan file has its own.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        stages: run the data-parallel baseline as a pipeline. N: stages of about equal compute time, each
            on an equal share of the devices. LIST: for each stage DEVICES@LAST_OPERATOR, or DEVICES alone,
            such as 8@layer12.ffn_add,8. Without operators, the cuts are chosen so that the longest stage is
            as short as possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, 1024),8'.
            4x2 means 4 replicas of 2 devices each, which take microbatches in turn; the schedules pipedream,
            pipedream-vertical-sync and inference allow it.
        chunks: stages on each group of devices (schedule interleaved) (default: 1).
        schedule: the order of a pipeline's steps (default: 1f1b). One of gpipe, 1f1b, eager-1f1b,
            interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v, pipedream,
            pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        cost_model: what pipedream and dapple minimise. One of paper, repaired, simulated.
        activation_transfers: pipedream: activations that cross a cut take time. Their size is divided by
            the ratio (default: 1).
        layers: alpa, exhaustive: number of layers to form (default: 16). Operators are grouped into this
            many layers, and stages consist of layers. The default of exhaustive is 8.
        stage_costs: alpa: a file with the costs of stages. JSON. They take the place of simulated costs.
            Without model the best partition is printed.
        mesh: intra: only splits over the axes of this mesh of all devices. Such as 8x8, where the last
            axis runs over neighbouring devices. Each axis splits one dimension of an operator, or copies it.
            A dimension may take several axes that are beside each other. Without mesh an operator may be
            split in any way, on any node, part of a node or group of nodes.
        only: recipes, auto: choose among recipes with this part. Such as tp=4,8, zero=0,1, sp=on or
            schedule=1f1b. Parts: tp, cp, dp, ep, etp, pp, vpp, mbs, sp (on, off), zero, shard (a number,
            all), recompute, schedule, first and last (a number, even); and what runs beside compute: overlap
            (gather: of weights with zero1 and zero2; none), reduce (overlapped, after-steps: gradients of
            pipelines), tp-overlap (always, never) and messages (beside, blocking: between stages; none:
            without them), which are on where the framework has them, unless a condition says otherwise. May
            be given several times.
        not_: recipes, auto: choose among recipes without it.
        within: recipes, auto: end when no recipe can be better by more (default: 0). Of the best one's
            time. A little saves much: the last proofs take longest.
        straight: pipedream: no stage on more than one device.
        use_fewer: pipedream: devices may stay idle.
        memory_limit: pipedream: memory for all batches in flight on a device.
        crossovers: find where the kind of plan changes.
        noise: let times vary from one iteration to the next. Any of operators=2%, links=10%, devices=3%,
            hosts=10% and stragglers=0.1%x1.5, with commas between: log-normal factors of mean 1 on each pass,
            transfer, device and launch, with these standard deviations; and the probability that a device is
            1.5 times as slow in an iteration. Or calibration: operators and links as the samples of
            calibration spread.
        samples: iterations with noise (default: 500).
        objective: by which recipes are chosen under noise (default: p95). p95: the time that 95 % of
            iterations do not exceed; or mean. The ten best recipes without noise are compared.
        tokens: tokens (or samples) to train with, such as 15T.
        target_time: name the cheapest point that trains tokens in it.
        target_cost: name the fastest point that trains tokens for it.
        threads: points that are predicted at the same time (default: all cores).
        resume: run what a study lacks. FILE is written again, unless output names another.
        yes: allow more than 100,000 points.
        algorithm: auto, recipes, mcmc, gpipe, … (default: auto). One of gpipe, pipedream, dapple, alpa,
            recipes, intra, auto.
        seconds: finish within this time (default: 30). For baselines, lower bound, planners, search and
            report together, whatever the algorithm. 0: no limit, so that recipes are ranked until the best is
            proven. Without seconds there is none where proposals is given, or under mpirun.
        proposals: stop after this many proposals, instead of seconds. With exhaustive and pipelines:
            pipelines that are simulated.
        seed: seed of all random choices (default: 1).
        chains: number of Markov chains, each at its own temperature (default: 8).
        moves: which changes are proposed (default: all). One of all, flexflow.
        checkpoint: write checkpoints to FILE, for resume. Written every checkpoint_every seconds and at
            the end. FILE is replaced as a whole, so it is always complete.
        checkpoint_every: seconds between checkpoints; 0: as often as possible (default: 3).
        csv: write a table of all figures.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        A point for each combination of values.
    """
    return Study._of(call("whatif", locals()))


def whatif_plan(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    recipe: Optional[str] = None,
    plan: Optional[PlanLike] = None,
    baseline: Optional[str] = None,
    set: Optional[Settings] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    memory_margin: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    for_: Optional[str] = None,
    runtime: Optional[str] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    noise: Optional[str] = None,
    samples: Optional[Number] = None,
    objective: Optional[str] = None,
    mtbf: Optional[Number] = None,
    checkpoint_time: Optional[Number] = None,
    restart_time: Optional[Number] = None,
    threads: Optional[Number] = None,
    seed: Optional[Number] = None,
    progress: Optional[ProgressCallback] = None,
) -> PlanAnswers:
    """Tell what would change the time of one plan.

    Tells what a tenth more of each figure of the topology would bring. With noise, how much iterations
    differ; with mtbf, how much of the time trains when devices fail.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        recipe: predict model and topology split as a recipe says. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        plan: the plan to predict, as search output writes it.
        baseline: predict a baseline of model and topology instead. One of single-device, data-parallel,
            model-parallel, expert.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        microbatches: microbatches in an iteration. Each has the model's batch. They run one after the
            other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam. For a baseline; a plan file has its own.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64. For a baseline; a plan file has its own.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB). For a
            baseline; a plan file has its own.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        stages: run the data-parallel baseline as a pipeline. N: stages of about equal compute time, each
            on an equal share of the devices. LIST: for each stage DEVICES@LAST_OPERATOR, or DEVICES alone,
            such as 8@layer12.ffn_add,8. Without operators, the cuts are chosen so that the longest stage is
            as short as possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, 1024),8'.
            4x2 means 4 replicas of 2 devices each, which take microbatches in turn; the schedules pipedream,
            pipedream-vertical-sync and inference allow it.
        chunks: stages on each group of devices (schedule interleaved) (default: 1).
        schedule: the order of a pipeline's steps (default: 1f1b). One of gpipe, 1f1b, eager-1f1b,
            interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v, pipedream,
            pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        noise: let times vary from one iteration to the next. Any of operators=2%, links=10%, devices=3%,
            hosts=10% and stragglers=0.1%x1.5, with commas between: log-normal factors of mean 1 on each pass,
            transfer, device and launch, with these standard deviations; and the probability that a device is
            1.5 times as slow in an iteration. Or calibration: operators and links as the samples of
            calibration spread.
        samples: iterations with noise (default: 500).
        objective: by which recipes are chosen under noise (default: p95). p95: the time that 95 % of
            iterations do not exceed; or mean. The ten best recipes without noise are compared.
        mtbf: mean time between failures of one device. Tells how often to write checkpoints, and how much
            of the time trains.
        checkpoint_time: that writing a checkpoint takes (default: 30s).
        restart_time: from a failure until training goes on (default: 5min).
        threads: points that are predicted at the same time (default: all cores).
        seed: seed of all random choices (default: 1).
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        Sensitivities, and what noise and failures do.
    """
    return PlanAnswers._of(call("whatif", locals(), "sensitivity"))


def whatif_figures(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    recipe: Optional[str] = None,
    plan: Optional[PlanLike] = None,
    baseline: Optional[str] = None,
    set: Optional[Settings] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    memory_margin: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    for_: Optional[str] = None,
    runtime: Optional[str] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    progress: Optional[ProgressCallback] = None,
) -> Figures:
    """List what whatif can vary.

    Lists the figures of the topology, the model, the recipe and the runtime.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        recipe: predict model and topology split as a recipe says. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        plan: the plan to predict, as search output writes it.
        baseline: predict a baseline of model and topology instead. One of single-device, data-parallel,
            model-parallel, expert.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        microbatches: microbatches in an iteration. Each has the model's batch. They run one after the
            other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam. For a baseline; a plan file has its own.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64. For a baseline; a plan file has its own.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB). For a
            baseline; a plan file has its own.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        stages: run the data-parallel baseline as a pipeline. N: stages of about equal compute time, each
            on an equal share of the devices. LIST: for each stage DEVICES@LAST_OPERATOR, or DEVICES alone,
            such as 8@layer12.ffn_add,8. Without operators, the cuts are chosen so that the longest stage is
            as short as possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, 1024),8'.
            4x2 means 4 replicas of 2 devices each, which take microbatches in turn; the schedules pipedream,
            pipedream-vertical-sync and inference allow it.
        chunks: stages on each group of devices (schedule interleaved) (default: 1).
        schedule: the order of a pipeline's steps (default: 1f1b). One of gpipe, 1f1b, eager-1f1b,
            interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v, pipedream,
            pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        Each figure with its value now.
    """
    return Figures._of(call("whatif", locals(), "list"))


def compare(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    recipe: Optional[Texts] = None,
    batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    set: Optional[Settings] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    memory_margin: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    for_: Optional[str] = None,
    calibration: Optional[PathLike] = None,
    runtime: Optional[str] = None,
    progress: Optional[ProgressCallback] = None,
) -> Comparison:
    """Show all baselines of a model on a topology side by side.

    Simulates the single-device, data-parallel, model-parallel and expert plans. For each it shows the
    iteration time, what the critical path consists of, and the memory of the fullest device, or why the plan
    does not fit.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        recipe: compares a recipe with them; may be repeated. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        batch: samples in an iteration, in all microbatches together.
        microbatches: microbatches in an iteration (default: 1). Each has the model's batch. They run one
            after the other; then the weights are updated.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB).
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        for_: what will run the plan: only what it can run, as it runs it. One of pipesim, megatron,
            torchtitan, deepspeed. Plans that it can't run are refused, or not considered. Its runtime and
            what its kernels keep for backward count, unless runtime or the model says otherwise. Searches
            switch on the overlap that its users switch on. Reports count model FLOPs as it does.
            NAME:VERSION: what this version of it runs; its newest by default.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        A row for each baseline and recipe.
    """
    return Comparison._of(call("compare", locals()))


def accuracy(
    *,
    data: Optional[PathLike] = None,
    calibration: Optional[PathLike] = None,
    progress: Optional[ProgressCallback] = None,
) -> Accuracy:
    """Compare predictions with tables of measured runs.

    Reads tables of measured runs, predicts each run as simulate recipe would, and prints by group how far the
    predictions are off (median, mean and bias of the relative error, and the worst one), with what the error
    goes, how well they order runs of the same workload, and whether verdicts on memory are right. Runs that
    pipesim can't express are counted with the reason.

    A table is a CSV file whose first line names its columns. A table of runs must have model, devices, recipe
    and batch, and may have others, which may be empty; a column that is not listed here is refused.

    Columns of any row: name (what to call the row); time (of an iteration, a collective or a mixture, "372
    ms"); reason (why pipesim can't express the row, which is then counted and not predicted); group (groups
    that errors are reported for, divided by semicolons); compared_with (the name of the row over which the
    speedup of this one is judged); traits (figures that the error may go with, "tp=8;sequence=4096"); source
    (where the figures are published; for readers only).

    Columns of runs: devices (as topology takes them); model (as model takes it); recipe (as recipe takes it);
    batch (samples of an iteration); runtime (as runtime takes it; left out, megatron); time_of (iteration; or
    device, where devices begin the next iteration without waiting for others: the longest time from a
    device's first task to its last); memory (the peak, "59 GB"); memory_of (the device that has this peak:
    fullest, or last; left out, fullest); state (memory of the last device at an iteration's end: weights,
    gradients, optimizer); status (ok, or oom where memory was short; all else is a run that failed for
    another reason; left out, ok); workload (what runs that could replace each other have in common; left out,
    model, devices and batch); gradient_type (as gradient_type takes it; left out, float32); update_gradients
    (float32, where state holds gradients once more in that type, made for the update); workspace (memory that
    libraries hold beside the model); recomputed (operators within a layer that run again before backward,
    divided by semicolons, beside the recipe's); recomputed_every (2: in every second layer; left out, 1).

    Rows of collectives have the column devices, too, and: collective (as kind of the command collective takes
    it); members (how many of the devices take part, the first ones); size (of the buffer, "4 MiB"); type (of
    the elements; left out, float16. Switches can't add uint8).

    Rows of a product, a collective and copies that ran side by side have: product_alone (time of the product,
    if it ran alone); collective_alone (time of the collective beside it); to_device_alone (time of the copy
    from the host); to_host_alone (time of the copy to the host).

    The folder data/measured of the source has published runs in this form, with the scripts that made these
    tables from published ones.

    Args:
        data: the folder of the tables, or one of them.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        A report for each table.
    """
    return Accuracy._of(call("accuracy", locals()))


def calibrate(
    *,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    output: Optional[PathLike] = None,
    plan: Optional[Plans] = None,
    fit: bool = False,
    backend: Optional[str] = None,
    runs: Optional[PathLike] = None,
    from_trace: Optional[Paths] = None,
    set: Optional[Settings] = None,
    most_runs: Optional[Number] = None,
    suggest: Optional[Number] = None,
    recipe: Optional[str] = None,
    runtime: Optional[str] = None,
    keep_host: bool = False,
    trace: Optional[PathLike] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    memory_margin: Optional[Number] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    random: Optional[Number] = None,
    no_baselines: bool = False,
    tolerance: Optional[Number] = None,
    virtual_devices: bool = False,
    emulate_links: bool = False,
    tf32: bool = False,
    recorded: bool = False,
    held: bool = False,
    rendezvous: Optional[str] = None,
    slow: Optional[str] = None,
    steps: Optional[Number] = None,
    warmup: Optional[Number] = None,
    seed: Optional[Number] = None,
    data: Optional[Texts] = None,
    learning_rate: Optional[Number] = None,
    threads_per_device: Optional[Number] = None,
    arena: bool = False,
    oversubscribe: bool = False,
    no_realtime: bool = False,
    progress: Optional[ProgressCallback] = None,
) -> Calibration:
    """Measure what operators and transfers take on this machine.

    Runs the baselines, random strategies, and the plans that plan names, one after the other. It measures
    their operators, transfers and weight updates, and writes the durations to a file for calibration.

    Kernels are measured as plans run them: in the same shapes and order, with the same caches, transfers and
    busy neighbours. Alone they would be faster.

    An existing file is added to. Samples in which the system took the processor away are dropped. Where that
    leaves no sample of a duration, the file stays as it is and the duration is named. At the end one plan is
    run once more and predicted from what was measured. If it is further off than tolerance, up to three
    times, nothing is written: the machine was busy, then or now.

    With fit, four more random strategies are run and predicted from the file. Durations that had to be
    estimated from other sizes are compared with what was measured; a factor and an overhead for each class of
    tasks (forward passes, all-reduces, …) are fitted and kept in the file.

    With runs nothing is run here. A few constants of a cluster are fitted to runs that were made there, and
    written to a JSON file, which calibration takes instead of an SQLite file or beside one (FILE,FILE).

    With from_trace nothing is run either. Traces of PyTorch's profiler or of Nsight Systems tell what
    operators take by shape, how long the host takes to launch them, alpha and beta of process groups, what
    communication slows down, and how much of it is exposed. With model, topology and recipe, a predicted step
    stands beside the measured one.

    Args:
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        output: where to write it.
        plan: also run this plan; may be repeated.
        fit: correct durations that are estimated from other sizes.
        backend: what runs it: cpu, cuda or emulated (default: cpu). One of cpu, cuda, emulated.
        runs: fit constants to a table of measured runs instead. The table is one that the command
            accuracy reads. What is written is a JSON file with a few factors on what topology and runtime
            say: rates of products, attention and memory, updates, the host, links, latency. With it,
            predictions have an interval.
        from_trace: read a profiler's trace instead; may be repeated. JSON of PyTorch's profiler, or what
            nsys export type sqlite writes; of several ranks, one file each. Tells times of operators by
            shape, launches, communication. With output and topology, the constants that the trace tells are
            written.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        most_runs: fit to N of the runs, the others judge the fit (default: 30). They are chosen at
            random, by seed.
        suggest: name N runs that would tell most (default: 3). They are chosen among rows of the table
            without a time, or else among runs like those of the table with another tp, pp or microbatch.
        recipe: with from_trace: the plan to predict beside the trace. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        runtime: what runs the plan, with what its host costs. One of pipesim, megatron, torch-eager,
            torch-compile, cuda-graph, nanotron, internevo. Left out: for recipes on A100 and later GPUs that
            of for, or megatron; else pipesim. NAME:KEY=VALUE,… changes figures. KEY: module (a time such as
            60us), backward (a time such as 60us), kernel (a time such as 60us), collective (a time such as
            60us), member (a time such as 60us), step (a time such as 60us), weight (a time such as 60us),
            slice (a time such as 60us), flash (1 to 4), overlap (always, unless-sharded or never),
            tensor-overlap (never or always), cast-weights (each or once), gradient-sums (apart or
            in-products), messages (beside, blocking-in-1f1b or blocking), interference (0 to 1), updates
            (each or together), sharded-sums (scattered or whole), sharded-weights (gathered or broadcast),
            update (1 to 10).
        keep_host: write the traced host's factor, too. The profiler makes the host slower, so it is left
            out otherwise. For predictions of traced steps.
        trace: write predicted and measured steps for ui.perfetto.dev.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB).
        microbatches: microbatches in an iteration (default: 1). Each has the model's batch. They run one
            after the other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        random: also run N random strategies (default: 16).
        no_baselines: do not run the baselines.
        tolerance: write nothing if a plan that is run again is further off (default: 25).
        virtual_devices: devices are equal parts of one GPU's multiprocessors.
        emulate_links: transfers take at least the time of the topology's links. Between virtual devices
            of one GPU.
        tf32: let GPUs multiply float32 as TF32, with 10-bit mantissas.
        recorded: replay the first step on GPUs. As a CUDA graph. It is faster, but has no times of single
            tasks.
        held: GPUs wait until the host has enqueued a step. At most 100 ms. Then a step takes what its
            tasks take, as in predictions without a host, and still has times of single tasks.
        rendezvous: where processes on GPUs meet. tcp://HOST:PORT, or mpi. Without it mpi under mpirun,
            else the address and port that torchrun or Slurm names.
        slow: slow emulated devices down, as gpu3=1.5,gpu4=2.
        steps: iterations to measure (default: 40).
        warmup: iterations before them (default: 3).
        seed: seed of data and initial weights (default: 1).
        data: read a data tensor from a file of numbers; may be repeated. For example
            labels=text.bin:uint8@1.
        learning_rate: learning rate of the plan's optimizer (default: 0.01).
        threads_per_device: threads of a device's kernels (default: 1).
        arena: put all buffers of a device into one block of memory. Each buffer has its place from the
            start. Otherwise it is allocated when it is used.
        oversubscribe: allow more devices than cores.
        no_realtime: do not use SCHED_FIFO, even where it is permitted.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        What was measured, the constants that were fitted, or what the traces tell.
    """
    return Calibration._of(call("calibrate", locals()))


def execute(
    *,
    plan: Optional[PlanLike] = None,
    recipe: Optional[str] = None,
    baseline: Optional[str] = None,
    model: Optional[ModelLike] = None,
    topology: Optional[TopologyLike] = None,
    backend: Optional[str] = None,
    check: bool = False,
    set: Optional[Settings] = None,
    batch: Optional[Number] = None,
    microbatch: Optional[Number] = None,
    profile_batch: Optional[Number] = None,
    microbatches: Optional[Number] = None,
    recompute: Optional[str] = None,
    state_sharding: Optional[str] = None,
    gathered_inputs: Optional[str] = None,
    gradient_reduction: Optional[str] = None,
    imbalance: Optional[str] = None,
    optimizer: Optional[str] = None,
    gradient_type: Optional[str] = None,
    gradient_piece: Optional[Number] = None,
    memory_margin: Optional[Number] = None,
    calibration: Optional[PathLike] = None,
    stages: Optional[Number] = None,
    chunks: Optional[Number] = None,
    schedule: Optional[str] = None,
    check_steps: Optional[Number] = None,
    virtual_devices: bool = False,
    emulate_links: bool = False,
    tf32: bool = False,
    recorded: bool = False,
    held: bool = False,
    rendezvous: Optional[str] = None,
    slow: Optional[str] = None,
    steps: Optional[Number] = None,
    warmup: Optional[Number] = None,
    seed: Optional[Number] = None,
    data: Optional[Texts] = None,
    learning_rate: Optional[Number] = None,
    threads_per_device: Optional[Number] = None,
    arena: bool = False,
    oversubscribe: bool = False,
    no_realtime: bool = False,
    trace: Optional[PathLike] = None,
    progress: Optional[ProgressCallback] = None,
) -> Execution:
    """Run training steps of a plan, measured beside predicted.

    Runs the tasks that simulate predicts, with real tensors. Every device of the topology is a thread. Under
    mpirun (mpirun -np 4 pipesim execute …) each process takes its share of the devices, in order.

    Data and initial weights are made from the seed. data reads a data tensor from a file instead: plain
    numbers without a header, sample after sample, row-major, beginning with number OFFSET.

    With check the unsplit model runs too, from the same seed. Results, gradients and updated weights of the
    plan must agree with it within 4 times the effect of rounding. That effect is measured on the unsplit
    model by adding up all sums in three other orders, and, for 16-bit types, by other rounding.

    Iterations in which the system took a core away are counted and left out. Where the host is not quiet, no
    prediction error is reported.

    Emulated devices take as long as predicted and compute nothing. They test the order and the messages of
    plans for any number of devices, and show the effect of a slow device.

    Args:
        plan: the plan to execute, as search output writes it.
        recipe: execute model and topology split as a recipe says. Parts separated by commas, such as
            tp8,pp4,sp,mbs1; "pipesim help recipes" lists them. The optimizer is adam, unless optimizer says
            otherwise.
        baseline: execute a baseline of model and topology instead. One of single-device, data-parallel,
            model-parallel, expert.
        model: NAME, NAME:key=value,…, or FILE.json, .onnx or .txt. `pipesim models` lists the names, and
            `pipesim models NAME` the keys of a model. FILE.json is a model file; `pipesim models NAME --json`
            prints one. FILE.json:size=N,… sets sizes that the file names (docs/files.md). FILE.json may also
            be the config.json of a model of Hugging Face: it is read as a model of the zoo, and
            FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with lengths
            for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a measured
            profile: a batch of N samples, measured with P samples. Where one of the two is left out it equals
            the other; the default of both is 64.
        topology: NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json. `pipesim topologies` lists the
            names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the nodes by another network
            than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only four of its GPUs;
            docs/files.md says more. levels:4@10GB/s,2@1.25GB/s means two groups of four devices, with 10 GB/s
            within a group and 1.25 GB/s between groups. FILE.json is a topology file; `pipesim topologies
            NAME --json` prints one. NAME+NAME joins nodes of several kinds, and TOPOLOGY+PATH=VALUE changes a
            figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif list names the figures.
        backend: what runs it: cpu, cuda or emulated (default: cpu). One of cpu, cuda, emulated.
        check: compare with the unsplit model first.
        set: sets a size of the model; may be repeated. set layers=12 means the same as NAME:layers=12.
            set b=32 sets a size that FILE.json names.
        batch: samples in an iteration, in all microbatches together.
        microbatch: samples in a microbatch, instead of microbatches. Over all devices together; with
            algorithm dapple, on each copy of the pipeline.
        profile_batch: samples per batch when a profile (FILE.txt) was measured.
        microbatches: microbatches in an iteration. Each has the model's batch. They run one after the
            other; then the weights are updated.
        recompute: what is computed again in backward instead of kept (default: none). One of none,
            selective, full, stage.
        state_sharding: what the copies of a weight divide: zero1, zero2, zero3 (default: none). zero1:
            the optimizer's state; weights are gathered after the update. zero2: gradients as well, which are
            reduced after each microbatch. zero3 (FSDP): weights as well, which each microbatch gathers before
            forward and before backward. Parts may follow, separated by commas: shard=8 lets 8 neighbouring
            copies divide it, and other eights hold it again; reshard=never keeps gathered weights from
            forward to backward; prefetch=2 gathers two layers ahead instead of one; weights=float32 (zero3)
            keeps 16-bit weights in float32 without another copy; gather=float32 lets them travel so;
            overlap=gather (zero1, zero2) gathers during the next forward.
        gathered_inputs: inputs gathered for forward are kept, or gathered again (default: keep). One of
            keep, again. Where the devices of an operator each hold a part of its input and put it together,
            as under sequence parallelism. Gathering again for backward takes time and saves memory.
        gradient_reduction: when a pipeline reduces weight gradients (default: overlapped). One of
            overlapped, after-steps. Of pipelines that reduce them once an iteration. Beside backward they may
            hold links that stages before wait for. Recipes with pp reduce them after the steps unless they
            say reduce=overlapped.
        imbalance: how unevenly tokens go to the experts of a layer (default: 1). 1.2: the fullest expert
            gets 1.2 times the mean. 1.5,1.2,1,0.3: relative loads of the experts, repeated until all have
            one. Every device of a group waits for the fullest.
        optimizer: the optimizer: its state in memory and its update (default: momentum). One of sgd,
            momentum, adam. For a baseline; a plan file has its own.
        gradient_type: type in which weight gradients are accumulated and sent (default: float32). One of
            float32, float16, bfloat16, float64. For a baseline; a plan file has its own.
        gradient_piece: largest piece that gradient synchronisation sends at once (default: 25 MB). For a
            baseline; a plan file has its own.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        calibration: use measured durations, or constants fitted to runs. A file from the command
            calibrate. The report lists durations that had to be guessed. FILE,FILE: durations, and constants
            from calibrate runs.
        stages: run the data-parallel baseline as a pipeline. N: stages of about equal compute time, each
            on an equal share of the devices. LIST: for each stage DEVICES@LAST_OPERATOR, or DEVICES alone,
            such as 8@layer12.ffn_add,8. Without operators, the cuts are chosen so that the longest stage is
            as short as possible. Commas in brackets or quotes belong to a name: '8@node7 LSTM(2048, 1024),8'.
            4x2 means 4 replicas of 2 devices each, which take microbatches in turn; the schedules pipedream,
            pipedream-vertical-sync and inference allow it.
        chunks: stages on each group of devices (schedule interleaved) (default: 1).
        schedule: the order of a pipeline's steps (default: 1f1b). One of gpipe, 1f1b, eager-1f1b,
            interleaved, interleaved-groups:GROUP, zb-h1, zb-h2, zb-auto:LIMIT, zb-v, dualpipe-v, pipedream,
            pipedream-vertical-sync, 2bw, chimera, dualpipe, inference.
        check_steps: steps to compare (default: 3).
        virtual_devices: devices are equal parts of one GPU's multiprocessors.
        emulate_links: transfers take at least the time of the topology's links. Between virtual devices
            of one GPU.
        tf32: let GPUs multiply float32 as TF32, with 10-bit mantissas.
        recorded: replay the first step on GPUs. As a CUDA graph. It is faster, but has no times of single
            tasks.
        held: GPUs wait until the host has enqueued a step. At most 100 ms. Then a step takes what its
            tasks take, as in predictions without a host, and still has times of single tasks.
        rendezvous: where processes on GPUs meet. tcp://HOST:PORT, or mpi. Without it mpi under mpirun,
            else the address and port that torchrun or Slurm names.
        slow: slow emulated devices down, as gpu3=1.5,gpu4=2.
        steps: iterations to measure (default: 20).
        warmup: iterations before them (default: 3).
        seed: seed of data and initial weights (default: 1).
        data: read a data tensor from a file of numbers; may be repeated. For example
            labels=text.bin:uint8@1.
        learning_rate: learning rate of the plan's optimizer (default: 0.01).
        threads_per_device: threads of a device's kernels (default: 1).
        arena: put all buffers of a device into one block of memory. Each buffer has its place from the
            start. Otherwise it is allocated when it is used.
        oversubscribe: allow more devices than cores.
        no_realtime: do not use SCHED_FIFO, even where it is permitted.
        trace: write both timelines, which report draws.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        Measured and predicted times. With check, a plan that computes something else is an error.
    """
    return Execution._of(call("execute", locals()))


def export(
    *,
    plan: Optional[PlanLike] = None,
    to: Optional[str] = None,
    output: Optional[PathLike] = None,
    force: bool = False,
    topology: Optional[TopologyLike] = None,
    base: Optional[str] = None,
    seconds: Optional[Number] = None,
    mesh: Optional[str] = None,
    memory_margin: Optional[Number] = None,
    progress: Optional[ProgressCallback] = None,
) -> Export:
    """Write a plan for Megatron-LM, torchtitan, DeepSpeed, compilers.

    Writes what starts a plan's training run in a framework: its settings, a script that launches it, the
    hosts, and the place of each rank. The plan must be that of a recipe, and its model a decoder of the zoo
    or of a config.json.

    megatron: arguments of pretrain_gpt.py, with the layout of pipeline stages. torchtitan: a configuration in
    Python, the same as overrides of its command line, and the schedule as CSV; for 0.2 a TOML file.
    deepspeed: its JSON. mlir: no run, but how each tensor of any plan is divided, with meshes and shardings
    as Shardy and GSPMD write them. instance: no run, but all splits of the model's operators on the topology,
    with costs and memory, for any solver of the intra-operator problem; "pipesim solve" reads it. The plan
    says model, topology and what an iteration is, and has no stages.

    What the framework can't express is refused, with the reason, the best recipe that it runs, and what that
    costs.

    Args:
        plan: the plan, as search output and simulate output write it.
        to: the framework that it is written for, or FRAMEWORK:VERSION. One of megatron, torchtitan,
            deepspeed, mlir, instance. Left out, the version is the newest known. Versions are of Megatron-LM
            0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19, main; of torchtitan 0.2, main; of DeepSpeed 0.18,
            0.19. Settings differ from version to version, so that files say theirs, and refuse to start with
            others.
        output: the folder that files are written to; made if it is not there.
        force: replace files that are there.
        topology: hosts and devices; default: those of the plan.
        base: torchtitan: your configuration of the model. A function in Python that returns it. The
            plan's settings are put on it. Left out, it is torchtitan's own, of models that it has one for.
        seconds: time to look for the best plan, where this one is refused; 0: none (default: 10).
        mesh: instance: only splits over the axes of this mesh of all devices. Such as 8x8, where the last
            axis runs over neighbouring devices. Each axis splits one dimension of an operator, or copies it.
            A dimension may take several axes that are beside each other. Without mesh an operator may be
            split in any way, on any node, part of a node or group of nodes.
        memory_margin: memory to leave free on every device. A share (10%) or a size (2GB). It is for
            memory that no plan counts: driver, communication libraries, fragmentation.
        progress: a function that is called with a Progress; it may end the call.

    Returns:
        The files that were written.
    """
    return Export._of(call("export", locals()))
