"""Runs of models cut to a few layers, under Megatron-LM on 8 B200 (MooreThreads/SimuMax, docs/b200, Apache-2.0): bf16, 4,096
tokens, microbatches of one sample, the distributed optimizer, sequence parallelism with tensor parallelism."""

import re

from runs_table import Run, main, seconds, size

MODELS = ("llama3-8b", "llama3-70b")
DEVICES, SEQUENCE = 8, 4096


def run_of(row):
    model, microbatches = row.text("model"), row.count("mbc")
    told = {name: int(degree) for name, degree in re.findall(r"([a-z]+)(\d+)", row.text("parallel"))}
    tp, pp = told.pop("tp", 1), told.pop("pp", 1)
    cp, vpp = max(1, row.count_or_none("cp_size")), row.count("vp_size")
    run = Run(row.text("case"))
    if row.number("real_alloc_gib") > 0:
        run.memory = size(row.number("real_alloc_gib") * (1 << 30))
    if row.number("real_ms") > 0:
        run.time = seconds(row.number("real_ms") / 1e3)
    if model not in MODELS:
        run.reason = "a model that pipesim does not know: " + model
    elif told:
        run.reason = "a form of parallelism that pipesim does not know: " + row.text("parallel")
    elif not row.text("parallel"):
        run.reason = "degrees that are not told"
    elif DEVICES % (tp * pp * cp) != 0:
        run.reason = "degrees that do not divide the number of GPUs"
    elif not run.time:
        run.reason = "no time measured"
    if run.reason:
        return run
    copies = DEVICES // (tp * pp * cp)
    run.status, run.batch, run.devices = "ok", copies * microbatches, "dgx-b200"
    run.model = f"{model}:dtype=bfloat16,sequence={SEQUENCE},layers={row.count('layer_num')},kept=megatron"
    run.recipe = (f"tp{tp},pp{pp},cp{cp},dp{copies},mbs1,zero1" + (",sp" if tp > 1 else "") + (f",vpp{vpp}" if vpp > 1 else ""))
    run.runtime = "megatron:gradient-sums=in-products"
    run.group = [f"tp {tp}", f"pp {pp}", f"{microbatches} microbatches"]
    run.workload = f"{model} of {row.count('layer_num')} layers, batch {run.batch}"
    run.traits = {"tp": tp, "pp": pp, "microbatches": microbatches}
    return run


if __name__ == "__main__":
    main(__doc__, ("case", "model", "parallel", "layer_num", "mbc", "vp_size", "real_ms", "real_alloc_gib", "cp_size"),
         lambda rows: [run_of(row) for row in rows])
