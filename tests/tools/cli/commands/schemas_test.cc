#include <gmock/gmock.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "models/model_json.h"
#include "models/operator_kind.h"
#include "models/zoo/zoo.h"
#include "search/auto/algorithms.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "taskgraph/plan/plan_json.h"
#include "tests/seeds.h"
#include "tests/tools/command_line.h"
#include "tools/analysis/whatif/study.h"
#include "tools/cli/manual/file_schemas.h"
#include "tools/render/whatif/study_json.h"
#include "topologies/device_kinds.h"
#include "topologies/files/topology_json.h"
#include "topologies/gpu_share.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

class FileSchema {
 public:
  explicit FileSchema(const std::string& name) {
    const Json text = Json::parse(file_schema(name));
    EXPECT_EQ(text["$schema"], "http://json-schema.org/draft-07/schema#");
    valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(text), schema_);
  }

  // "" or what is wrong.
  [[nodiscard]] std::string faults(const Json& file) const {
    valijson::Validator validator;
    valijson::ValidationResults results;
    if (validator.validate(schema_, Adapter(file), &results)) return "";
    std::string text;
    valijson::ValidationResults::Error error;
    while (results.popError(error)) {
      for (const std::string& place : error.context) text += place;
      text += ": " + error.description + "\n";
    }
    return text.empty() ? "refused" : text;
  }
  [[nodiscard]] std::string faults(const std::string& file) const { return faults(Json::parse(file)); }

 private:
  valijson::Schema schema_;
};

const FileSchema& schema_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<FileSchema>> schemas;
  std::unique_ptr<FileSchema>& schema = schemas[name];
  if (!schema) schema = std::make_unique<FileSchema>(name);
  return *schema;
}

bool parser_takes(const std::string& schema, const Json& file) {
  try {
    if (schema == "model") {
      (void)parse_model(file.dump(), "file.json");
    } else if (schema == "topology") {
      (void)parse_topology(file.dump(), "file.json");
    } else if (schema == "study") {
      (void)study_in(file.dump(), "file.json");
    } else {
      const PlanFile plan = PlanFile::parse(file.dump(), "file.json");
      const Topology topology = make_topology(plan.topology());
      (void)plan.read(make_zoo_model(plan.model()), topology);
    }
    return true;
  } catch (const InputError&) {
    return false;
  }
}

const char* const kNamedSizes =
    R"({"pipesim_model": 1, "name": "m", "sizes": {"b": 4, "h": 8, "ffn": "4 * h"},
  "batch": "b", "dtype": "bfloat16",
  "inputs": [{"name": "x", "shape": ["b", "h"], "dtype": "float32"}, {"name": "y", "shape": ["b"],
    "dtype": "int64", "before": "loss"}],
  "operators": [{"name": "fc", "kind": "linear", "inputs": ["x"], "out": ["ffn/2", 2], "bias": 1, "repeat": "r"},
    {"name": "flat", "kind": "flatten", "inputs": ["fc"], "from": 1, "outputs": ["f"]},
    {"name": "loss", "kind": "cross_entropy", "inputs": ["f", "y"]}]})";

const char* const kModelOfSchemas = "gpt:layers=2,hidden=16,heads=4,vocab=48,sequence=8,positions=8,batch=8";

// Plans of many forms, as the program writes them.
std::vector<std::string> written_plans() {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  std::vector<std::string> plans;
  const auto add = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "search");
    args.insert(args.end(), {"-o", file});
    const Outcome outcome = pipesim_run(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    plans.push_back(read_file(file));
  };
  const std::string small = kModelOfSchemas;
  for (const char* baseline : {"single-device", "data-parallel", "model-parallel", "expert"}) {
    add({"--model", "lenet:batch=8", "--topology", "p100-4x4:1", "--algorithm", baseline});
    add({"--model", small, "--topology", "p100-4x4:1", "--algorithm", baseline, "--microbatches", "2",
         "--optimizer", "adam,moments=float8+float16,main=remainder", "--gradient-type", "bfloat16"});
  }
  add({"--model", "lenet:batch=8", "--topology", "p100-4x4:1", "--proposals", "200"});
  for (const char* recompute : {"selective", "full"})
    add({"--model", small, "--topology", "p100-4x4:1", "--algorithm", "data-parallel", "--recompute",
         recompute});
  for (const char* algorithm : {"gpipe", "dapple", "pipedream"})
    add({"--model", small, "--topology", "p100-4x4:1", "--algorithm", algorithm, "--microbatches", "4"});
  return plans;
}

