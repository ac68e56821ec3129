#include "tools/interop/megatron/megatron_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "tools/interop/megatron/megatron_arguments.h"
#include "tools/interop/megatron/megatron_model.h"

namespace pipesim {
namespace {

constexpr const char* kMegatronArguments = "megatron.args";

std::string megatron_arguments_text(const FrameworkPlan& plan) {
  std::string text;
  for (const MegatronArgument& argument : megatron_arguments(plan))
    text += fmt::format("{}{}{}\n", argument.flag, argument.values.empty() ? "" : " ",
                        fmt::join(argument.values, " "));
  return text;
}

// Megatron-LM says its version in a file of its own, so that no module must be loaded.
std::string version_check(const FrameworkVersion& version) {
  return fmt::format(
      "found=$(sed -n 's/^M[AJINOR]* = //p' megatron/core/package_info.py 2>/dev/null | paste -sd .)\n"
      "if [ \"$found\" != 0.{0} ] && [ -z \"$ANY_VERSION\" ]; then\n"
      "  echo \"$0: found Megatron-LM core ${{found:-(none) in this folder}}, allowed: 0.{0}; pipesim export "
      "--to "
      "megatron:VERSION writes for others, ANY_VERSION=1 starts it all the same\" >&2\n"
      "  exit 1\nfi\n",
      version.number);
}

// FSDP refuses the setting that tensor and context parallelism ask for, wherever it comes from.
const char* connections_text(const Recipe& r) {
  if (shards_megatron_gradients(r)) return "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  return r.tensor > 1 || r.context > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "";
}

// The vocabulary is given without one token, since NullTokenizer adds one of its own.
std::string megatron_launch(const FrameworkPlan& plan) {
  const FrameworkVersion& version = megatron_version(plan);
  return fmt::format(
             "#!/bin/sh\n# {}\n# For {} ({}). Start it in its folder, on each host. Data,\n# learning rate "
             "and "
             "checkpoints are yours: replace the last line's arguments, or add to them.\n"
             "set -f\nhere=$(dirname \"$0\")\n",
             plan.recipe.str(), version.title, version.source) +
         version_check(version) + connections_text(plan.recipe) + torchrun_text(plan.hosts) +
         fmt::format(
             " \\\n  pretrain_gpt.py $(cat \"$here/{}\") \\\n  --mock-data --tokenizer-type "
             "NullTokenizer --vocab-size {} --train-iters 20 --lr 1e-4 --log-interval 1 \"$@\"\n",
             kMegatronArguments, plan.sizes.vocabulary - 1);
}

}  // namespace

std::vector<ExportedFile> megatron_files(const FrameworkPlan& plan) {
  return {{kMegatronArguments, megatron_arguments_text(plan)},
          {"launch.sh", megatron_launch(plan)},
          {"hostfile", host_file(plan.hosts)},
          {"ranks.csv", rank_table(plan.hosts, plan.recipe)}};
}

}  // namespace pipesim
