#include "tools/accuracy/tables/measured_tables.h"

#include "tools/accuracy/tables/foundry_runs.h"
#include "tools/accuracy/tables/gpt_runs.h"
#include "tools/accuracy/tables/megatron_runs.h"
#include "tools/accuracy/tables/mixture_runs.h"
#include "tools/accuracy/tables/nanotron_runs.h"
#include "tools/accuracy/tables/nccl_runs.h"
#include "tools/accuracy/tables/nemo_runs.h"
#include "tools/accuracy/tables/own_runs.h"
#include "tools/accuracy/tables/published_runs.h"
#include "tools/accuracy/tables/torchtitan_runs.h"

namespace pipesim {
namespace {

struct TableForm {
  const char* file;
  std::vector<std::string> columns;
  std::vector<MeasuredRun> (*runs)(const MeasuredTable& table);
};

const std::vector<TableForm>& table_forms() {
  static const std::vector<TableForm> forms{
      {"megatron_golden.csv", {"case", "mem_max_alloc_bytes"}, megatron_runs},
      {"llm_a100_single_node.csv", {"hidden", "iter_time_ms", "schedule"}, gpt_runs},
      {"ultrascale_h100.csv", {"grad_acc", "mfu_pct", "gpu_mem_GB"}, nanotron_runs},
      {"llm_training.csv", {"source", "iter_time_s", "seq_par", "gbs"}, published_runs},
      {"llm_foundry_mpt.csv", {"SeqLen (T)", "Sharding Strategy", "Activation Checkpointing"}, foundry_runs},
      {"nemo_perf_history.csv", {"#-GPUs", "Model", "VP", "Tokens / sec / GPU"}, nemo_runs},
      {"megatron_bridge_h100.csv", {"#-GPUs", "Precision", "VP", "Tokens / sec / GPU"}, nemo_runs},
      {"mlperf_gpt3.csv", {"round", "minibs", "throughput_reported"}, mlperf_runs},
      {"pipeline_schedules.csv",
       {"n_gpus(=pp stages)", "samples_per_gpu_per_s", "peak_mem_GB"},
       zero_bubble_runs},
      {"torchtitan_perf.csv", {"TPS/GPU", "Techniques", "TP type", "WPS"}, torchtitan_runs},
      {"internevo_7b_a100.csv", {"Parallel Configuration", "1024 GPUs", "TGS", "Zero1"}, internevo_runs},
      {"nccl_v100_cube_mesh.csv", {"gpu", "n_gpus", "bytes", "time_us", "busbw_GBps"}, cube_mesh_runs},
      {"mist_interference_a100.csv", {"gemm_n", "g2g_MB", "c2g_MB", "g2c_MB", "latency_ms"}, mixture_runs},
      {"nccl_a100_h100.csv", {"system", "op", "latency_us", "n_gpus", "bytes"}, nccl_runs},
      {"runs.csv", kColumnsOfOwnRuns, own_runs}};
  return forms;
}

}  // namespace

std::optional<std::vector<MeasuredRun>> runs_of_table(const std::string& file_name,
                                                      const MeasuredTable& table) {
  for (const TableForm& form : table_forms()) {
    if (file_name == form.file) return form.runs(table);
  }
  for (const TableForm& form : table_forms()) {
    if (table.has(form.columns)) return form.runs(table);
  }
  return std::nullopt;
}

}  // namespace pipesim