const std::vector<std::string>& some_plans() {
  static const std::vector<std::string> plans = written_plans();
  return plans;
}

// The answers of all algorithms to searches of one small model, as `search --json` prints them.
std::vector<Json> answers_of_searches() {
  std::vector<Json> answers;
  const auto ask = [&](const std::string& algorithm, std::vector<std::string> more) {
    std::vector<std::string> args{"search",     "--model",     kModelOfSchemas, "--topology",
                                  "p100-4x4:1", "--algorithm", algorithm,       "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = pipesim_run(args);
    EXPECT_EQ(outcome.status, 0) << algorithm << ": " << outcome.err;
    answers.push_back(Json::parse(outcome.out));
    EXPECT_EQ(answers.back()["search"]["algorithm"], algorithm);
  };
  for (const Algorithm& algorithm : algorithms()) {
    const bool proposes = std::ranges::find(algorithm.settings, "proposals") != algorithm.settings.end();
    ask(std::string(algorithm.name), proposes ? std::vector<std::string>{"--proposals", "100"}
                                              : std::vector<std::string>{"--seconds", "0"});
  }
  ask("exhaustive", {"--stages", "2"});
  return answers;
}

TEST(Schemas, SearchesAnswerWithTheSameKeys) {
  const Json schema = Json::parse(file_schema("search"));
  // A plan's report has keys that depend on the plan; the others are those of simulate.
  std::set<std::string> known{"makespan_s",     "recompute_s",  "infeasible", "idle_devices",
                              "borrowed_rates", "uncalibrated", "runtime"};
  const Outcome simulated = pipesim_run({"simulate", "--model", kModelOfSchemas, "--topology", "p100-4x4:1",
                                         "--baseline", "data-parallel", "--json"});
  const Json report = Json::parse(simulated.out);
  for (const auto& entry : report.items()) known.insert(entry.key());
  for (const auto& entry : schema["properties"].items()) known.insert(entry.key());
  EXPECT_EQ(schema["required"].size(), schema["properties"].size());
  const std::vector<Json> answers = answers_of_searches();
  for (const Json& answer : answers) {
    EXPECT_EQ(schema_named("search").faults(answer), "") << answer["search"];
    for (const auto& entry : answer.items())
      EXPECT_TRUE(known.contains(entry.key())) << entry.key() << " of " << answer["search"];
  }
  Json wrong = answers.front();
  wrong["search"].erase("threads");
  EXPECT_NE(schema_named("search").faults(wrong), "");
}

TEST(Schemas, HelpPrintsThem) {
  for (const std::string& kind : kinds_of_schemas()) {
    EXPECT_EQ(pipesim_run({"help", "--schema", kind}), (Outcome{0, file_schema(kind), ""}));
    const Json schema = Json::parse(file_schema(kind));
    EXPECT_EQ(schema["required"][0], kind == "search" ? "iteration_time_s" : "pipesim_" + kind);
  }
  EXPECT_EQ(pipesim_run({"help", "--schema", "plam"}).err,
            "pipesim: help: option --schema is one of model, plan, search, study, topology, not \"plam\" "
            "(did you mean "
            "\"plan\"?); see \"pipesim help help\"\n");
}

TEST(Schemas, TakeEveryModel) {
  for (const ZooModel& model : zoo_models()) {
    // A layer of each kind is enough of the largest.
    const auto has = [&](const char* key) {
      return std::ranges::any_of(model.options, [&](const ZooOption& o) { return o.key == key; });
    };
    const std::string text = model.name + (has("layers") ? ":layers=2" : has("steps") ? ":steps=2" : "");
    EXPECT_EQ(schema_named("model").faults(to_json(make_zoo_model(text))), "") << text;
  }
  for (const OperatorKind& kind : operator_kinds())
    EXPECT_EQ(schema_named("model").faults(to_json(example_graph(kind, "it"))), "") << kind.name;
  EXPECT_EQ(schema_named("model").faults(std::string(kNamedSizes)), "");
  EXPECT_TRUE(parser_takes("model", Json::parse(kNamedSizes)));
}

TEST(Schemas, TakeEveryTopology) {
  const auto check = [](const Topology& topology) {
    EXPECT_EQ(schema_named("topology").faults(to_json(topology)), "") << topology.name();
    EXPECT_EQ(schema_named("topology").faults(to_compact_json(topology)), "") << topology.name();
  };
  for (const TopologyPreset& preset : topology_presets()) {
    for (const std::int64_t nodes : {1, 2, 5}) check(preset_topology(preset, nodes));
  }
  for (const char* text : {"cpu:3", "levels:4@10GB/s,2@1.25GB/s@5us"}) check(make_topology(text));
  check(divided_gpu("parts", *find_built_in_device_kind("H200"), {8, 16, 132}));
  EXPECT_EQ(schema_named("topology")
                .faults(read_file(PIPESIM_SOURCE_DIR "/tests/topologies/fixtures/two_generations.json")),
            "");
}

TEST(Schemas, TakePlansOfManyForms) {
  bool stages = false, recompute = false, microbatches = false;
  for (const std::string& plan : some_plans()) {
    EXPECT_EQ(schema_named("plan").faults(plan), "") << plan;
    const Json json = Json::parse(plan);
    stages |= json.contains("stages");
    recompute |= json.contains("recompute");
    microbatches |= json.contains("microbatches");
  }
  EXPECT_TRUE(stages && recompute && microbatches);
  EXPECT_EQ(schema_named("plan").faults(std::string(R"({"pipesim_plan": 1, "model": "m", "topology": "t",
    "schedule": "pipedream", "stages": [["a..b"], ["c"]], "replicas": [2, 1], "recompute": ["a", ["b..c"]],
    "configs": [{"operator": "a", "split": [["b", 2]], "replicas": 2, "devices": ["x..y", "z"]}]})")),
            "");
}

// Returns a study of two by three points. One point has no plan, and one is missing.
std::string a_study() {
  Study study;
  study.words = {"--model", "gpt3-1.3b", "--recipe", "tp2"};
  study.model = "gpt3-1.3b";
  study.axes = {{"nodes", {"1", "2"}}, {"recipe.tp", {"1", "2", "4"}}};
  study.points.resize(number_of_points(study.axes));
  for (std::size_t i = 0; i + 1 < study.points.size(); ++i) {
    PointResult& p = study.points[i].emplace();
    p.recipe = "tp2,dp4";
    p.kind = "tensor-parallel";
    p.time_s = 1.5;
    p.samples_per_s = 100;
    p.devices = 8;
    p.memory_bytes = 1'000'000;
    p.fits = true;
    if (i % 2 == 0)
      p.mfu = 0.5, p.counted = "causal attention at half", p.tokens_per_s = 3e5, p.price_per_hour = 16,
      p.objective_s = 1.6;
  }
  study.points[1]->error = "recipe tp3: 16 heads";
  study.crossovers.push_back({1, {0, 0}, "1", "2", "data-parallel", "tensor-parallel"});
  return json_of(study).dump();
}

TEST(Schemas, TakeStudies) {
  EXPECT_EQ(schema_named("study").faults(a_study()), "");
  EXPECT_TRUE(parser_takes("study", Json::parse(a_study())));
}

// Each change by hand is refused by the schema itself, as editors would show it.
TEST(Schemas, RefuseWrongFiles) {
  const auto refused = [](const std::string& schema, const std::string& text, const char* pointer,
                          Json value) {
    Json file = Json::parse(text);
    EXPECT_EQ(schema_named(schema).faults(file), "");
    file[Json::json_pointer(pointer)] = std::move(value);
    EXPECT_NE(schema_named(schema).faults(file), "") << pointer << " " << file.dump();
    EXPECT_FALSE(parser_takes(schema, file)) << pointer;
  };
  const std::string model = kNamedSizes;
  refused("model", model, "/pipesim_model", 2);
  refused("model", model, "/batsh", 4);
  refused("model", model, "/batch", "2*b");
  refused("model", model, "/sizes/4x", 4);
  refused("model", model, "/dtype", "int64");
  refused("model", model, "/inputs/0/shape/0", 0);
  refused("model", model, "/operators/0/kind", "linaer");
  refused("model", model, "/operators/0/Out", 5);
  refused("model", model, "/operators/0/out", true);
  refused("model", model, "/operators/0/out", 0);
  refused("model", model, "/operators/0/activation", "rely");
  refused("model", model, "/operators/0/inputs", "x");
  refused("model", model, "/operators/1/from", -1);
  refused("study", a_study(), "/pipesim_study", 2);
  refused("study", a_study(), "/plans", "some");
  refused("study", a_study(), "/axes/0/values/1", 2);
  refused("study", a_study(), "/points/0/at/1", -1);
  refused("study", a_study(), "/points/0/fits", "yes");
  refused("study", a_study(), "/points/0/time_s", "1 s");
  refused("study", a_study(), "/crossovers/0/low", 1);
  const std::string topology = to_compact_json(make_topology("dgx-a100:2"));
  refused("topology", topology, "/pipesim_topology", "1");
  refused("topology", topology, "/network", Json::object());
  refused("topology", topology, "/nodes/count", 0);
  refused("topology", topology, "/name", "a*");
  refused("topology", topology, "/netwrok", Json::object());
  refused("topology", topology, "/device", "H200");
  refused("topology", topology, "/device_kinds", Json::parse(R"({"k": {"memory": "4 GB"}})"));
  const std::string plan = some_plans().back();
  refused("plan", plan, "/pipesim_plan", 3);
  refused("plan", plan, "/optimizer", "adan");
  refused("plan", plan, "/microbatches", 0);
  refused("plan", plan, "/configs/0/devices", 4);
  refused("plan", plan, "/configs/0/device", "all");
  refused("plan", plan, "/configs/0/split", Json::parse(R"([["b"]])"));
  refused("plan", plan, "/stages/0", Json::array());
  refused("plan", plan, "/gradient_piece", "25");
}

// Every place of a file, for damaging it.
void places_of(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& places) {
  if (!at.empty()) places.push_back(at);
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) places_of(value, at / key, places);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) places_of(json[i], at / i, places);
  }
}

