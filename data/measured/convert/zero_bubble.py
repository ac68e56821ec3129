"""GPTs under Megatron-LM with the schedules of Qi et al. (ICLR 2024, arXiv:2401.10241, tables 3 to 5), compared with 1F1B."""

from runs_table import Run, main, part_of, seconds, size

# The words of the tokenizer of the authors' sample data (sail-sg/zero-bubble-pipeline-parallelism,
# GPTSentencePieceTokenizer). Head and loss then take about as long as the layer that the last stage has less.
WORDS = 32000
SCHEDULES = ("1F1B", "1F1B-I", "ZB-1p", "ZB-2p")


def refusal(row):
    stages, layers = row.count("n_gpus(=pp stages)"), row.count("layers") + 2
    if not row.text("gpu").startswith("A100-80GB"):
        return "a GPU that pipesim does not know"
    if not part_of("dgx-a100", 8, stages):
        return "nodes that are not whole"
    if row.text("schedule") not in SCHEDULES:
        return "schedule " + row.text("schedule")
    if layers % stages != 0 or layers // stages < 2:
        return "layers that stages do not divide"
    if row.number("samples_per_gpu_per_s") == 0:
        return "no rate measured"
    return ""


def run_of(row):
    model, schedule, stages = row.text("model"), row.text("schedule"), row.count("n_gpus(=pp stages)")
    microbatches, microbatch = row.count("n_microbatches"), row.count("microbatch_size")
    setting = f"{model} on {stages} with {microbatches} microbatches: "
    run = Run(setting + schedule, reason=refusal(row))
    if run.reason:
        return run
    run.status, run.batch, run.devices = "ok", microbatches * microbatch, part_of("dgx-a100", 8, stages)
    run.time = seconds(run.batch / (row.number("samples_per_gpu_per_s") * stages))
    run.memory = size(row.number("peak_mem_GB") * 1e9)
    run.group = [model, schedule, f"{microbatches} microbatches"]
    run.workload = f"{model} on {stages} GPUs, batch {run.batch}"
    if schedule != "1F1B":
        run.compared_with = setting + "1F1B"
    run.traits = {"n_microbatches": microbatches}
    # Neither FlashAttention nor recomputation.
    run.model = (f"gpt:dtype=float16,sequence={row.count('seq')},positions={row.count('seq')},layers={row.count('layers')},"
                 f"hidden={row.count('hidden')},heads={row.count('heads')},vocab={WORDS},projection=untied,attention=scores,"
                 "kept=megatron")
    # Embedding and head take the place of a layer each.
    each = (row.count("layers") + 2) // stages
    zero_bubble = schedule.startswith("ZB")
    run.recipe = f"pp{stages},mbs{microbatch}"
    if schedule == "1F1B-I":
        run.recipe += f",vpp{each}"  # a layer each
    else:
        run.recipe += f",first={each - 1},last={each - 1}"
    if zero_bubble:
        run.recipe += f",schedule=zb-auto:{(1 if schedule == 'ZB-1p' else 2) * stages}"
        # What is checked over all stages is checked behind the update (section 4).
        run.time_of = "device"
    # Products add to the gradients' sums, as Megatron-LM does by default and the authors' steps of weight gradients do. The
    # authors' runtime runs messages beside compute; that of 1F1B waits for each batch of messages
    # (torch.cuda.synchronize() behind batch_isend_irecv).
    run.runtime = "megatron:gradient-sums=in-products,messages=" + ("beside" if zero_bubble else "blocking")
    return run


if __name__ == "__main__":
    main(__doc__, ("model", "layers", "heads", "hidden", "seq", "gpu", "n_gpus(=pp stages)", "microbatch_size",
                   "n_microbatches", "schedule", "samples_per_gpu_per_s", "peak_mem_GB"), lambda rows: [run_of(row) for row in rows])
