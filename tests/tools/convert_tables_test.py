"""The scripts of data/measured/convert on a few rows of each published table, and on what they refuse."""

import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "data" / "measured" / "convert"


def convert(script, table):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "table.csv"
        file.write_text(table)
        done = subprocess.run([sys.executable, "-B", str(SCRIPTS / f"{script}.py"), str(file)], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout, done.stderr.replace(str(file), "table.csv")


def table(columns, *rows):
    """A published table, from its columns and a dictionary for each row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns.split("|"), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


class Converted(unittest.TestCase):
    def rows(self, script, text):
        status, out, err = convert(script, text)
        self.assertEqual((status, err), (0, ""))
        return list(csv.DictReader(io.StringIO(out)))

    def recipes(self, files):
        """The rows of bridge_recipes.py of a release that has these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                file = pathlib.Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            done = subprocess.run([sys.executable, "-B", str(SCRIPTS / "bridge_recipes.py"), "--tree", folder],
                                  capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def time(self, row):
        value, unit = row["time"].split()
        self.assertEqual(unit, "s")
        return float(value)


class Runs(Converted):
    # NVIDIA/Megatron-LM, tests/functional_tests (BSD-3).
    def test_megatron(self):
        columns = ("model|case|platform|env|n_gpus|tp|pp|vpp_layers_per_stage|cp|ep|etp|mbs|gbs|seq|layers|hidden|ffn|heads|"
                   "kv_groups|experts|topk|vocab|dist_opt|fsdp|recompute|seq_par|fp8|precision|mem_alloc_bytes|"
                   "mem_max_alloc_bytes|path")
        run = {"model": "gpt", "case": "gpt3_mcore_te_tp1_pp1_resume", "platform": "dgx_a100", "env": "dev", "tp": 1, "pp": 1,
               "cp": 1, "mbs": 4, "gbs": 32, "seq": 1024, "layers": 12, "hidden": 512, "heads": 8, "dist_opt": "True",
               "precision": "bf16", "mem_alloc_bytes": 552128512, "mem_max_alloc_bytes": 2711714304, "path": "a"}
        rows = self.rows("megatron_golden", table(columns, run, {**run, "path": "b", "precision": "fp16", "n_gpus": 4},
                                                  {**run, "path": "c", "case": "gpt3_muon"},
                                                  {**run, "path": "d", "platform": "dgx_gb300"}))
        self.assertEqual(rows[0]["model"], "gpt:dtype=bfloat16,sequence=1024,layers=12,hidden=512,heads=8,vocab=50304,"
                         "attention=fused,kept=megatron")
        self.assertEqual(rows[0]["recipe"], "tp1,cp1,dp8,pp1,mbs4,zero1,shard=8")
        self.assertEqual((rows[0]["devices"], rows[0]["memory"], rows[0]["memory_of"], rows[0]["state"]),
                         ("dgx-a100:1", "2711714304 B", "last", "552128512 B"))
        self.assertEqual(rows[0]["workspace"], f"{68 << 20} B")
        self.assertEqual((rows[1]["gradient_type"], rows[1]["devices"]), ("float16", "dgx-a100:gpus=4"))
        self.assertEqual([row["reason"] for row in rows],
                         ["", "", "the optimizer Muon", "a platform that pipesim does not know"])
        self.assertEqual(convert("megatron_golden", table(columns, run, run))[2],
                         'table.csv:3: column "path": "a" is in line 2 already\n')

    # VIA-Research/vTrain, data/ground_truth_single.csv (MIT).
    def test_vtrain(self):
        rows = self.rows("vtrain", "n_gpus,gbs,mbs,hidden,heads,layers,seq,tp,dp,pp,iter_time_ms,recompute,schedule,gpu\n"
                         "2,16,8,1024,16,24,1024,1,1,2,372.160408,full,1F1B,A100-80GB\n"
                         "8,32,4,1024,16,24,1024,2,2,2,219.732754,full,1F1B,A100-80GB\n"
                         "12,32,4,1024,16,24,1024,2,3,2,219.7,full,1F1B,A100-80GB\n"
                         "8,32,4,1024,16,24,1024,2,2,2,219.7,full,1F1B,H100\n")
        self.assertEqual((rows[0]["devices"], rows[0]["recipe"]), ("dgx-a100:gpus=2", "tp1,pp2,dp1,mbs8,recompute=full"))
        self.assertAlmostEqual(self.time(rows[0]), 0.372160408, places=12)
        self.assertIn("vocab=50432,", rows[1]["model"])
        self.assertEqual(rows[2]["reason"], "nodes that are not whole")
        self.assertEqual(rows[3]["reason"], "a GPU that pipesim does not know")

    # huggingface/nanotron, The Ultra-Scale Playbook (Apache-2.0).
    def test_nanotron(self):
        rows = self.rows("nanotron", "model,n_gpus,mbs,grad_acc,gbs,dp,pp,tp,zero,status,mfu_pct,tokens_per_s,gpu_mem_GB\n"
                         "1B,16,2,8,256,16,1,1,1,ok,37.9,621437,35.0\n"
                         "1B,16,2,8,256,16,1,1,1,failed,,,\n"
                         "1B,16,4,32,256,2,8,1,1,ok,20.6,346652,30.0\n")
        self.assertEqual((rows[0]["recipe"], rows[0]["memory"], rows[0]["memory_of"]),
                         ("tp1,pp1,dp16,mbs2,zero1", "35000000000 B", "last"))
        self.assertAlmostEqual(self.time(rows[0]), 256 * 4096 / 621437, places=12)
        self.assertEqual((rows[1]["status"], rows[1]["reason"]), ("failed", "a run that failed: the table does not tell why"))
        # 16 layers and a head that counts as four: 2.5 a group.
        self.assertEqual(rows[2]["recipe"], "tp1,pp8,dp2,mbs4,zero1,layers=2-3-2-3-2-3-1-0")

    # mosaicml/llm-foundry, scripts/train/benchmarking (Apache-2.0).
    def test_foundry(self):
        rows = self.rows("foundry", "Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,GlobalBatchSize,Throughput (T/s),"
                         "Precision,Sharding Strategy,Activation Checkpointing\n"
                         "7b,2048,128,h100_80gb,6,1,768,1340830,amp_bf16,FULL_SHARD,False\n"
                         "1b,2048,8,a100_40gb,6,1,48,61440,amp_bf16,FULL_SHARD,True\n")
        self.assertEqual((rows[0]["recipe"], rows[0]["devices"]), ("dp128,mbs6,zero3", "dgx-h100:16"))
        self.assertAlmostEqual(self.time(rows[0]), 768 * 2048 / 1340830, places=12)
        self.assertEqual(rows[1]["reason"], "nodes of A100 with 40 GB")

    # arXiv:2205.05198, table 5; arXiv:2104.04473, table 1.
    def test_papers(self):
        rows = self.rows("papers", "source,model,hidden,ffn,heads,layers,vocab,seq,gpu,n_gpus,tp,pp,dp,vpp,schedule,recompute,"
                         "seq_par,gbs,mbs,iter_time_s\n"
                         "arXiv:2205.05198,GPT3-175B,12288,49152,96,96,51200,2048,A100-80GB-SXM,64,8,8,1,3,"
                         "interleaved-1F1B,selective,1,64,1,13.75\n"
                         "arXiv:2104.04473,GPT-7.5B,4096,16384,32,36,51200,2048,A100-80GB-SXM,128,4,1,32,,,full,,512,,3.696\n")
        self.assertEqual(rows[0]["recipe"], "tp8,pp8,dp1,mbs1,vpp3,sp,recompute=selective")
        self.assertIn("attention=scores", rows[0]["model"])
        self.assertEqual((self.time(rows[0]), rows[0]["source"]), (13.75, "arXiv:2205.05198"))
        self.assertEqual(rows[1]["reason"], "a microbatch that is not told")

    # arXiv:2401.10241, tables 3 to 5.
    def test_zero_bubble(self):
        head = ("model,layers,heads,hidden,seq,gpu,n_gpus(=pp stages),microbatch_size,n_microbatches,schedule,"
                "samples_per_gpu_per_s,peak_mem_GB\n")
        setting = "1.5B,22,24,2304,1024,A100-80GB-SXM (4 nodes RoCE),8,6,24,"
        rows = self.rows("zero_bubble", head + f"{setting}ZB-2p,14.5,59\n{setting}1F1B,11.8,30\n{setting}1F1B-I,13.1,40\n"
                         f"{setting}gpipe,9,40\n6.2B,31,32,4096,1024,A100-80GB-SXM,8,3,24,1F1B,5,40\n")
        self.assertEqual([row["recipe"] for row in rows[:3]],
                         ["pp8,mbs6,first=2,last=2,schedule=zb-auto:16", "pp8,mbs6,first=2,last=2", "pp8,mbs6,vpp3"])
        self.assertEqual([row["time_of"] for row in rows[:3]], ["device", "", ""])
        self.assertEqual([row["compared_with"] for row in rows[:3]], [rows[1]["name"], "", rows[1]["name"]])
        self.assertAlmostEqual(self.time(rows[0]), 144 / (14.5 * 8), places=12)
        self.assertEqual([row["reason"] for row in rows[3:]], ["schedule gpipe", "layers that stages do not divide"])
        # Runs are compared only with such as the table has.
        self.assertNotIn("compared_with", self.rows("zero_bubble", head + f"{setting}ZB-2p,14.5,59\n")[0])

    # NVIDIA/NeMo, docs/source/performance (Apache-2.0).
    def test_nemo(self):
        rows = self.rows("nemo", "section,Model,#-GPUs,GBS,MBS,Sequence Length,TP,PP,CP,VP,Tokens / sec / GPU\n"
                         "Pretraining,LLAMA2-7B,8,128,1,4096,1,1,1,1,16934\n"
                         "Finetuning,LLAMA2-7B,8,32,1,,1,1,,,16891\n"
                         "Pretraining,LLAMA2-13B,16,128,1,4096,1,4,1,,8646\n"
                         "Pretraining,LLAMA2-7B,8,128,1,4096,1,1,1,1,\n"
                         "Pretraining - GB300,LLAMA2-7B,8,128,1,4096,1,1,1,1,40000\n")
        self.assertEqual(rows[0]["recipe"], "tp1,pp1,cp1,dp8,mbs1,zero1,overlap=gather")
        self.assertEqual([row["reason"] for row in rows],
                         ["", "finetuning, some of it of adapters only", "a number of stages that is not told",
                          "no rate measured", ""])
        self.assertEqual(rows[4]["devices"], "gb300-nvl72:gpus=8")
        self.assertTrue(rows[0]["model"].endswith(",kept=megatron,products=fp8-delayed"))

    # NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary*.md (Apache-2.0).
    def test_megatron_bridge_honours_systems_and_precisions(self):
        columns = "task|model|System|#-GPUs|Precision|GBS|MBS|Sequence Length|TP|PP|CP|VP|EP|Tokens / sec / GPU|FSDP"
        run = {"task": "Pre-Training Performance", "model": "LLAMA3_8B", "System": "DGX-H100", "#-GPUs": 8,
               "Precision": "FP8-CS", "GBS": 128, "MBS": 1, "Sequence Length": 8192, "TP": 1, "PP": 1, "CP": 1, "VP": "n/a",
               "EP": 1, "Tokens / sec / GPU": 14451, "FSDP": 8}
        large = {**run, "model": "DeepSeekV3", "System": "DGX-GB200", "#-GPUs": 256, "Precision": "MXFP8", "GBS": 4096,
                 "Sequence Length": 4096, "PP": 4, "VP": 4, "EP": 64, "Tokens / sec / GPU": 4912, "FSDP": 0}
        rows = self.rows("nemo", table(
            columns, run, {**run, "System": "DGX-B200", "Precision": "FP8-CS (FP8-MX)", "FSDP": 0,
                           "Tokens / sec / GPU": "30624 (29521)"}, large, {**run, "System": "DGX-GB300"},
            {**run, "System": "DGX-GB200", "Precision": "NVFP4"}, {**run, "model": "GPT OSS 120B", "Precision": "BF16"},
            {**run, "Precision": ""}, {**run, "Precision": "FP6"}, {**run, "model": "DeepSeekV4 Flash"},
            {**run, "task": "LoRA Performance"}, {**run, "System": ""}, {**run, "System": "DGX-GB200", "#-GPUs": 100},
            {**run, "System": "GH200"}, {**run, "System": "DGX-VR200"}))
        self.assertEqual([row["devices"] for row in rows[:4]], ["dgx-h100:1", "dgx-b200:1", "dgx-b200:1",
                                                                "gb200-nvl72:4,gpus=64"])
        self.assertEqual((rows[0]["recipe"], rows[3]["recipe"]),
                         ("tp1,pp1,cp1,dp8,mbs1,zero3", "tp1,pp4,cp1,dp64,mbs1,zero1,ep64,etp1,vpp4,overlap=gather,"
                          "reduce=overlapped,layers=4-4-4-4-4-4-4-4-4-4-4-4-4-4-4-1"))
        self.assertEqual(rows[0]["model"], "llama3-8b:dtype=bfloat16,sequence=8192,kept=megatron,products=float8")
        self.assertEqual(rows[0]["runtime"], "megatron:overlap=always,gradient-sums=in-products,tensor-overlap=always")
        self.assertEqual([row["devices"] for row in rows[4:6]], ["gb300-nvl72:gpus=8", "gb200-nvl72:gpus=8"])
        self.assertTrue(rows[5]["model"].endswith("products=nvfp4"))
        self.assertTrue(rows[6]["model"].startswith("decoder:layers=36,") and "products" not in rows[6]["model"])
        self.assertEqual([row["group"].split(";")[3:] for row in rows[:4]],
                         [[precision, gpu, "settings by columns alone"] for precision, gpu in
                          (("float8", "H100"), ("float8", "B200"), ("mxfp8", "B200"), ("mxfp8", "GB200"))])
        self.assertAlmostEqual(self.time(rows[1]) * 30624, self.time(rows[2]) * 29521, places=6)
        self.assertEqual([row["reason"] for row in rows[4:]],
                         ["", "", "", "a precision that is not told", "a precision that pipesim does not know: FP6",
                          "a model that pipesim does not know: DeepSeekV4 Flash", "finetuning, some of it of adapters only",
                          "a system that is not told", "nodes that are not whole", "a system that pipesim does not know: GH200",
                          "a system that pipesim does not know: VR200"])

    # What columns leave open is what the release's own recipe sets (bridge_recipes.csv).
    def test_megatron_bridge_takes_settings_of_the_release(self):
        columns = ("container|task|model|System|#-GPUs|Precision|GBS|MBS|Sequence Length|TP|PP|CP|VP|EP|Tokens / sec / GPU|"
                   "FSDP")
        run = {"container": "26.08 NeMo Container", "task": "Pre-Training Performance", "model": "DeepSeekV3",
               "System": "DGX-GB200", "#-GPUs": 256, "Precision": "MXFP8", "GBS": 4096, "MBS": 1, "Sequence Length": 4096,
               "TP": 1, "PP": 4, "CP": 1, "VP": 4, "EP": 64, "Tokens / sec / GPU": 4912}
        rows = self.rows("nemo", table(
            columns, run, {**run, "container": "26.02 NeMo Container"},
            {**run, "container": "25.11 NeMo Container", "model": "DeepSeekV3 (w/o MTP)"}, {**run, "MBS": 8},
            {**run, "model": "Kimi_K2", "GBS": 2048}, {**run, "System": "DGX-GB300", "model": "LLAMA3_70B", "#-GPUs": 64,
                                                     "GBS": 256, "MBS": 2, "PP": 1, "VP": "n/a", "EP": "n/a",
                                                     "Precision": "FP8"}))
        self.assertEqual([row["runtime"].partition("graphs=")[2] for row in rows[:4]],
                         ["iteration", "attn+moe_router+moe_preprocess", "moe_router+moe_preprocess", ""])
        self.assertTrue(rows[0]["recipe"].endswith("4-4-4-1,recompute=mla_up_proj,schedule=interleaved-beside:4"))
        self.assertTrue(rows[1]["recipe"].endswith("4-4-4-1,recompute=mla_up_proj"))
        self.assertEqual([row["runtime"].partition("dispatcher=")[2].split(",")[0] for row in rows[:4]], 3 * ["hybridep"] + [""])
        self.assertEqual([row["model"].split("mxfp8")[1] for row in rows[:4]],
                         [",token_nodes=4,further_tokens=1", ",token_nodes=4,further_tokens=1", ",token_nodes=4", ""])
        self.assertEqual([row["optimizer"] for row in rows[:5]], 3 * ["adam,moments=bfloat16"] + ["", "muon"])
        self.assertEqual([row["source"] for row in rows[:2]],
                         ["settings: Megatron-Bridge v0.5.0:deepseek_v3_pretrain_config_gb200",
                          "settings: Megatron-Bridge v0.3.0:deepseek_v3_pretrain_config_gb200"])
        self.assertEqual(rows[3]["source"], "")
        self.assertIn("zero3", rows[5]["recipe"])

    # Two small recipes in the forms of NVIDIA-NeMo/Megatron-Bridge's releases.
    def test_bridge_recipes(self):
        flat = ("from megatron.bridge.recipes.base import base\n"
                "from megatron.bridge.training.comm_overlap import CommOverlapConfig\n\n\n"
                "def tiny_pretrain_8gpu_gb300_fp8mx_config():\n"
                "    cfg = base()\n"
                "    cfg.model.pipeline_model_parallel_size, cfg.model.virtual_pipeline_model_parallel_size = 2, 2\n"
                "    cfg.model.expert_model_parallel_size = 4\n"
                "    cfg.model.pipeline_model_parallel_layout = 'Et*2|(t|)*2mL'\n"
                "    cfg.model.cuda_graph_impl, cfg.model.cuda_graph_scope = 'local', ['full_iteration']\n"
                "    cfg.model.recompute_granularity, cfg.model.recompute_modules = 'selective', []\n"
                "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)\n"
                "    return cfg\n")
        base = ("import torch\nfrom megatron.core import Config\n"
                "from megatron.bridge.training.flex_dispatcher_backend import apply_flex_dispatcher_backend\n\n\n"
                "def base():\n    cfg = Config()\n    cfg.optimizer.exp_avg_dtype = torch.bfloat16\n"
                "    apply_flex_dispatcher_backend(cfg.model, 'hybridep')\n    return cfg\n")
        old = ("from megatron.bridge.recipes.base import base\nfrom utils.overrides import set_workload_base_configs\n"
               "from utils.utils import Settings\n\n\n"
               "def tiny_pretrain_config_b200(precision='bf16', config_variant='v1'):\n"
               "    if (precision, config_variant) != ('fp8_cs', 'v1'):\n        raise ValueError(precision)\n"
               "    cfg = base()\n    set_workload_base_configs(cfg, Settings())\n    return cfg\n")
        overrides = "def set_workload_base_configs(cfg, settings):\n    cfg.train.micro_batch_size = settings.mbs\n"
        bridge, performance = "src/megatron/bridge/", "scripts/performance/"
        both = {bridge + "__init__.py": "", bridge + "recipes/__init__.py": "", bridge + "recipes/base.py": base}
        new = self.recipes({**both, bridge + "perf_recipes/tiny/gb300/tiny.py": flat})
        self.assertEqual(len(new), 1)
        self.assertEqual({name: value for name, value in new[0].items() if value not in ("", 1)},
                         {"model": "tiny", "system": "GB300", "gpus": 8, "precision": "mxfp8", "pp": 2, "vp": 2, "ep": 4,
                          "stages": "2-1-1-0", "graphs": "full_iteration", "dispatcher": "hybridep", "tensor_overlap": "yes",
                          "moments": "bfloat16", "source": "tiny_pretrain_8gpu_gb300_fp8mx_config"})
        earlier = self.recipes({**both, performance + "configs/tiny/tiny_llm_pretrain.py": old,
                                performance + "utils/overrides.py": overrides,
                                performance + "utils/utils.py": "class Settings:\n    num_gpus, mbs = 16, 4\n"})
        self.assertEqual([[row[c] for c in ("model", "system", "gpus", "precision", "mbs")] for row in earlier],
                         [["tiny", "B200", 16, "float8", 4]])

    # mlcommons/training_results (Apache-2.0).
    def test_mlperf(self):
        columns = ("round|system|platform|config_file|n_gpus|tp|pp|vpp|cp|mbs|gbs|grad_acc|seq|throughput_reported|other_flags|"
                   "config_unique")
        run = {"round": "v4.1", "system": "eos_n32", "platform": "32xNVIDIA DGX H100", "n_gpus": 256, "tp": 4, "pp": 8,
               "vpp": 6, "mbs": 2, "gbs": 2048, "grad_acc": 128, "seq": 2048, "throughput_reported": 208833.724,
               "other_flags": "TP_COMM_OVERLAP=True", "config_unique": 1}
        rows = self.rows("mlperf", table(columns, run, {**run, "vpp": "", "grad_acc": 16}, {**run, "config_unique": 0},
                                         {**run, "platform": "8xNVIDIA HGX B200", "n_gpus": 64},
                                         {**run, "platform": "gaudi-256"}))
        self.assertEqual(rows[0]["recipe"], "tp4,pp8,cp1,dp8,mbs2,zero1,sp,vpp6,overlap=gather,reduce=overlapped")
        self.assertEqual([row["devices"] for row in rows], ["dgx-h100:32", "", "", "dgx-b200:8", ""])
        self.assertAlmostEqual(self.time(rows[0]), 2048 * 2048 / 208833.724, places=9)
        self.assertEqual([row["reason"] for row in rows],
                         ["", "a number of stages that is not told and matters, with few microbatches",
                          "a configuration that is not told for sure, or not of GPUs", "", "a system that is not told"])

    # pytorch/torchtitan, docs/performance.md and benchmarks/ (BSD-3).
    def test_torchtitan(self):
        columns = ("commit|path|section|Quantization|Vanilla TP tokens/sec|Async TP tokens/sec|TP type|Average TPS|NUM_NODES|"
                   "TPS/GPU|Memory(GiB)|Techniques|Parallelism|Sequence Length|Schedule|Model size|Activation checkpointing|WPS")
        both = {"commit": "a", "path": "async.md",
                "section": "Llama3 8b on 64 H100s with FSDP=8, TP=8, torch.compile, per op SAC, local batch size 12"}
        h100, a100 = {"commit": "a", "path": "llama3_h100.md"}, {"commit": "a", "path": "performance.md"}
        text = table(
            columns, {**both, "Quantization": "None (bfloat16)", "Vanilla TP tokens/sec": 4378, "Async TP tokens/sec": 4809.4},
            {**both, "Quantization": "None (bfloat16)", "TP type": "Vanilla TP", "Average TPS": 4378},
            {**both, "Quantization": "float8 rowwise", "TP type": "Vanilla TP", "Average TPS": 3708.5},
            {"commit": "a", "path": "h200.md", "NUM_NODES": 4, "TPS/GPU": 10938},
            {**h100, "TPS/GPU": "5,762", "Techniques": "FSDP", "Memory(GiB)": 82.5},
            {**h100, "TPS/GPU": "3,890", "Parallelism": "FSDP 8, CP 1", "Sequence Length": 32768},
            {**h100, "TPS/GPU": 548, "Parallelism": "FSDP 1, CP 8", "Sequence Length": 262144},
            {**h100, "TPS/GPU": "5,605", "Techniques": "FSDP"},
            {**a100, "Model size": "405B", "Activation checkpointing": "full", "WPS": 109},
            {**a100, "Model size": "8B", "Activation checkpointing": "selective layer", "WPS": 2904},
            {**a100, "Model size": "8B", "Activation checkpointing": "selective op", "WPS": 2973})
        rows = self.rows("torchtitan", text)
        self.assertEqual((rows[0]["recipe"], rows[0]["devices"]), ("tp8,cp1,pp1,dp8,mbs12,sp,fsdp,recompute=op", "grand-teton:8"))
        self.assertEqual((rows[1]["compared_with"], rows[1]["runtime"]),
                         (rows[0]["name"], "torch-compile:tensor-overlap=always,segments=expandable"))
        self.assertEqual([row["reason"] for row in rows if row["reason"]],
                         ["a repetition of a row before", "float8 with a scale for each row",
                          "sequences longer than those of pipesim's models", "devices that are not told"])
        self.assertEqual((rows[4]["model"], rows[4]["batch"]), ("llama3-8b:dtype=bfloat16,sequence=8192,products=float8,kept=torch-compile", "64"))
        self.assertAlmostEqual(self.time(rows[5]), 16 * 8192 / (5762 * 8), places=9)
        self.assertEqual(rows[6]["recipe"], "tp1,cp1,pp1,dp8,mbs1,fsdp,recompute=full")
        self.assertEqual(rows[8]["devices"], "grand-teton:16")  # the document's second table of this kind
        self.assertEqual([row["recipe"].split("recompute=")[1] for row in rows[10:]], ["every:2", "op"])
        self.assertEqual((rows[5]["memory"], rows[5]["memory_figure"]), (f"{165 * 2**29} B", "reserved"))
        self.assertEqual((rows[6]["memory"], rows[6]["memory_figure"]), ("", ""))
        self.assertEqual(convert("torchtitan", table(columns, {**h100, "TPS/GPU": "fast", "Techniques": "FSDP"})),
                         (1, "", 'table.csv:2: column "TPS/GPU": found "fast", allowed: a number of 0 or more, or nothing\n'))

    # InternLM/InternEvo, doc/en/train_performance.md (Apache-2.0).
    def test_internevo(self):
        columns = ("section|GPU Number|Parallel Configuration|8 GPUs|16 GPUs|32 GPUs|64 GPUs|128 GPUs|256 GPUs|512 GPUs|"
                   "1024 GPUs|TP|Zero1|Activation Ckpt|GPU Num|Seq Len|Micro Bsz|Micro Num|TGS|model|Number of GPU|"
                   "GPU Memory (GB)")
        flops = {"TP": 1, "Zero1": 8, "Activation Ckpt": "TRUE", "GPU Num": 16, "Seq Len": 2048, "Micro Bsz": 8, "Micro Num": 1,
                 "TGS": 3268}
        rows = self.rows("internevo", table(
            columns, {"Parallel Configuration": "(tp=1, zero1=-1)", "16 GPUs": 3842},
            {"Parallel Configuration": "(tp=1, zero1=8)", "8 GPUs": 4078, "16 GPUs": 3939}, flops,
            {**flops, "Activation Ckpt": "FALSE", "Micro Bsz": 2, "Micro Num": 4, "TGS": 3939},
            {"section": "Memory", "model": "7B", "Number of GPU": 4, "GPU Memory (GB)": 61},
            {"section": "Throughput", "GPU Number": "TFLOPS"}))
        self.assertEqual([row["recipe"] for row in rows[:4]],
                         ["tp1,dp16,mbs2,zero1,overlap=gather", "tp1,dp8,mbs2,zero1,shard=8,overlap=gather",
                          "tp1,dp16,mbs2,zero1,shard=8,overlap=gather",
                          "tp1,dp16,mbs8,zero1,shard=8,overlap=gather,recompute=full"])
        self.assertEqual((rows[0]["compared_with"], rows[0]["devices"]), (rows[2]["name"], "roce-a100:2"))
        self.assertAlmostEqual(self.time(rows[3]), 8 * 2048 / 3268, places=12)
        self.assertEqual([row["reason"] for row in rows[4:]],
                         ["a run that a row before tells, too", "memory of a kind that is not told", "the best of other rows"])

    # MooreThreads/SimuMax, docs/b200 (Apache-2.0).
    def test_simumax(self):
        rows = self.rows("simumax", "case,model,parallel,layer_num,mbc,vp_size,real_ms,real_alloc_gib,cp_size\n"
                         "a,llama3-70b,tp2pp1,12,4,1,725.5,60.68,\nb,llama3-70b,ep2tp1,12,4,1,725.5,60.68,\n"
                         "c,mixtral,tp2,12,4,1,725.5,60.68,\n")
        self.assertEqual((rows[0]["recipe"], rows[0]["batch"]), ("tp2,pp1,cp1,dp4,mbs1,zero1,sp", "16"))
        self.assertEqual((self.time(rows[0]), rows[0]["memory"]), (0.7255, f"{int(60.68 * 2 ** 30)} B"))
        self.assertEqual([row["reason"] for row in rows],
                         ["", "parts of experts, in a model that has none: ep2tp1",
                          "a model that pipesim does not know: mixtral"])
        rows = self.rows("simumax", "case,model,parallel,layer_num,mbc,vp_size,real_ms,real_alloc_gib,cp_size\n"
                         "deepseekv3_l4_tp1_ep4_pp2_dp4_mbc4,deepseekv3,tp1ep4pp2,4,4,1,500,100,\n"
                         "llama3_405b_l4_tp2_cp4_pp1_dp1_seq32768_mbc4,llama3-405b,tp2cp4pp1,4,4,1,2000,90,4\n"
                         "a,llama3-70b,tp2xx3,4,4,1,2000,90,\nb_tp2_pp1,llama3-70b,tp4pp1,4,4,1,2000,90,\n"
                         "c_dp2,llama3-70b,tp2pp1,4,4,1,2000,90,\n")
        self.assertEqual([row["recipe"] for row in rows[:2]],
                         ["tp1,pp2,cp1,dp4,mbs1,zero1,ep4,etp1", "tp2,pp1,cp4,dp1,mbs1,zero1,sp,ulysses=4"])
        self.assertEqual([row["model"] for row in rows[:2]],
                         ["deepseek-v3:dense_layers=1,dtype=bfloat16,sequence=4096,layers=4,kept=megatron",
                          "llama3-405b:kv_heads=16,dtype=bfloat16,sequence=32768,layers=4,kept=megatron"])
        self.assertEqual([row["reason"] for row in rows],
                         ["", "", "a form of parallelism that pipesim does not know: tp2xx3",
                          "a form of parallelism that pipesim does not know: tp4pp1", "copies that are not those of 8 GPUs"])


class Collectives(Converted):
    # ai-dynamo/aiconfigurator (Apache-2.0).
    def test_nccl(self):
        rows = self.rows("nccl", "system,nccl_version,op,dtype,n_gpus,bytes,latency_us\n"
                         "a100_sxm,2.27.3,all_gather,half,2,1024,9.08\nh100_sxm,2.27.3,all_reduce,int8,8,4194304,50\n"
                         "a100_sxm,2.27.3,all_gather,half,16,1024,9.08\ngb300,2.27.3,all_gather,half,8,1024,9.08\n")
        self.assertEqual([rows[0][c] for c in ("devices", "collective", "members", "size", "type")],
                         ["dgx-a100", "all-gather", "2", "1024 B", "float16"])
        self.assertAlmostEqual(self.time(rows[0]), 9.08e-6, places=15)
        self.assertEqual((rows[1]["type"], rows[1]["group"]), ("uint8", "h100_sxm;all_reduce;8 GPUs;1 MiB to 16 MiB"))
        self.assertEqual([row["reason"] for row in rows],
                         ["", "", "other than 2 to 8 GPUs", ""])
        self.assertEqual(rows[3]["devices"], "gb300-nvl72")
        rows = self.rows("nccl", "system,nccl,op,gpus,bytes,latency_us\nb300_sxm,2.29.2,alltoall,8,1024,9\n"
                         "vr200,2.29.2,alltoall,8,1024,9\n")
        self.assertEqual((rows[0]["devices"], rows[0]["type"]), ("dgx-b300", "float16"))
        self.assertEqual(rows[1]["reason"], "a system that pipesim does not know")

    # VIA-Research/vTrain, trace/v100 (MIT).
    def test_cube_mesh(self):
        rows = self.rows("vtrain", "gpu,n_gpus,bytes,time_us,busbw_GBps,source\n"
                         "v100,2,1073741824,47610.0,22.55,vTrain\nv100,16,1073741824,13969.0,134.51,vTrain\n")
        self.assertEqual((rows[0]["devices"], rows[0]["collective"], rows[0]["members"]), ("dgx1-v100", "all-reduce", "2"))
        self.assertEqual(rows[1]["reason"], "other than 2 to 8 GPUs")

    # Dazz993/Mist (Apache-2.0).
    def test_mixtures(self):
        head = "gpu,intra_group,gemm_n,gemm_m,gemm_k,g2g_MB,c2g_MB,g2c_MB,latency_ms\n"
        rows = self.rows("mist", head + "a100,2,297552,4096,4096,0,0,0,34.8\na100,2,297552,4096,4096,3936,0,0,41.4\n"
                         "a100,2,0,4096,4096,3936,0,0,13.2\na100,2,74388,4096,4096,3936,0,0,17.4\n"
                         "a100,2,0,4096,4096,0,0,0,2\na100,8,0,4096,4096,3936,0,0,16.75\n")
        self.assertEqual(rows[0]["reason"], "a row to which rates and slowdowns were fitted")
        alone = [float(rows[row][column].split()[0]) for row in (1, 3) for column in ("product_alone", "collective_alone")]
        for value, expected in zip(alone, (34.8e-3, 13.2e-3, 8.7e-3, 13.2e-3)):
            self.assertAlmostEqual(value, expected, places=12)
        self.assertEqual((rows[1]["to_device_alone"], rows[1]["group"]), ("", "product, collective;groups of 2"))
        self.assertEqual(rows[5]["reason"], "no row has a collective alone")
        self.assertEqual(convert("mist", head + "a100,2,1,1,1,0,0,0,\n")[0], 1)


class Refused(unittest.TestCase):
    HEAD = "system,nccl_version,op,dtype,n_gpus,bytes,latency_us\n"

    def test_says_what_is_wrong(self):
        for text, message in (
                ("system,op\na,b\n", 'table.csv:1: has no column "nccl_version", allowed: system, nccl_version, op, dtype, '
                 "n_gpus, bytes, latency_us and others\n"),
                (self.HEAD, "table.csv: has no rows below its column names\n"),
                (self.HEAD + "a100_sxm,2\n", "table.csv:2: found 2 cells, allowed: 7, one for each column\n"),
                (self.HEAD + "a100_sxm,2,all_gather,half,-2,8,1\n",
                 'table.csv:2: column "n_gpus": found "-2", allowed: a whole number, or nothing\n'),
                (self.HEAD + "a100_sxm,2,all_gather,half,2,8,nan\n",
                 'table.csv:2: column "latency_us": found "nan", allowed: a number of 0 or more, or nothing\n')):
            with self.subTest(text):
                self.assertEqual(convert("nccl", text), (1, "", message))


if __name__ == "__main__":
    unittest.main()
