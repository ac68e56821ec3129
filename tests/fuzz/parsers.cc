#include "tests/fuzz/parsers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "costmodel/calibration_store.h"
#include "costmodel/database.h"
#include "models/import_profile.h"
#include "models/model_json.h"
#include "models/onnx/onnx_model.h"
#include "search/intra/files/read_instance.h"
#include "search/intra/solve.h"
#include "search/joint/joint_json.h"
#include "search/mcmc/search_state_json.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "taskgraph/plan/plan_json.h"
#include "tests/search/search_case.h"
#include "tools/interop/python/python_settings.h"
#include "tools/interop/settings/toml_settings.h"
#include "tools/interop/settings/yaml_settings.h"
#include "tools/interop/shell/shell_script.h"
#include "topologies/device_kinds.h"
#include "topologies/files/nccl_topology.h"
#include "topologies/files/topology_json.h"
#include "topologies/files/topology_matrix.h"

namespace pipesim {
namespace {

void require(bool kept, const char* promise) {
  if (!kept) throw std::logic_error(promise);
}

void read_model(std::string_view bytes) {
  const OperatorGraph graph = parse_model(bytes, "model");
  require(parse_model(to_json(graph), "again") == graph, "a model is written and read again");
}

void read_onnx_file(std::string_view bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  std::istringstream first{std::string(bytes)}, second{std::string(bytes)};
  std::vector<NamedSize> bound;
  for (const std::string& name : read_onnx_sizes(first, size, "model.onnx").names) bound.push_back({name, 4});
  const OperatorGraph graph = read_onnx_model(second, size, "model.onnx", bound).graph;
  require(parse_model(to_json(graph), "again") == graph, "a model is written and read again");
}

void read_topology(std::string_view bytes) {
  const Topology topology = parse_topology(bytes, "topology");
  require(parse_topology(to_json(topology), "again") == topology, "a topology is written and read again");
}

void read_profile(std::string_view bytes) {
  const OperatorGraph graph = import_profile(bytes, "graph.txt", 64, 32);
  require(parse_model(to_json(graph), "again") == graph, "a profile is written and read again as a model");
}

void read_nccl(std::string_view bytes) {
  const bool text = is_topology_matrix(bytes), of_amd = bytes.find("Link Type between") != bytes.npos;
  const std::optional<DeviceKind> kind =
      text ? std::optional(*find_built_in_device_kind(of_amd ? "MI300X" : "H100-SXM5")) : std::nullopt;
  const NcclDump dump =
      text ? parse_topology_matrix(bytes, "node.xml", kind) : parse_nccl_dump(bytes, "node.xml");
  const std::int64_t copies = text && of_amd ? 1 : 2;  // rocm-smi tells no NICs, which copies need
  const Topology topology = topology_of(dump, {"node", "node.xml", copies, kind}).topology;
  require(parse_topology(to_json(topology), "again") == topology, "a topology is written and read again");
}

// What plans and checkpoints are of.
struct Searched : SearchCase {
  Searched() : SearchCase("mlp:batch=8,layers=2,hidden=16,features=12,classes=8", "levels:2@10GB/s,2@1GB/s") {
    Evaluator evaluator(graph, costs, {});
    baselines = score_baselines(evaluator);
    std::vector<Strategy> strategies;
    for (const Baseline& b : baselines) {
      if (b.scored) strategies.push_back(b.scored->plan);
    }
    space.emplace(candidates, strategies);
  }
  [[nodiscard]] SearchSubject subject() const { return {graph, topology, options, baselines}; }

