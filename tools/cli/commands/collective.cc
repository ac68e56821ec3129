#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/base/errors.h"
#include "tools/analysis/accuracy/collective_report.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/collective_run.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/base/command.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/shared_options.h"
#include "tools/render/accuracy/collective_report_text.h"

namespace pipesim {
namespace {

int run_collective(const Arguments& arguments, Streams& streams) {
  const Topology topology = open_topology(required_text(arguments, "topology"));
  const Collective kind = parse_collective(arguments.text("kind"));
  const std::vector<DeviceId> devices = parse_device_list(arguments.text("devices"), topology.num_devices());
  if (kind == Collective::Send && devices.size() != 2)
    throw InputError(fmt::format("a send has two devices, source and destination; found {}", devices.size()));
  const std::vector<Bytes> sizes = parse_sizes(arguments.text("sizes"));
  const std::optional<Calibration> calibration =
      open_calibration(text_or_none(arguments, "calibration"), topology, streams.err);
  const CostModel costs(topology, pointer_to(calibration));
  const std::vector<CollectiveRow> rows = time_collective(costs, kind, devices, sizes);
  if (arguments.given("json")) {
    nlohmann::ordered_json json{
        {"kind", name_of(kind)}, {"topology", topology.name()}, {"devices", devices.size()}};
    json["sizes"] = nlohmann::ordered_json::array();
    for (const CollectiveRow& row : rows) json["sizes"].push_back(json_of(row));
    give_document(streams, json);
    return 0;
  }
  streams.out << fmt::format("{} on {} of {} devices of {}\n\n", name_of(kind), devices.size(),
                             topology.num_devices(), topology.name())
              << to_text(rows);
  return 0;
}

}  // namespace

Command collective_command() {
  Command c;
  c.name = "collective";
  c.summary = "print how long a collective takes by size";
  c.description =
      "Prints for each size what nccl-tests print: time, algorithm bandwidth and bus bandwidth; then the "
      "algorithm that the cost model chooses, and the next best.\n\nThe size is that of the buffer: what a "
      "device begins with or ends with, whichever is more. Times are those that simulate takes, with nothing "
      "else on the links.";
  c.options = {topology_option(),
               {.name = "kind",
                .argument = "KIND",
                .default_value = "all-reduce",
                .help = "the collective",
                .choices = {{"all-reduce"},
                            {"reduce-scatter"},
                            {"all-gather"},
                            {"all-to-all"},
                            {"broadcast"},
                            {"reduce"},
                            {"send"}}},
               {.name = "devices",
                .argument = "LIST",
                .default_value = "all",
                .help = "numbers and ranges, with a step: 0-7,16 or 0-63:8",
                .details = "A broadcast or a send begins with the source, a reduce with the destination."},
               {.name = "sizes",
                .argument = "SIZES",
                .default_value = "1MiB..1GiB",
                .help = "FIRST..LAST, each twice the one before, or a list: 4MiB,25MB"},
               calibration_option(),
               json_option()};
  c.examples = {
      {"pipesim collective --topology dgx-h100", "all-reduce in a node, from 1 MiB to 1 GiB"},
      {"pipesim collective --topology dgx-h100:8 --kind all-gather --devices 0-63:8 --sizes 25MB,200MB",
       "between the first GPUs of eight nodes"}};
  c.run = run_collective;
  return c;
}

}  // namespace pipesim
