#include "tools/cli/base/command.h"
#include "tools/cli/commands/execution_commands.h"

namespace pipesim {

Command devices_command() {
  return {.name = "devices",
          .summary = "list cores and GPUs of this machine, with links and versions",
          .description =
              "GPUs are listed by CUDA, NVLinks and PCIe by NVML, both through libpipesim_cuda.so; NUMA "
              "nodes by Linux. Where no GPU is found, it says why.",
          .operands = {},
          .options = {{.name = "json",
                       .argument = "",
                       .default_value = "",
                       .help = "print one JSON object instead of text"}},
          .examples = {{"pipesim devices", "what is here?"}},
          .run = run_devices};
}

}  // namespace pipesim
