"""Llama-like models under nanotron on H100 (huggingface/nanotron, The Ultra-Scale Playbook, 2025, Apache-2.0).

Runs that reached less than a tenth of the peak rate are not judged: their times hold up for other reasons than the recipe,
such as memory that is freed and asked for again.
"""

from runs_table import Run, main, part_of, seconds, size

# Layers, width and feed-forward width of the playbook's models. Every head has keys and values of its own, of width 128;
# the embedding is tied.
MODELS = {"1B": (16, 2048, 8192), "3B": (28, 3072, 8192), "8B": (32, 4096, 14336), "80B": (80, 8192, 28672)}
SEQUENCE, WORDS, HEAD_WIDTH = 4096, 131072, 128
LEAST_USE = 10  # % of the peak rate


def refusal(row):
    if row.text("status") != "ok":
        return "a run that failed: the table does not tell why"
    if row.text("model") not in MODELS:
        return "a model whose sizes pipesim does not know"
    if not part_of("dgx-h100", 8, row.count("n_gpus")):
        return "nodes that are not whole"
    if row.count_or_none("zero") > 1:
        return f"ZeRO-{row.count_or_none('zero')}"
    if row.number("tokens_per_s") == 0:
        return "no rate measured"
    if row.number("mfu_pct") < LEAST_USE:
        return "less than 10 % of the peak rate"
    if row.count("tp") * row.count("pp") * row.count("dp") != row.count("n_gpus"):
        return "degrees that do not multiply to the number of GPUs"
    if row.count("dp") * row.count("mbs") * row.count("grad_acc") != row.count("gbs"):
        return "a batch that microbatches do not divide"
    return ""


def layers_of_groups(model, pp):
    """Cuts the pipeline as nanotron does (PipelineModel.build_model): by the parameters of layers' products and of the
    head. Each group ends before its share of them is exceeded."""
    layers, hidden, ffn = MODELS[model]
    layer = 4 * hidden * hidden + 3 * ffn * hidden
    whole = layers * layer + WORDS * hidden
    groups, group = [0] * pp, 0
    for done in range(1, layers + 1):
        if group + 1 < pp and done * layer * pp > whole * (group + 1):
            group += 1
        groups[group] += 1
    return groups


def run_of(row):
    model, zero = row.text("model"), row.count_or_none("zero")
    n = {c: row.count(c) for c in ("n_gpus", "mbs", "grad_acc", "dp", "pp", "tp")}
    run = Run(f"{model} on {n['n_gpus']}: tp{n['tp']} pp{n['pp']} dp{n['dp']} mbs{n['mbs']} zero{zero}", reason=refusal(row))
    if run.reason:
        run.status = "" if row.text("status") == "ok" else "failed"
        return run
    layers, hidden, ffn = MODELS[model]
    batch, heads = row.count("gbs"), hidden // HEAD_WIDTH
    run.status = "ok"
    run.time = seconds(batch * SEQUENCE / row.number("tokens_per_s"))
    run.memory, run.memory_of = size(row.number("gpu_mem_GB") * 1e9), "last"
    run.group = [model, f"zero {zero}", f"tp {n['tp']}", f"pp {n['pp']}", f"mbs {n['mbs']}", f"{n['n_gpus']} GPUs"]
    run.workload = f"{model} on {n['n_gpus']} GPUs, batch {batch}"
    run.traits = n
    run.model = (f"llama:dtype=bfloat16,sequence={SEQUENCE},layers={layers},hidden={hidden},ffn={ffn},heads={heads},"
                 f"kv_heads={heads},vocab={WORDS},projection=tied,kept=megatron,swiglu=separate")
    run.devices, run.batch, run.runtime = part_of("dgx-h100", 8, n["n_gpus"]), batch, "nanotron"
    # Tensor parallelism scatters the sequence (tp_mode REDUCE_SCATTER of the playbook's configurations).
    run.recipe = (f"tp{n['tp']},pp{n['pp']},dp{n['dp']},mbs{n['mbs']}" + (",sp" if n["tp"] > 1 else "") +
                  (",zero1" if zero == 1 else ""))
    if n["pp"] > 1:
        run.recipe += ",layers=" + "-".join(map(str, layers_of_groups(model, n["pp"])))
    return run


if __name__ == "__main__":
    main(__doc__, ("model", "n_gpus", "mbs", "grad_acc", "gbs", "dp", "pp", "tp", "zero", "status", "mfu_pct", "tokens_per_s",
                   "gpu_mem_GB"), lambda rows: [run_of(row) for row in rows])
