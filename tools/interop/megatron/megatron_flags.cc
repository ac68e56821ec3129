#include "tools/interop/megatron/megatron_flags.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "tools/interop/megatron/megatron_flag_rows.h"

namespace pipesim {
namespace {

constexpr std::array kAliases = std::to_array<MegatronAlias>({
    {"--checkpoint-activations", "--recompute-granularity full"},
    {"--activations-checkpoint-method", "--recompute-granularity full --recompute-method", true},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers", true},
    {"--checkpoint-num-layers", "--recompute-num-layers", true},
    {"--model-parallel-size", "--tensor-model-parallel-size", true},
    {"--batch-size", "--micro-batch-size", true},
    {"--pipe-parallel-size", "--pipeline-model-parallel-size", true},
    {"--num-key-value-heads", "--group-query-attention --num-query-groups", true},
    {"--moe-expert-parallel-size", "--expert-model-parallel-size", true},
    {"--topk", "--moe-router-topk", true},
    {"--moe-train-capacity-factor", "--moe-expert-capacity-factor", true},
    {"--pad-vocab-size-to", "--padded-vocab-size", true},
    {"--use-custom-fsdp", "--use-megatron-fsdp"},
    {"--layernorm-epsilon", "--norm-epsilon", true},
    {"--fp32-allreduce", "--accumulate-allreduce-grads-in-fp32"},
    {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank", true},
    {"--num-layers-in-first-pipeline-stage", "--decoder-first-pipeline-num-layers", true},
    {"--num-layers-in-last-pipeline-stage", "--decoder-last-pipeline-num-layers", true},
    {"--num-moe-experts", "--num-experts", true},
    {"--fp8-hybrid", "--fp8-format hybrid"},
    {"--fp8-e4m3", "--fp8-format e4m3"},
    {"--disable-add-bias-linear", "--disable-bias-linear"},
    {"--no-add-bias-linear", "--disable-bias-linear"},
});

// The first that is a part of a program's name.
constexpr std::array kPrograms = std::to_array<MegatronProgram>({
    {"pretrain_bert", ""},
    {"pretrain_t5", ""},
    {"pretrain_prefix_lm", ""},
    {"pretrain_vision", "vision models"},
    {"pretrain_vlm", "models of images and text"},
    {"pretrain_mimo", "models of images and text"},
    {"pretrain_ict", "retrieval"},
    {"pretrain_realm", "retrieval"},
    {"pretrain_retro", "retrieval"},
    {"pretrain_mamba", "hybrid models"},
    {"pretrain_hybrid", "hybrid models"},
    {"pretrain_gpt", ""},
    {"finetune_t0", ""},
    {"finetune", ""},
    {"train_rl", ""},
    {"analyze_data", "the preparation of data"},
    {"preprocess_data", "the preparation of data"},
    {"text_generation", "inference"},
    {"generate", "inference"},
    {"inference", "inference"},
    {"evaluate", "evaluation"},
    {"checkpoint", "the conversion of checkpoints"},
});

struct FlagTable {
  std::vector<std::string> names;
  std::map<std::string, MegatronFlag, std::less<>> flags;
};

FlagTable table_of_flags() {
  FlagTable table;
  for (const std::span<const FlagRow> rows : {flags_with_effect(), flags_without_effect()}) {
    for (const FlagRow& row : rows) {
      for (std::size_t begin = 0; begin < row.flags.size();) {
        const std::size_t end = std::min(row.flags.find(' ', begin), row.flags.size());
        const std::string name(row.flags.substr(begin, end - begin));
        begin = end + 1;
        table.flags[name] = {name, row.effect, row.what, row.unless};
      }
    }
  }
  for (const auto& [name, flag] : table.flags) table.names.push_back(name);
  for (const MegatronAlias& alias : kAliases) table.names.emplace_back(alias.flag);
  return table;
}

const FlagTable& flag_table() {
  static const FlagTable table = table_of_flags();
  return table;
}

bool is_word_of(std::string_view words, std::string_view word) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

const MegatronFlag* megatron_flag(std::string_view flag) {
  const auto found = flag_table().flags.find(flag);
  return found == flag_table().flags.end() ? nullptr : &found->second;
}

const std::vector<std::string>& megatron_flag_names() { return flag_table().names; }

bool asks_for(const MegatronFlag& flag, std::string_view value) {
  return !is_word_of("none None null false False 0 0.0", value) && !is_word_of(flag.unless, value);
}

const MegatronAlias* megatron_alias(std::string_view flag) {
  const auto found = std::ranges::find(kAliases, flag, &MegatronAlias::flag);
  return found == kAliases.end() ? nullptr : found;
}

const MegatronProgram* megatron_program(std::string_view name) {
  const auto found = std::ranges::find_if(
      kPrograms, [&](const MegatronProgram& p) { return name.find(p.name) != std::string_view::npos; });
  return found == kPrograms.end() ? nullptr : found;
}

}  // namespace pipesim
