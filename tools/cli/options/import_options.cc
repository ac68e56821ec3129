#include "tools/cli/options/import_options.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"

namespace pipesim {

std::optional<DeviceKind> imported_kind_of(const Arguments& arguments) {
  if (!arguments.has("device")) return std::nullopt;
  const std::string& name = arguments.text("device");
  if (const DeviceKind* kind = find_built_in_device_kind(name)) return *kind;
  const std::vector<std::string> names = built_in_device_kind_names();
  throw UsageError(fmt::format("option --device: unknown kind \"{}\"{}; allowed: {}", name,
                               did_you_mean(name, names), list_names(names)));
}

void write_imported(const ImportedTopology& imported, const std::string& source, const Arguments& arguments,
                    Streams& streams) {
  for (const std::string& note : imported.notes) streams.err << "pipesim: " << source << ": " << note << "\n";
  if (!arguments.has("output")) {
    streams.out << to_compact_json(imported.topology);
    return;
  }
  write_file(arguments.text("output"), to_compact_json(imported.topology));
  streams.out << fmt::format("{}: {} devices in {} node{}, {} links; \"pipesim topologies {}\" shows it\n",
                             arguments.text("output"), imported.topology.num_devices(),
                             imported.topology.num_nodes(), imported.topology.num_nodes() == 1 ? "" : "s",
                             imported.topology.parts().links.size(), arguments.text("output"));
}

}  // namespace pipesim
