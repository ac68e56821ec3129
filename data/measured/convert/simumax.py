"""Runs of models cut to a few layers, under Megatron-LM on 8 B200 (MooreThreads/SimuMax, docs/b200, Apache-2.0): bf16,
microbatches of one sample of 4,096 tokens, or of as many as the case says, the distributed optimizer, sequence parallelism with
tensor parallelism.

simu_tools/megatron_scripts/scripts/run_pretrain_*.sh: gradients in float32, nothing overlaps, experts by all-to-all and filled
evenly; of models with experts the first layer is dense, whatever their number. docs/b200: the sequence is divided by
cp_comm_type=a2a, so that each device has all of it for some heads.
"""

import re

from runs_table import Run, main, seconds, size

DEVICES, SEQUENCE = 8, 4096
# configs/models. SimuMax's Llama 405B has 16 heads of keys and values, twice the published number.
MODELS = {
    "llama3-8b": "llama3-8b:vocab=128257", "llama3-70b": "llama3-70b:", "llama3-405b": "llama3-405b:kv_heads=16",
    "deepseekv2": "deepseek-v3:hidden=5120,ffn=12288,expert_ffn=1536,shared_experts=2,experts=160,top_k=6,vocab=102400,"
                  "router_groups=8,router_top_groups=3,dense_layers=1",
    "deepseekv3": "deepseek-v3:dense_layers=1"}
DEGREE = re.compile(r"(tp|pp|cp|dp|ep|etp)(\d+)")


def degrees_of(row):
    """Degrees by the column `parallel`, or the case's name where it does not tell; None where the two differ, or a part of
    the column is unknown."""
    of_name = {name: int(n) for part in row.text("case").split("_") for name, n in DEGREE.findall(part) if part == name + n}
    told = {name: int(n) for name, n in DEGREE.findall(row.text("parallel"))}
    if DEGREE.sub("", row.text("parallel")).strip("_"):
        return None
    if row.count_or_none("cp_size"):
        told.setdefault("cp", row.count_or_none("cp_size"))
    if any(told.get(name, n) != n for name, n in of_name.items()):
        return None
    return {**of_name, **told}


def key_of(model):
    return re.sub(r"[-_](padding|l)[-_]?\d+$", "", model.replace("_", "-"))


def refusal(row, degrees):
    if key_of(row.text("model")) not in MODELS:
        return "a model that pipesim does not know: " + row.text("model")
    if degrees is None:
        return "a form of parallelism that pipesim does not know: " + row.text("parallel")
    if not degrees:
        return "degrees that are not told"
    if degrees.get("ep", 1) > 1 and not key_of(row.text("model")).startswith("deepseek"):
        return "parts of experts, in a model that has none: " + row.text("parallel")
    parts = [degrees.get(name, 1) for name in ("tp", "pp", "cp")]
    if DEVICES % (parts[0] * parts[1] * parts[2]) != 0:
        return "degrees that do not divide the number of GPUs"
    copies = DEVICES // (parts[0] * parts[1] * parts[2])
    if degrees.get("dp", copies) != copies:
        return "copies that are not those of 8 GPUs"
    return "" if row.number("real_ms") > 0 else "no time measured"


def run_of(row):
    microbatches, degrees = row.count("mbc"), degrees_of(row)
    run = Run(row.text("case"))
    if row.number("real_alloc_gib") > 0:
        run.memory = size(row.number("real_alloc_gib") * (1 << 30))
    if row.number("real_ms") > 0:
        run.time = seconds(row.number("real_ms") / 1e3)
    run.reason = refusal(row, degrees)
    if run.reason:
        return run
    model, vpp = key_of(row.text("model")), row.count("vp_size")
    tp, pp, cp, ep = (degrees.get(name, 1) for name in ("tp", "pp", "cp", "ep"))
    copies = DEVICES // (tp * pp * cp)
    long = re.search(r"_seq(\d+)", row.text("case"))
    sequence = int(long.group(1)) if long else SEQUENCE
    run.status, run.batch, run.devices = "ok", copies * microbatches, "dgx-b200"
    text = MODELS[model] if MODELS[model].endswith(":") else MODELS[model] + ","
    run.model = f"{text}dtype=bfloat16,sequence={sequence},layers={row.count('layer_num')},kept=megatron"
    run.recipe = (f"tp{tp},pp{pp},cp{cp},dp{copies},mbs1,zero1" + (",sp" if tp > 1 else "") + (f",vpp{vpp}" if vpp > 1 else "") +
                  (f",ulysses={cp}" if cp > 1 else "") + (f",ep{ep},etp{degrees.get('etp', tp)}" if ep > 1 else ""))
    run.runtime = "megatron:gradient-sums=in-products"
    run.group = [model, f"tp {tp}", f"pp {pp}", f"{microbatches} microbatches"]
    run.group += ([f"cp {cp}"] if cp > 1 else []) + ([f"ep {ep}"] if ep > 1 else []) + (
        [f"{sequence} tokens"] if sequence != SEQUENCE else [])
    run.workload = f"{model} of {row.count('layer_num')} layers, {sequence} tokens, batch {run.batch}"
    run.traits = {"tp": tp, "pp": pp, "microbatches": microbatches}
    return run


if __name__ == "__main__":
    main(__doc__, ("case", "model", "parallel", "layer_num", "mbc", "vp_size", "real_ms", "real_alloc_gib", "cp_size"),
         lambda rows: [run_of(row) for row in rows])
