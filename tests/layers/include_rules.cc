#include "tests/layers/include_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace pipesim {
namespace {

using Layers = std::set<std::string>;

Layers joined(Layers layers, const Layers& more) {
  layers.insert(more.begin(), more.end());
  return layers;
}

// The layer arrows: what each folder may include beside itself. Kept closed under "below what is below". The
// floors of tools are layers of their own, and so are the folders of the program that runs plans, and those
// of Python's module.
const Layers kSearching = {"sim", "topologies", "models", "costmodel", "taskgraph"};
const Layers kTools = joined(kSearching, {"search"});
const Layers kInterop = joined(kTools, {"tools/base", "tools/analysis"});
const Layers kRender = joined(kInterop, {"tools/interop"});
const Layers kCli = joined(kRender, {"tools/render"});
const Layers kCommands = joined(kCli, {"tools/cli"});
const Layers kRunning = joined(kInterop, {"executor"});
const Layers kAllRunning = joined(joined(kCli, kRunning), {"tools/running"});
const std::map<std::string, Layers> kBelow = {
    {"sim", {}},
    {"topologies", {"sim"}},
    {"models", {"sim"}},
    {"costmodel", {"sim", "topologies", "models"}},
    {"taskgraph", {"sim", "topologies", "models", "costmodel"}},
    {"search", kSearching},
    {"executor", kSearching},
    {"tools/base", kTools},
    {"tools/analysis", joined(kTools, {"tools/base"})},
    {"tools/interop", kInterop},
    {"tools/render", kRender},
    {"tools/cli", kCli},
    {"tools", kCommands},
    {"python", kRender},
    {"tools/cli/python", joined(kCommands, {"python"})},
    {"tools/running", kRunning},
    {"tools/render/execution", kAllRunning},
    {"tools/cli/execution", joined(kAllRunning, {"tools/cli", "tools/render/execution"})},
    {"tests", joined(kAllRunning, {"tools/cli", "tools/render/execution", "tools/cli/execution"})},
};

// The deepest layer that holds a file, or the file's top folder where that is none.
std::string layer_of(const std::string& path) {
  std::string deepest = path.substr(0, path.find('/'));
  for (const auto& [layer, below] : kBelow) {
    if (layer.size() > deepest.size() && path.starts_with(layer + "/")) deepest = layer;
  }
  return deepest;
}

struct PackageRule {
  const char* package;
  const char* headers;  // a regular expression for what is included
  const char* places;   // a regular expression for the paths that may include it
  const char* said;     // the places in words
};

// The first rule whose headers match decides.
const std::vector<PackageRule> kPackages = {
    {"Boost.Beast's compression", R"(boost/beast/zlib/deflate_stream\.hpp)",
     R"(tools/render/page/packed_text\.cc)", "tools/render/page/packed_text.cc"},
    {"Boost.Beast and Boost.CRC", R"(boost/(beast/zlib/inflate_stream|crc)\.hpp)",
     R"(tools/interop/traces/trace_text\.cc)", "tools/interop/traces/trace_text.cc"},
    {"Boost.Container", "boost/container/.*", R"(sim/base/small_vector\.h)", "sim/base/small_vector.h"},
    {"Boost.DynamicBitset", "boost/dynamic_bitset\\.hpp", R"(search/pipelines/cuts\.cc)",
     "search/pipelines/cuts.cc"},
    {"Boost.Graph", "boost/(graph|property_map|range)/.*",
     R"(topologies/routing\.cc|models/topological_order\.cc)",
     "topologies/routing.cc and models/topological_order.cc"},
    {"Boost.Interprocess", "boost/interprocess/.*", R"(executor/tensors/file_source\.cc)",
     "executor/tensors/file_source.cc"},
    {"Boost.Program_options", R"(boost/program_options(/.*|\.hpp))", R"(tools/cli/base/arguments\.cc)",
     "tools/cli/base/arguments.cc"},
    {"declarations of nlohmann JSON", R"(nlohmann/json_fwd\.hpp)", "(?!tools/analysis/).*",
     "other folders than tools/analysis"},
    {"nlohmann JSON", "nlohmann/.*", R"((?!tools/analysis/).*\.cc)", ".cc files outside tools/analysis"},
    {"oneTBB", "tbb/.*|oneapi/tbb(/.*|\\.h)", "(taskgraph|search)/.*|tests/(bench/)?(taskgraph|search)/.*",
     "taskgraph and search"},
    {"oneDNN", "dnnl.*|oneapi/dnnl/.*", "executor/cpu/.*", "executor/cpu"},
    {"CUDA", "(cuda|cublas|cudnn|nccl|cupti|nvToolsExt).*", "executor/cuda/.*", "executor/cuda"},
    {"MPI", "mpi\\.h", "executor/mpi/.*", "executor/mpi"},
    {"pybind11", "pybind11/.*", "(python/module|tools/cli/python)/.*", "python/module and tools/cli/python"},
    {"pugixml", R"(pugixml\.hpp)", R"(topologies/files/nccl_dump\.cc)", "topologies/files/nccl_dump.cc"},
    {"toml++", R"(toml\+\+/.*)", R"(tools/interop/settings/toml_settings\.cc)",
     "tools/interop/settings/toml_settings.cc"},
    {"ONNX", "(onnx|google/protobuf)/.*", R"((tests/)?models/onnx/.*|tests/executor/onnx/.*)", "models/onnx"},
    {"Eigen", R"(Eigen/\w+)", R"(costmodel/constants/fit_constants\.cc)",
     "costmodel/constants/fit_constants.cc"},
    {"SQLite", "sqlite3\\.h", R"(costmodel/.*\.cc)", ".cc files of costmodel"},
    {"valijson", "valijson/.*", R"(tests/tools/.*\.cc)", "tests of tools"},
    {"fmt", "fmt/.*", R"(.*\.cc|tests/.*)", ".cc files"},
    {"GoogleTest", "(gtest|gmock)/.*", "tests/.*", "tests"},
    {"Google Benchmark", "benchmark/.*", "tests/bench/.*", "tests/bench"},
    {"POSIX",
     R"((sys|netinet|arpa)/.*|(unistd|fcntl|poll|dlfcn|netdb|ifaddrs|signal|sched|pthread|malloc)\.h)",
     R"(.*\.cc|tests/.*)", ".cc files"},
    {"the standard library", "[a-z_0-9]+", ".*", "everywhere"},
};

std::string broken_layer(const std::string& layer, const std::string& target) {
  const std::string other = layer_of(target);
  if (target.find('/') == std::string::npos || !kBelow.contains(other))
    return fmt::format("\"{}\" must be named from the repository's root, like \"{}/…\"", target, layer);
  if (other == layer || kBelow.at(layer).contains(other)) return "";
  return fmt::format("{} may not include {}", layer, target);
}

std::string broken_package(const std::string& path, const std::string& target) {
  for (const PackageRule& rule : kPackages) {
    if (!std::regex_match(target, std::regex(rule.headers))) continue;
    if (std::regex_match(path, std::regex(rule.places))) return "";
    return fmt::format("{} ({}) may be included only in {}", rule.package, target, rule.said);
  }
  return fmt::format("no rule says where {} may be included", target);
}

// Depth first; `trail` holds the headers between the start and here.
std::string cycle_from(const std::string& path, const std::map<std::string, std::vector<std::string>>& edges,
                       std::vector<std::string>& trail, std::set<std::string>& done) {
  const auto met = std::find(trail.begin(), trail.end(), path);
  if (met != trail.end()) {
    std::string text;
    for (auto at = met; at != trail.end(); ++at) text += *at + " -> ";
    return text + path;
  }
  if (done.contains(path) || !edges.contains(path)) return "";
  trail.push_back(path);
  for (const std::string& next : edges.at(path)) {
    if (std::string found = cycle_from(next, edges, trail, done); !found.empty()) return found;
  }
  trail.pop_back();
  done.insert(path);
  return "";
}

}  // namespace

