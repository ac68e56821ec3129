#include "tools/cli/options/import_options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/cli/base/streams.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"

namespace pipesim {

std::optional<DeviceKind> imported_kind_of(const Arguments& arguments) {
  if (!arguments.has("device")) return std::nullopt;
  const std::string& name = arguments.text("device");
  if (name.ends_with(".json")) return load_device_kind(name);
  if (const DeviceKind* kind = find_built_in_device_kind(name)) return *kind;
  const std::vector<std::string> names = built_in_device_kind_names();
  throw UsageError(fmt::format("option --device: unknown kind \"{}\"{}; allowed: {}, or a .json file", name,
                               did_you_mean(name, names), list_names(names)));
}

void write_imported(const ImportedTopology& imported, const std::string& source, const Arguments& arguments,
                    Streams& streams) {
  for (const std::string& note : imported.notes) streams.err << "pipesim: " << source << ": " << note << "\n";
  const Topology& topology = imported.topology;
  const std::string text = to_compact_json(topology);
  if (arguments.has("output")) write_file(arguments.text("output"), text);
  if (arguments.given("json")) {
    nlohmann::ordered_json document{{"devices", topology.num_devices()},
                                    {"nodes", topology.num_nodes()},
                                    {"links", topology.parts().links.size()},
                                    {"notes", imported.notes}};
    if (arguments.has("output")) {
      document["file"] = arguments.text("output");
    } else {
      document["topology"] = nlohmann::ordered_json::parse(text);
    }
    give_document(streams, document);
  } else if (arguments.has("output")) {
    streams.out << fmt::format("{}: {} devices in {} node{}, {} links; \"pipesim topologies {}\" shows it\n",
                               arguments.text("output"), topology.num_devices(), topology.num_nodes(),
                               topology.num_nodes() == 1 ? "" : "s", topology.parts().links.size(),
                               arguments.text("output"));
  } else {
    streams.out << text;
  }
}

}  // namespace pipesim