// Damaged files are refused by the parser, or they are right for both: no schema asks for more than its
// parser.
TEST(Schemas, AskForNoMoreThanTheParsers) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"model", kNamedSizes},
      {"model", to_json(make_zoo_model("lenet:batch=4"))},
      {"topology", to_compact_json(make_topology("dgx-a100:2"))},
      {"topology", to_json(make_topology("p100-4x4:2"))},
      {"topology", to_compact_json(make_topology("levels:4@10GB/s,2@1.25GB/s@5us"))},
      {"topology", read_file(PIPESIM_SOURCE_DIR "/tests/topologies/fixtures/two_generations.json")},
      {"plan", some_plans().front()},
      {"plan", some_plans().back()}};
  const std::vector<Json> values{nullptr,
                                 true,
                                 0,
                                 -1,
                                 1,
                                 2,
                                 3.5,
                                 "",
                                 "b",
                                 "x y",
                                 "1 GB",
                                 "2 GB/s",
                                 "3 us",
                                 "all",
                                 "2*b",
                                 Json::array(),
                                 Json::array({1}),
                                 Json::array({"b", 2}),
                                 Json::object(),
                                 Json::parse(R"({"name": "n"})")};
  int taken = 0, by_schema = 0, by_parser = 0;
  for_each_seed(800, [&](Rng& rng) {
    const auto& [schema, text] = files[rng.below(files.size())];
    Json file = Json::parse(text);
    std::vector<Json::json_pointer> places;
    places_of(file, Json::json_pointer(), places);
    const Json::json_pointer place = places[rng.below(places.size())];
    Json& parent = file[place.parent_pointer()];
    if (rng.below(3) == 0 && parent.is_object()) {
      parent.erase(place.back());
    } else if (rng.below(4) == 0 && parent.is_object()) {
      Json value = parent[place.back()];
      parent.erase(place.back());
      parent[place.back() + "s"] = std::move(value);
    } else {
      file[place] = values[rng.below(values.size())];
    }
    const std::string faults = schema_named(schema).faults(file);
    if (parser_takes(schema, file)) {
      EXPECT_EQ(faults, "") << place.to_string() << "\n" << file.dump();
      ++taken;
    } else {
      ++(faults.empty() ? by_parser : by_schema);
    }
  });
  if (std::getenv("PIPESIM_TEST_SEED") != nullptr) return;
  EXPECT_GT(taken, sanitized ? 5 : 25);
  EXPECT_GT(by_schema, by_parser) << "most mistakes of form show in an editor";
}

}  // namespace
}  // namespace pipesim
