"""Collectives that nccl-tests measured inside one node (ai-dynamo/aiconfigurator, Apache-2.0)."""

from runs_table import Run, main, seconds, size

NODES = {"a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "hgx-h200", "b200_sxm": "dgx-b200"}
KINDS = {"all_reduce": "all-reduce", "reduce_scatter": "reduce-scatter", "all_gather": "all-gather", "alltoall": "all-to-all"}
TYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "int8": "uint8"}
MIB = 1 << 20


def size_class(count):
    return "below 1 MiB" if count < MIB else "1 MiB to 16 MiB" if count < 16 * MIB else "16 MiB and more"


def collective(row):
    system, op, gpus, count = row.text("system"), row.text("op"), row.count_or_none("n_gpus"), row.count_or_none("bytes")
    run = Run(f"{op} of {count} bytes on {gpus} {system}, {row.text('dtype')} {row.text('nccl_version')}")
    if system not in NODES:
        run.reason = "a system that pipesim does not know"
    if op not in KINDS:
        run.reason = "a collective that pipesim does not know"
    if row.text("dtype") not in TYPES:
        run.reason = "a type that pipesim does not know"
    if not 2 <= gpus <= 8:
        run.reason = "other than 2 to 8 GPUs"
    if run.reason:
        return run
    run.time = seconds(row.number("latency_us") * 1e-6)
    run.devices, run.collective, run.members, run.size = NODES[system], KINDS[op], gpus, size(count)
    run.type = TYPES[row.text("dtype")]
    run.group = [system, op, f"{gpus} GPUs", size_class(count)]
    run.traits = {"n_gpus": gpus, "bytes": count}
    return run


if __name__ == "__main__":
    main(__doc__, ("system", "nccl_version", "op", "dtype", "n_gpus", "bytes", "latency_us"),
         lambda rows: [collective(row) for row in rows], "collective")
