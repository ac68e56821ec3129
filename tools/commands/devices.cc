#include "tools/cli/command.h"
#include "tools/commands/execution_commands.h"

namespace pipesim {

Command devices_command() {
  return {.name = "devices",
          .summary = "list cores and GPUs of this machine, with links and versions",
          .description =
              "GPUs are asked of CUDA, NVLinks and PCIe of NVML, both through libpipesim_cuda.so, which is "
              "loaded "
              "only then; NUMA nodes of Linux. Where there are no GPUs it says why.",
          .operands = {},
          .options = {{.name = "json",
                       .argument = "",
                       .default_value = "",
                       .help = "print one JSON object instead of text"}},
          .examples = {{"pipesim devices", "what is here?"}},
          .run = run_devices};
}

}  // namespace pipesim
