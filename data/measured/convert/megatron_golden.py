"""Runs of Megatron-LM's functional tests (NVIDIA/Megatron-LM, tests/functional_tests, BSD-3).

Memory is what PyTorch's allocator handed out on the last rank: `mem-allocated-bytes` and `mem-max-allocated-bytes` of the
golden values. Settings that the table does not hold follow from the case's name by the conventions of the test suite
(docs/llm.md).
"""

from runs_table import Run, main, part_of, size

MIB = 1 << 20
# What a case's name says that neither pipesim nor the table can follow.
UNEXPRESSED = {
    "fsdp": "FSDP of Megatron-LM", "zp_z3": "FSDP of Megatron-LM", "fp8": "8-bit types", "grpo": "reinforcement learning",
    "_mla": "latent attention", "muon": "the optimizer Muon", "cudagraph": "CUDA graphs with buffers of their own",
    "offloading": "activations moved to the host", "op_fuser": "fused experts of Transformer Engine",
    "experimental": "experimental kernels", "defer_embedding_wgrad": "deferred weight gradients of the projection",
    "cross_entropy_loss_fusion": "the fused loss, whose scratch memory pipesim does not count",
    "uneven_pipeline": "stages of different layers", "account_for_embedding": "stages of different layers",
    # These cases add shared experts and narrower ones, which only their configuration tells.
    "gpt3_moe_mcore": "shared experts"}
# The start of a platform's name: its devices, and its preset with the devices of a node.
PLATFORMS = {"dgx_a100": ("A100-80GB", "dgx-a100", 8), "dgx_h100": ("H100-SXM5", "dgx-h100", 8),
             "dgx_gb200": ("GB200", "gb200-nvl72", 72)}