  PlanOptions options;
  std::vector<Baseline> baselines;
  std::optional<ConfigSpace> space;
};

const Searched& searched() {
  static const Searched one;
  return one;
}

void read_plan(std::string_view bytes) {
  const Searched& s = searched();
  const Plan plan = PlanFile::parse(bytes, "plan").read(s.graph, s.topology);
  const std::string text = to_json(plan, s.graph, s.topology);
  require(PlanFile::parse(text, "again").read(s.graph, s.topology) == plan,
          "a plan is written and read again");
}

// A checkpoint says of which search it is, which changes with every cost model. "SUBJECT" stands for that.
std::string with_subject(std::string_view bytes) {
  constexpr std::string_view mark = "\"SUBJECT\"";
  static const std::string subject = json_of(searched().subject()).dump();
  std::string text(bytes);
  for (std::size_t at = text.find(mark); at != std::string::npos && text.size() < (1 << 20);
       at = text.find(mark, at + subject.size()))
    text.replace(at, mark.size(), subject);
  return text;
}

void read_checkpoint(std::string_view bytes) {
  const Searched& s = searched();
  const JsonValue root = JsonDocument::parse(with_subject(bytes), "checkpoint");
  if (root.is_object() && root.find("joint")) {
    constexpr std::size_t starts = 64;
    const DividedGraphs graphs = [&](const SequenceDivision& /*sequence*/) { return &s.graph; };
    const JointState state = parse_joint_state(root.at("joint"), graphs, s.topology, starts);
    const JsonValue again = JsonDocument::parse(json_of(state).dump(), "again");
    require(json_of(parse_joint_state(again, graphs, s.topology, starts)) == json_of(state),
            "the state of a joint search is written and read again");
    return;
  }
  const SearchState state = parse_search_state(root, s.subject(), *s.space);
  require(parse_search_state(json_of(state, s.subject()).dump(), "again", s.subject(), *s.space) == state,
          "the state of a search is written and read again");
}

// Gone with this object; in memory where there is a folder for that. SQLite opens nothing that has no name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error(path_ + " can't be written");
  }
  ~TemporaryFile() { std::filesystem::remove(path_, ignored_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static std::string folder() {
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  }
  std::string path_ = fmt::format("{}/pipesim-fuzz-{}.db", folder(), getpid());
  std::error_code ignored_;
};

// The bytes of an empty calibration.
const std::string& empty_calibration() {
  static const std::string bytes = [] {
    const TemporaryFile file("");
    CalibrationStore::create(file.path(), {}).save();
    return read_file(file.path());
  }();
  return bytes;
}

// Inserts rows, one a line: a table, then its values, divided by tabs; "NULL" is none. What SQLite does not
// take is left out.
void insert_rows(std::string_view lines, const std::string& path) {
  Database database(path, Database::Mode::Create, "calibration");
  database.execute("PRAGMA journal_mode = OFF; BEGIN; DELETE FROM runs");
  while (!lines.empty()) {
    std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    std::vector<std::string_view> values;
    while (true) {
      const std::size_t tab = line.find('\t');
      values.push_back(line.substr(0, tab));
      if (tab == std::string_view::npos) break;
      line.remove_prefix(tab + 1);
    }
    const std::string_view table = values.front();
    const auto tables = {"runs", "versions", "keys", "samples", "dropped", "corrections"};
    if (values.size() < 2 || std::ranges::find(tables, table) == tables.end()) continue;
    std::string sql = fmt::format("INSERT INTO {} VALUES(", table);
    for (std::size_t i = 1; i < values.size(); ++i)
      sql += fmt::format("{}{}", i > 1 ? "," : "", values[i] == "NULL" ? "NULL" : "?");
    try {
      Statement row(database, sql + ")");
      for (std::size_t i = 1; i < values.size(); ++i) {
        if (values[i] != "NULL") row.bind(values[i]);
      }
      row.run();
    } catch (const InputError&) {
    }
  }
  database.execute("COMMIT");
}

void read_calibration(std::string_view bytes) {
  const bool raw = bytes.starts_with("SQLite format 3");
  const TemporaryFile file(raw ? bytes : empty_calibration());
  if (!raw) insert_rows(bytes, file.path());
  const Calibration calibration = load_calibration(file.path());
  const CostModel costs(searched().topology, &calibration);
  const OperatorGraph& graph = searched().graph;
  for (std::size_t i = 0; i < graph.operators().size(); ++i) {
    const std::vector<Range> whole = whole_ranges(graph.operators()[i]);
    static_cast<void>(costs.operator_time(graph, graph.operators()[i], Pass::Forward, whole, DeviceId(0)));
  }
}

// On a topology with the kind of device that they name.
void read_constants(std::string_view bytes) {
  Calibration calibration;
  calibration.constants = parse_constants(bytes, "constants.json");
  static_cast<void>(parse_constants(to_json(*calibration.constants), "constants.json"));
  calibration.constants->device = searched().topology.kind(DeviceId(0)).name;
  const CostModel costs(searched().topology, &calibration, parse_runtime("megatron"));
  const std::vector<double> slopes(calibration.constants->constants.size(), 1.0);
  static_cast<void>(log_deviation(*calibration.constants, slopes));
}

// What is read can be reduced, and solved where that is enough, or is refused. Searches would take too long.
void read_intra_instance(std::string_view bytes) {
  std::istringstream text{std::string(bytes)};
  const IntraInstance instance = read_instance(text, "instance");
  IntraSettings settings;
  settings.rounds = 0;
  const IntraSolution solution = solve(instance, settings);
  require(!solution.found || solution.bound <= solution.cost, "no answer costs less than the bound");
  if (!solution.found) return;
  std::istringstream answer(answer_text(solution.answer, solution.cost));
  require(read_answer(answer, "again", instance) == solution.answer, "an answer is written and read again");
}

// Nothing lies beside a script in a folder that does not exist.
void read_script(std::string_view bytes) {
  const ShellScript script = read_shell_script(bytes, "/nowhere/run.sh", {8, 8});
  for (const std::vector<ShellWord>& command : script.commands)
    require(!command.empty(), "a command has words");
}

void read_toml(std::string_view bytes) { static_cast<void>(toml_settings(bytes, "run.toml")); }

void read_yaml(std::string_view bytes) { static_cast<void>(yaml_settings(bytes, "run.yaml")); }

// Every function of the file is followed.
void read_python(std::string_view bytes) {
  PythonModule module(bytes, "run.py");
  for (const std::string& function : module.functions())
    static_cast<void>(python_settings(module.call(function), "run.py"));
}

template <void (*Read)(std::string_view)>
bool reads(std::string_view bytes) {
  try {
    Read(bytes);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

constexpr std::array<FuzzedParser, 14> kParsers{{{"models", reads<read_model>},
                                                 {"onnx", reads<read_onnx_file>},
                                                 {"plans", reads<read_plan>},
                                                 {"topologies", reads<read_topology>},
                                                 {"profiles", reads<read_profile>},
                                                 {"nccl", reads<read_nccl>},
                                                 {"checkpoints", reads<read_checkpoint>},
                                                 {"calibrations", reads<read_calibration>},
                                                 {"constants", reads<read_constants>},
                                                 {"instances", reads<read_intra_instance>},
                                                 {"scripts", reads<read_script>},
                                                 {"toml", reads<read_toml>},
                                                 {"yaml", reads<read_yaml>},
                                                 {"python", reads<read_python>}}};

}  // namespace

std::span<const FuzzedParser> fuzzed_parsers() { return kParsers; }

const FuzzedParser& fuzzed_parser(std::string_view name) {
  for (const FuzzedParser& parser : kParsers) {
    if (parser.name == name) return parser;
  }
  throw std::logic_error(fmt::format("there is no parser {}", name));
}

}  // namespace pipesim
