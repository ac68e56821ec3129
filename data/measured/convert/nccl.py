"""Collectives that nccl-tests measured inside one node (ai-dynamo/aiconfigurator, Apache-2.0). A table without a column of
types is of elements of two bytes."""

from runs_table import Run, main, seconds, size

NODES = {"a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "hgx-h200", "b200_sxm": "dgx-b200",
         "b300_sxm": "dgx-b300", "gb200": "gb200-nvl72", "gb300": "gb300-nvl72"}
KINDS = {"all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "all_gather": "all-gather", "alltoall": "all-to-all"}
TYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "int8": "uint8"}
MIB = 1 << 20
NEEDED = ("system", "nccl_version", "op", "dtype", "n_gpus", "bytes", "latency_us")


def size_class(count):
    return "below 1 MiB" if count < MIB else "1 MiB to 16 MiB" if count < 16 * MIB else "16 MiB and more"


def collective(row):
    system, op, count = row.text("system"), row.text("op"), row.count_or_none("bytes")
    gpus = row.count_or_none("gpus" if "gpus" in row.cells else "n_gpus")
    kind, version = row.cells.get("dtype", "half"), row.cells.get("nccl_version") or row.cells.get("nccl", "")
    run = Run(f"{op} of {count} bytes on {gpus} {system}, {kind} {version}")
    if system not in NODES:
        run.reason = "a system that pipesim does not know"
    if op not in KINDS:
        run.reason = "a collective that pipesim does not know"
    if kind not in TYPES:
        run.reason = "a type that pipesim does not know"
    if not 2 <= gpus <= 8:
        run.reason = "other than 2 to 8 GPUs"
    if run.reason:
        return run
    run.time = seconds(row.number("latency_us") * 1e-6)
    run.devices, run.collective, run.members, run.size = NODES[system], KINDS[op], gpus, size(count)
    run.type = TYPES[kind]
    run.group = [system, op, f"{gpus} GPUs", size_class(count)]
    run.traits = {"n_gpus": gpus, "bytes": count}
    return run


if __name__ == "__main__":
    main(__doc__, lambda columns: ("system", "nccl", "op", "gpus", "bytes", "latency_us") if "nccl" in columns else NEEDED,
         lambda rows: [collective(row) for row in rows], "collective")