class Case:
    """A row, and what its case's name adds."""

    def __init__(self, row):
        self.row, self.name, self.model = row, row.text("case"), row.text("model")
        self.platform = next((p for start, p in PLATFORMS.items() if row.text("platform").startswith(start)), None)

    def says(self, word):
        return word in self.name

    def told(self, column):
        return bool(self.row.text(column))

    def degree(self, column):
        return self.row.count(column) if self.told(column) else 1

    def half(self):
        return self.row.text("precision") == "fp16"

    def experts(self):
        return self.row.count_or_none("experts") > 1

    def number_of_devices(self):
        """Runs of the suite have a node of eight devices unless the table says otherwise."""
        return self.row.count("n_gpus") if self.told("n_gpus") else 8

    def copies(self):
        return self.number_of_devices() // (self.degree("tp") * self.degree("pp") * self.degree("cp"))

    def devices(self):
        return part_of(*self.platform[1:], self.number_of_devices())

    def ampere(self):
        return self.platform[0] == "A100-80GB"

    def refusal(self):
        row = self.row
        if self.model in ("bert", "t5"):
            return "Megatron-LM's own form of " + self.model.upper()
        if self.model not in ("gpt", "moe", "mixtral"):
            return "a model other than GPT, such as hybrids"
        if row.flag("fsdp"):
            return "FSDP of Megatron-LM"
        if self.told("fp8"):
            return "8-bit types"
        for word, reason in UNEXPRESSED.items():
            if self.says(word):
                return reason
        if row.text("precision") not in ("bf16", "fp16"):
            return "precision " + row.text("precision")
        if (self.model == "mixtral" or self.says("release")) and not self.told("n_gpus"):
            return "a release run that does not tell its number of devices"
        if not self.told("mem_max_alloc_bytes"):
            return "no peak memory measured"
        if self.platform is None:
            return "a platform that pipesim does not know"
        if not self.devices():
            return "nodes that are not whole"
        for column in ("layers", "hidden", "heads", "seq", "mbs", "gbs"):
            if not self.told(column):
                return f"no {column} in the table"
        groups = self.degree("pp")
        if self.copies() == 0 or self.number_of_devices() % (self.degree("tp") * groups * self.degree("cp")) != 0:
            return "fewer devices than the degrees need"
        samples = self.copies() * row.count_or_none("mbs")
        if samples == 0 or row.count_or_none("gbs") % samples != 0:
            return "a batch that microbatches do not divide"
        if self.told("vpp_layers_per_stage") and row.count_or_none("gbs") // samples % groups != 0:
            return "interleaved stages with microbatches that do not fill their groups"
        return ""

    def transformer_engine(self):
        """By the names of the cases; it alone divides the sequence of attention."""
        return self.name.startswith(("gpt3_mcore_te_", "gpt3_7b")) or self.degree("cp") > 1 or self.says("release")

    def fused_attention(self):
        """Before resumed runs were let choose, all cases but those with context parallelism asked for unfused attention;
        runs of that time are the ones on Oracle's cloud, and of cases that are gone."""
        if self.degree("cp") > 1 or self.says("release") or self.says("memory_speed"):
            return True
        return self.transformer_engine() and self.says("resume") and not self.row.text("platform").endswith("dracooci")

    def expressed_model(self):
        row, tp, release = self.row, self.degree("tp"), self.says("release")
        words = row.count_or_none("vocab") if self.told("vocab") else 256000 if release else 50257
        cut = 128 * tp
        text = (f"gpt:dtype={'float16' if self.half() else 'bfloat16'},sequence={row.count_or_none('seq')},"
                f"layers={row.count_or_none('layers')},hidden={row.count_or_none('hidden')},"
                f"heads={row.count_or_none('heads')},vocab={(words + cut - 1) // cut * cut},"
                f"attention={'fused' if self.fused_attention() else 'scores'},kept=megatron")
        if self.degree("cp") > 1 or release:
            text += ",dropout=0"
        if self.says("rope") or release:
            text += ",position=rotary"
        if self.says("disable_bias") or release or self.experts():
            text += ",bias=no"
        if self.says("untie") or release or self.says("memory_speed"):
            text += ",projection=untied"
        if self.told("kv_groups"):
            text += f",kv_heads={row.count_or_none('kv_groups')}"
        if self.told("ffn"):
            text += f",ffn={row.count_or_none('ffn')}"
        if self.experts():
            text += (f",experts={row.count('experts')},top_k={row.count_or_none('topk') if self.told('topk') else 2},"
                     f"token_groups={self.degree('cp') * (tp if row.flag('seq_par') else 1)}")
        return text

    def recipe(self):
        row, tp, pp, cp = self.row, self.degree("tp"), self.degree("pp"), self.degree("cp")
        text = f"tp{tp},cp{cp},dp{self.copies()},pp{pp},mbs{row.count_or_none('mbs')}"
        each = row.count_or_none("vpp_layers_per_stage")
        if each > 0:
            text += f",vpp{row.count_or_none('layers') // pp // each}"
        if row.flag("seq_par") and tp > 1:
            text += ",sp"
        # The state is divided within a stage; the two copies of a tied embedding have one each.
        if row.flag("dist_opt"):
            text += f",zero1,shard={self.copies() * cp // (2 if self.says('multi_dist_optimizer') else 1)}"
        if self.told("recompute"):
            text += ",recompute=" + row.text("recompute")
        if self.experts() and (self.degree("ep") > 1 or self.told("etp")):  # etp says nothing of dense models
            text += f",ep{self.degree('ep')},etp{row.count_or_none('etp') if self.told('etp') else tp}"
        return text

    def workspace(self):
        """PyTorch gives each thread that multiplies matrices, forward and autograd's backward, a workspace of cuBLAS;
        CUBLAS_WORKSPACE_CONFIG of deterministic cases makes it 32 MiB, Hopper's default, above the 8.125 MiB of Ampere.
        Transformer Engine has one more. The local implementation keeps a buffer of one layer's scores."""
        told = self.experts() or (self.degree("cp") == 1 and not self.says("nondeterministic") and not self.says("release"))
        size_of_two = 2 * (32 * MIB if told or not self.ampere() else 8 * MIB + MIB // 8)
        if self.transformer_engine():
            return size_of_two + (4 if self.ampere() else 32) * MIB
        row = self.row
        scores = row.count_or_none("mbs") * row.count_or_none("heads") // self.degree("tp") * row.count_or_none("seq") ** 2
        return size_of_two + 2 * scores

    def groups(self):
        row, tp = self.row, self.degree("tp")
        groups = ["experts" if self.experts() else "dense",
                  "distributed optimizer" if row.flag("dist_opt") else "whole optimizer"]
        if tp > 1:
            groups.append("tensor parallel")
        if row.flag("seq_par") and tp > 1:
            groups.append("sequence parallel")
        if self.degree("cp") > 1:
            groups.append("context parallel")
        if self.degree("pp") > 1:
            groups.append("interleaved" if self.told("vpp_layers_per_stage") else "pipeline")
        if self.told("recompute"):
            groups.append("recompute")
        groups.append("fused attention" if self.fused_attention() else "attention with scores")
        if self.half():
            groups.append("float16")
        return groups + [self.platform[0]]

    def run(self):
        row = self.row
        run = Run(f"{self.name} {row.text('platform')} {row.text('env')}", reason=self.refusal(), source=row.text("path"))
        if row.count_or_none("mem_max_alloc_bytes") > 0:
            run.memory = size(row.count("mem_max_alloc_bytes"))
        if row.count_or_none("mem_alloc_bytes") > 0:
            run.state = size(row.count("mem_alloc_bytes"))
        if run.reason:
            return run
        run.model, run.devices, run.recipe, run.batch = self.expressed_model(), self.devices(), self.recipe(), row.count("gbs")
        run.status, run.memory_of, run.workspace, run.group = "ok", "last", size(self.workspace()), self.groups()
        if self.half():
            run.gradient_type = "float16"
        return run


def runs_of(rows):
    known = {}
    for row in rows:
        if row.text("path") in known:
            row.refuse(f'column "path": "{row.text("path")}" is in line {known[row.text("path")]} already')
        known[row.text("path")] = row.line
    return [Case(row).run() for row in rows]


if __name__ == "__main__":
    main(__doc__, ("model", "case", "platform", "env", "n_gpus", "tp", "pp", "cp", "ep", "etp", "mbs", "gbs", "seq", "layers",
                   "hidden", "ffn", "heads", "kv_groups", "experts", "topk", "vocab", "dist_opt", "fsdp", "recompute",
                   "seq_par", "fp8", "precision", "path", "vpp_layers_per_stage", "mem_alloc_bytes", "mem_max_alloc_bytes"),
         runs_of)
