"""GPTs under Megatron-DeepSpeed on A100, and all-reduces on a DGX-1 with V100, both of VIA-Research/vTrain (MIT): Bang et
al., MICRO 2024; data/ground_truth_*.csv, trace/v100."""

from nccl import size_class
from runs_table import Run, main, part_of, seconds, size

GPT = ("n_gpus", "gbs", "mbs", "hidden", "heads", "layers", "seq", "tp", "dp", "pp", "iter_time_ms", "recompute", "schedule",
       "gpu")
ALL_REDUCE = ("gpu", "n_gpus", "bytes", "time_us")


def refusal(row):
    if not row.text("gpu").startswith("A100-80GB"):
        return "a GPU that pipesim does not know"
    if not part_of("dgx-a100", 8, row.count("n_gpus")):
        return "nodes that are not whole"
    if row.text("schedule") != "1F1B":
        return "schedule " + row.text("schedule")
    if row.text("recompute") not in ("full", "none"):
        return "recompute " + row.text("recompute")
    if row.count("tp") * row.count("pp") * row.count("dp") != row.count("n_gpus"):
        return "degrees that do not multiply to the number of GPUs"
    if row.count("gbs") % (row.count("mbs") * row.count("dp")) != 0:
        return "a batch that microbatches do not divide"
    return ""


def gpt(row):
    n = {c: row.count(c) for c in ("n_gpus", "gbs", "mbs", "hidden", "layers", "tp", "dp", "pp")}
    run = Run(f"{n['layers']} x {n['hidden']} on {n['n_gpus']}: tp{n['tp']} pp{n['pp']} dp{n['dp']} mbs{n['mbs']} "
              f"batch {n['gbs']}", status="ok", reason=refusal(row))
    if row.number("iter_time_ms") > 0:
        run.time = seconds(row.number("iter_time_ms") / 1e3)
    if run.reason:
        return run
    # Words of GPT-2's vocabulary, padded as Megatron-LM does, so that each rank has a multiple of 128.
    cut = 128 * n["tp"]
    words = (50257 + cut - 1) // cut * cut
    run.model = (f"gpt:dtype=float16,sequence={row.count('seq')},positions={row.count('seq')},layers={n['layers']},"
                 f"hidden={n['hidden']},heads={row.count('heads')},vocab={words},attention=scores,kept=megatron")
    run.devices = part_of("dgx-a100", 8, n["n_gpus"])
    run.recipe = f"tp{n['tp']},pp{n['pp']},dp{n['dp']},mbs{n['mbs']}"
    if row.text("recompute") == "full":
        run.recipe += ",recompute=full"
    run.batch = n["gbs"]
    run.gradient_type = "float16"
    run.group = [f"hidden {n['hidden']}", f"tp {n['tp']}", f"pp {n['pp']}", f"mbs {n['mbs']}"]
    run.workload = f"{n['layers']} layers of width {n['hidden']} on {n['n_gpus']} GPUs, batch {n['gbs']}"
    run.traits = n
    return run


def all_reduce(row):
    gpus, count = row.count("n_gpus"), row.count("bytes")
    run = Run(f"all-reduce of {count} bytes on {gpus} {row.text('gpu')}")
    if row.text("gpu") != "v100":
        run.reason = "a system that pipesim does not know"
    if not 2 <= gpus <= 8:
        run.reason = "other than 2 to 8 GPUs"
    if run.reason:
        return run
    run.time = seconds(row.number("time_us") * 1e-6)
    run.devices, run.collective, run.members, run.size = "dgx1-v100", "all-reduce", gpus, size(count)
    run.group = [f"{gpus} GPUs", size_class(count)]
    run.traits = {"n_gpus": gpus, "bytes": count}
    return run


def collectives(columns):
    return "iter_time_ms" not in columns and "time_us" in columns


if __name__ == "__main__":
    main(__doc__, lambda columns: ALL_REDUCE if collectives(columns) else GPT,
         lambda rows: [all_reduce(row) if collectives(row.cells) else gpt(row) for row in rows],
         lambda columns: "collective" if collectives(columns) else "run")