std::vector<Include> includes_of(const SourceFile& file) {
  static const std::regex kInclude(R"(\s*#\s*include\s*(["<])([^">]+)[">].*)");
  std::vector<Include> includes;
  std::istringstream lines(file.text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    // The cheap test first: matching every line of the tree takes seconds under sanitizers.
    if (line.find("include") == std::string::npos || !std::regex_match(line, match, kInclude)) continue;
    includes.push_back({match[2], number, match[1] == "\""});
  }
  return includes;
}

std::vector<std::string> broken_include_rules(const SourceFile& file) {
  std::vector<std::string> broken;
  for (const Include& include : includes_of(file)) {
    const std::string reason = include.quoted ? broken_layer(layer_of(file.path), include.target)
                                              : broken_package(file.path, include.target);
    if (!reason.empty()) broken.push_back(fmt::format("{}:{}: {}", file.path, include.line, reason));
  }
  return broken;
}

namespace {

// `name_of`: what stands for a path in the circle.
std::string cycle_of(std::span<const SourceFile> files, std::string (*name_of)(const std::string& path)) {
  std::map<std::string, std::vector<std::string>> edges;
  for (const SourceFile& file : files) {
    const std::string from = name_of(file.path);
    for (const Include& include : includes_of(file)) {
      const std::string to = name_of(include.target);
      if (include.quoted && (from != to || file.path == include.target)) edges[from].push_back(to);
    }
  }
  std::set<std::string> done;
  for (const auto& [path, targets] : edges) {
    std::vector<std::string> trail;
    if (std::string found = cycle_from(path, edges, trail, done); !found.empty()) return found;
  }
  return "";
}

}  // namespace

std::string include_cycle(std::span<const SourceFile> files) {
  return cycle_of(files, [](const std::string& path) { return path; });
}

std::string room_cycle(std::span<const SourceFile> files) {
  return cycle_of(files, [](const std::string& path) { return path.substr(0, path.rfind('/')); });
}

}  // namespace pipesim
