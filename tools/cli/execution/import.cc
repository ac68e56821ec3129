#include "sim/base/errors.h"
#include "tools/cli/commands/execution_commands.h"
#include "tools/cli/options/import_options.h"
#include "tools/running/machine_topology.h"

namespace pipesim {
namespace {

ImportedTopology import_of_this_machine(const Arguments& arguments) {
  const std::optional<DeviceKind> kind = imported_kind_of(arguments);
  const auto parts = arguments.has("virtual-devices")
                         ? static_cast<int>(arguments.integer("virtual-devices", 2, max_devices))
                         : 1;
  MachineDescription machine = this_machine();
  if (arguments.has("name")) machine.name = arguments.text("name");
  if (parts == 1 || machine.gpus.gpus.empty()) return topology_of(machine, kind);
  return topology_of(machine, share_of_this_machine(parts), kind);
}

}  // namespace

int run_import_of_this_machine(const Arguments& arguments, Streams& streams) {
  write_imported(import_of_this_machine(arguments), "this machine", arguments, streams);
  return 0;
}

}  // namespace pipesim
