#include "tools/analysis/inputs/model_and_topology.h"

#include <fmt/format.h>

#include <cmath>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/cost_model.h"
#include "models/hugging_face.h"
#include "models/import_profile.h"
#include "models/model_json.h"
#include "models/onnx/onnx_model.h"
#include "models/zoo/zoo.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/json_reader.h"
#include "sim/base/suggest.h"
#include "topologies/files/topology_json.h"
#include "topologies/presets/presets.h"

namespace pipesim {

const char* const kModelHelp = "NAME, NAME:key=value,…, or FILE.json, .onnx or .txt";
const char* const kModelDetails =
    "`pipesim models` lists the names, and `pipesim models NAME` the keys of a model. FILE.json is a model "
    "file; `pipesim models NAME --json` prints one. FILE.json:size=N,… sets sizes that the file names "
    "(docs/files.md). FILE.json may also be the config.json of a model of Hugging Face: it is read as a "
    "model of "
    "the zoo, and FILE.json:sequence=N,… sets that model's keys. FILE.onnx:batch=N,… is an ONNX file, with "
    "lengths for dimensions that have none (docs/onnx.md). FILE.txt:batch=N,profile-batch=P is a "
    "measured profile: a batch of N samples, measured "
    "with P samples. Where one of the two is left out it equals the other; the default of both is 64.";
const char* const kTopologyHelp = "NAME, NAME:N (N nodes), cpu:N, levels:…, or FILE.json";
const char* const kTopologyDetails =
    "`pipesim topologies` lists the names. cpu:N means N threads of a host. NAME:N,network=rail,… joins the "
    "nodes by another network than one ideal switch, rail or fat-tree, and NAME:gpus=4 is a node with only "
    "four of its GPUs; docs/files.md says more. "
    "levels:4@10GB/s,2@1.25GB/s means "
    "two groups of four devices, with 10 GB/s within a group and 1.25 GB/s between groups. FILE.json is a "
    "topology file; `pipesim topologies NAME --json` prints one. NAME+NAME joins nodes of several kinds, and "
    "TOPOLOGY+PATH=VALUE changes a figure, as in dgx-h100:2+inter_node.bandwidth=25Gb/s; whatif --list "
    "names the figures.";

namespace {

bool looks_like_a_path(std::string_view text) {
  return text.ends_with(".json") || text.ends_with(".onnx") || text.find('/') != std::string_view::npos;
}

// Where ".txt" ends the name of a profile's file, or npos.
std::size_t end_of_profile(std::string_view text) {
  const std::size_t dot = text.rfind(".txt");
  if (dot == std::string_view::npos) return dot;
  const std::size_t end = dot + 4;
  return end == text.size() || text[end] == ':' ? end : std::string_view::npos;
}

struct OtherFormat {
  std::string_view ending, name;
};

// Files that hold models for other programs.
constexpr std::array kOtherFormats{OtherFormat{".pt", "files of PyTorch"},
                                   OtherFormat{".pth", "files of PyTorch"},
                                   OtherFormat{".bin", "files of PyTorch"},
                                   OtherFormat{".safetensors", "safetensors files"},
                                   OtherFormat{".gguf", "GGUF files"},
                                   OtherFormat{".h5", "files of Keras"},
                                   OtherFormat{".keras", "files of Keras"},
                                   OtherFormat{".pb", "files of TensorFlow"},
                                   OtherFormat{".tflite", "files of TensorFlow"},
                                   OtherFormat{".mlir", "MLIR files"},
                                   OtherFormat{".py", "Python programs"},
                                   OtherFormat{".yaml", "YAML files"},
                                   OtherFormat{".yml", "YAML files"}};

void refuse_other_formats(const std::string& text) {
  const std::string file = text.substr(0, text.find(':'));
  for (const OtherFormat& format : kOtherFormats) {
    if (file.ends_with(format.ending))
      throw InputError(fmt::format(
          "{}: {} can't be read; a model is a NAME that \"pipesim models\" lists, a model file FILE.json "
          "(\"pipesim models NAME --json\" prints one to start from), FILE.onnx, or a measured profile "
          "FILE.txt",
          file, format.name));
  }
}

// Where the name of a model file ends: at ".json" or ".onnx", or where there is a file.
std::size_t end_of_model_file(const std::string& text) {
  refuse_other_formats(text);
  for (const std::string_view ending : {".json", ".onnx"}) {
    for (std::size_t at = text.rfind(ending); at != std::string::npos && at > 0;
         at = text.rfind(ending, at - 1)) {
      const std::size_t end = at + ending.size();
      if (end == text.size() || text[end] == ':') return end;
    }
  }
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return text.size();
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos && std::filesystem::is_regular_file(text.substr(0, colon), ignored))
    return colon;
  return looks_like_a_path(text) ? text.size() : std::string::npos;
}

// What stands behind a model's name: "key=value" in order.
using Assignments = std::vector<std::pair<std::string, std::string>>;

Assignments assignments_of(std::string_view text) {
  Assignments list;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::size_t equals = std::min(one.find('='), one.size());
    list.emplace_back(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return list;
}

// `model` with the value of one of its keys.
std::string assigned(const std::string& model, std::size_t end_of_name, const std::string& key,
                     std::int64_t value) {
  Assignments list;
  if (end_of_name < model.size()) list = assignments_of(std::string_view(model).substr(end_of_name + 1));
  const auto known = std::ranges::find(list, key, &Assignments::value_type::first);
  if (known == list.end()) {
    list.emplace_back(key, std::to_string(value));
  } else {
    known->second = std::to_string(value);
  }
  std::string text = model.substr(0, end_of_name);
  for (std::size_t i = 0; i < list.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? ':' : ',', list[i].first, list[i].second);
  return text;
}

constexpr std::int64_t kLargestBatch = 1 << 20;

// Samples of a profile: to be run, and that were measured.
struct ProfileBatches {
  std::int64_t run = 0, measured = 0;
};

ProfileBatches batches_of_profile(const std::string& text, std::size_t end_of_name) {
  constexpr std::int64_t kUsual = 64;
  ProfileBatches batches;
  if (end_of_name < text.size()) {
    for (const auto& [key, value] : assignments_of(std::string_view(text).substr(end_of_name + 1))) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool known = key == "batch" || key == "profile-batch";
      if (!known || error != std::errc{} || end != value.data() + value.size() || number < 1 ||
          number > kLargestBatch) {
        throw InputError(fmt::format(
            "profile \"{}\": found \"{}\" after the file, allowed :batch=N,profile-batch=N, N from "
            "1 to {}",
            text, text.substr(end_of_name), kLargestBatch));
      }
      (key == "batch" ? batches.run : batches.measured) = number;
    }
  }
  if (batches.run == 0) batches.run = batches.measured == 0 ? kUsual : batches.measured;
  if (batches.measured == 0) batches.measured = batches.run;
  return batches;
}

// What `text` says of the sizes of the model file before it.
std::vector<NamedSize> sizes_after(const std::string& text, std::size_t end_of_name) {
  std::vector<NamedSize> sizes;
  if (end_of_name == text.size()) return sizes;
  const Assignments list = assignments_of(std::string_view(text).substr(end_of_name + 1));
  if (list.empty()) throw InputError(fmt::format("model \"{}\": expected size=N after the colon", text));
  for (const auto& [key, value] : list) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (key.empty() || error != std::errc() || end != value.data() + value.size() || number < 1 ||
        number > kLargestSize)
      throw InputError(
          fmt::format("model \"{}\": found \"{}={}\" after the file, allowed: size=N, N from 1 to {}", text,
                      key, value, kLargestSize));
    if (std::ranges::find(sizes, key, &NamedSize::name) != sizes.end())
      throw InputError(fmt::format("model \"{}\": {} is given twice", text, key));
    sizes.push_back({key, number});
  }
  return sizes;
}

// Where the name of any model ends, and what is assigned behind it begins.
std::size_t end_of_model_name(const std::string& text) {
  if (!names_zoo_model(text)) {
    if (const std::size_t end = end_of_profile(text); end != std::string::npos) return end;
    if (const std::size_t end = end_of_model_file(text); end != std::string::npos) return end;
  }
  return std::min(text.find(':'), text.size());
}

// Its samples are a number in its file: says how to name them.
[[noreturn]] void refuse_batch(const std::string& model, const ModelFileSizes& own, std::int64_t batch) {
  if (is_onnx_file(*model_file(model))) {
    throw InputError(
        fmt::format("model \"{}\" has a batch of {} in its file, found {}; to choose it, give dimension 0 of "
                    "its inputs a name "
                    "when the file is written (dynamic_axes of torch.onnx.export)",
                    model, own.samples, batch));
  }
  const auto taken = [&](const char* name) {
    return std::ranges::find(own.sizes, name, &NamedSize::name) != own.sizes.end();
  };
  const std::string name = !taken("b") ? "b" : !taken("batch") ? "batch" : "samples";
  std::vector<std::string> inputs;
  const OperatorGraph graph = open_model(model);
  for (const Tensor& t : graph.tensors()) {
    if (t.kind == TensorKind::Data && !t.shape.empty() && t.shape.front() == own.samples)
      inputs.push_back(fmt::format("\"{}\"", t.name));
  }
  throw InputError(fmt::format(
      "model \"{}\" has a batch of {} in its file, found {}; to choose it, name it there: \"sizes\": "
      "{{{}\"{}\": "
      "{}}}, \"batch\": \"{}\", and \"{}\" instead of {} in the shapes{} and wherever else it counts samples",
      model, own.samples, batch, own.sizes.empty() ? "" : "…, ", name, own.samples, name, name, own.samples,
      inputs.empty() ? "" : " of " + list_names(inputs, 4)));
}

[[noreturn]] void refuse_name(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  std::vector<std::string> names;
  for (const ZooModel& model : zoo_models()) names.push_back(model.name);
  const std::string nearest = did_you_mean(name, names);
  // A name that resembles none gets the list of all.
  throw InputError(fmt::format(
      "unknown model \"{}\"{}; allowed: {}, each also as NAME:key=value,…, or a .json, .onnx or .txt file",
      name, nearest,
      nearest.empty() ? list_names(names, names.size()) : "the names that \"pipesim models\" lists"));
}

}  // namespace

OperatorGraph open_model(const std::string& text) {
  if (names_zoo_model(text)) return make_zoo_model(text);
  if (const std::size_t end = end_of_profile(text); end != std::string::npos) {
    const std::string file = text.substr(0, end);
    const ProfileBatches batches = batches_of_profile(text, end);
    return import_profile(read_file(file), file, batches.measured, batches.run);
  }
  if (const std::size_t end = end_of_model_file(text); end != std::string::npos) {
    const std::string file = text.substr(0, end);
    return is_onnx_file(file) ? load_onnx(file, sizes_after(text, end)).graph
                              : load_model(file, sizes_after(text, end));
  }
  refuse_name(text);
}

bool is_onnx_file(const std::string& file) { return file.ends_with(".onnx"); }

OnnxModel open_onnx(const std::string& text) {
  const std::string file = *model_file(text);
  return load_onnx(file, sizes_after(text, file.size()));
}

ModelFileSizes model_file_sizes(const std::string& file) {
  if (!is_onnx_file(file)) return load_model_sizes(file);
  const OnnxSizes own = load_onnx_sizes(file);
  ModelFileSizes sizes{{}, own.batch, own.samples};
  for (const std::string& name : own.names) sizes.sizes.push_back({name, 0});
  return sizes;
}

std::optional<std::string> model_file(const std::string& model) {
  if (names_zoo_model(model) || end_of_profile(model) != std::string::npos) return std::nullopt;
  const std::size_t end = end_of_model_file(model);
  return end == std::string::npos ? std::nullopt : std::optional(model.substr(0, end));
}

std::string batch_key(const std::string& model) {
  const auto file = model_file(model);
  return file ? model_file_sizes(*file).batch : "batch";
}

std::string with_settings(const std::string& model, const std::vector<std::string>& settings) {
  const std::size_t end = end_of_model_name(model);
  const Assignments own =
      assignments_of(end < model.size() ? std::string_view(model).substr(end + 1) : std::string_view());
  Assignments added;
  for (const std::string& setting : settings) {
    const Assignments list = assignments_of(setting);
    if (list.empty()) throw UsageError("--set needs KEY=VALUE, not \"\"");
    for (const auto& [key, value] : list) {
      if (key.empty() || value.empty())
        throw UsageError(fmt::format("--set needs KEY=VALUE, not \"{}\"", setting));
      const auto told = std::ranges::find(own, key, &Assignments::value_type::first);
      if (told != own.end() && told->second != value)
        throw UsageError(fmt::format("--set {}={}: model \"{}\" says {}={}; leave one of them out", key,
                                     value, model, key, told->second));
      const auto before = std::ranges::find(added, key, &Assignments::value_type::first);
      if (before != added.end() && before->second != value)
        throw UsageError(fmt::format("--set says {}={} and {}={}; leave one of them out", key, before->second,
                                     key, value));
      if (told == own.end() && before == added.end()) added.emplace_back(key, value);
    }
  }
  std::string text = model;
  for (const auto& [key, value] : added)
    text += fmt::format("{}{}={}", text.size() == end ? ':' : ',', key, value);
  return text;
}

namespace {

// The config.json of a model of Hugging Face that the text names. Those of quantized models list all weights,
// which takes a megabyte or more; larger files are models of another kind.
std::optional<JsonValue> config_in(const std::string& text) {
  constexpr std::uintmax_t kLargest = 16'000'000;
  const std::optional<std::string> file = model_file(text);
  std::error_code ignored;
  if (!file || is_onnx_file(*file) || !std::filesystem::is_regular_file(*file, ignored) ||
      std::filesystem::file_size(*file, ignored) > kLargest)
    return std::nullopt;
  JsonValue json = JsonDocument::load(*file);
  const bool other = !json.is_object() || json.find("operators") || json.find("pipesim_model");
  if (!other && (json.find("architectures") || json.find("hidden_size")) && !json.find("model_type"))
    json.fail("\"model_type\" is missing, which says the family of a config.json");
  return is_hugging_face_config(json) ? std::optional(std::move(json)) : std::nullopt;
}

}  // namespace

std::vector<std::string> left_out_of_config(const std::string& text) {
  const std::optional<JsonValue> config = config_in(text);
  if (!config) return {};
  HuggingFaceModel model = hugging_face_model(*config);
  const std::size_t end = model_file(text)->size();
  if (end == text.size()) return model.left_out;
  for (const auto& [key, value] : assignments_of(std::string_view(text).substr(end + 1))) {
    for (const auto& [option, note] : model.overruled) {
      if (option == key) std::erase(model.left_out, note);
    }
  }
  return model.left_out;
}

std::string model_of_config(const std::string& text) {
  const std::optional<JsonValue> config = config_in(text);
  if (!config) return text;
  const std::string file = *model_file(text);
  std::string model = hugging_face_model(*config).text;
  const std::size_t end = model.find(':');
  Assignments all = assignments_of(std::string_view(model).substr(end + 1));
  if (file.size() < text.size()) {
    for (const auto& [key, value] : assignments_of(std::string_view(text).substr(file.size() + 1))) {
      const auto at = std::ranges::find(all, key, &Assignments::value_type::first);
      if (at == all.end()) {
        all.emplace_back(key, value);
      } else {
        at->second = value;
      }
    }
  }
  model.resize(end);
  for (const auto& [key, value] : all)
    model += fmt::format("{}{}={}", model.size() == end ? ':' : ',', key, value);
  return model;
}

std::string with_batch(const std::string& model, std::int64_t batch) {
  if (batch < 1 || batch > kLargestBatch)
    throw InputError(fmt::format("found a batch of {}, allowed: 1 to {}", batch, kLargestBatch));
  if (const std::size_t end = end_of_profile(model); end != std::string::npos) {
    const std::string measured = with_profile_batch(model, batches_of_profile(model, end).measured);
    return assigned(measured, end, "batch", batch);
  }
  if (names_zoo_model(model)) return assigned(model, std::min(model.find(':'), model.size()), "batch", batch);
  const std::size_t end = end_of_model_file(model);
  if (end == std::string::npos) refuse_name(model);
  const ModelFileSizes own = model_file_sizes(model.substr(0, end));
  if (!own.batch.empty()) return assigned(model, end, own.batch, batch);
  if (own.samples != batch) refuse_batch(model, own, batch);
  return model;
}

std::string with_zigzag(const std::string& model, const OperatorGraph& graph, std::int64_t parts) {
  const std::size_t end = std::min(model.find(':'), model.size());
  const auto named = std::ranges::find(zoo_models(), model.substr(0, end), &ZooModel::name);
  if (parts == 1 || named == zoo_models().end() ||
      std::ranges::find(named->options, "zigzag", &ZooOption::key) == named->options.end() ||
      model.find("zigzag=") != std::string::npos)
    return model;
  // Scans, and attention to selected keys, know no other order of positions than the natural one.
  constexpr std::array<std::string_view, 5> kInOrder{"state_space_scan", "selective_scan", "gated_delta_rule",
                                                     "causal_convolution", "selected_attention"};
  for (const Operator& op : graph.operators()) {
    if (std::ranges::find(kInOrder, op.kind) != kInOrder.end()) return model;
    if (op.causal && op.factors[static_cast<std::size_t>(op.causal->first)].size % (2 * parts) != 0)
      return model;
  }
  return assigned(model, end, "zigzag", parts);
}

std::string with_token_groups(const std::string& model, std::int64_t groups) {
  const std::size_t end = std::min(model.find(':'), model.size());
  const auto named = std::ranges::find(zoo_models(), model.substr(0, end), &ZooModel::name);
  if (groups == 0 || named == zoo_models().end() ||
      std::ranges::find(named->options, "token_groups", &ZooOption::key) == named->options.end() ||
      (groups == 1 && model.find("token_groups=") == std::string::npos))
    return model;
  const ZooValues values(named->name, named->options, end < model.size() ? model.substr(end + 1) : "");
  if (values.integer("experts") == 1) return model;
  return assigned(model, end, "token_groups", groups);
}

std::string with_shape(const std::string& model, const OperatorGraph& graph, const ModelShape& shape) {
  return with_batch(
      with_token_groups(with_zigzag(model, graph, shape.sequence.parts), shape.sequence.token_groups),
      shape.batch);
}

std::string with_profile_batch(const std::string& model, std::int64_t batch) {
  const std::size_t end = end_of_profile(model);
  if (end == std::string::npos)
    throw InputError(
        fmt::format("model \"{}\" is no profile (FILE.txt), so it has no batch that was profiled", model));
  return assigned(model, end, "profile-batch", batch);
}

std::string profile_note(const std::string& model) {
  const std::size_t end = end_of_profile(model);
  if (names_zoo_model(model) || end == std::string::npos ||
      model.find("profile-batch=", end) != std::string::npos)
    return "";
  return fmt::format(
      "{} does not tell with how many samples it was measured: {} were taken (--profile-batch)",
      model.substr(0, end), batches_of_profile(model, end).measured);
}

Topology open_topology(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::exists(text, ignored) ? load_topology(text) : make_topology(text);
}

void require_recompute(const OperatorGraph& graph, const Recompute& recompute, bool with_stages) {
  if (with_stages && recompute.kind == Recompute::Kind::Stage) return;
  if (const auto reason = illegal(graph, recompute, {}))
    throw InputError(fmt::format("--recompute {}: {}", in_words(recompute), *reason));
}

void require_imbalance(const OperatorGraph& graph, const Imbalance& imbalance) {
  if (const auto reason = illegal(graph, imbalance))
    throw InputError(fmt::format("--imbalance {}: {}", imbalance.str(), *reason));
}

std::optional<MissingRoom> missing_room(const OperatorGraph& graph, const Topology& topology,
                                        const PlanOptions& options) {
  Bytes needed;
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    const Tensor& t = graph.tensors()[i];
    if (t.kind != TensorKind::Weight) continue;
    if (t.frozen) {
      needed += t.bytes();
      continue;
    }
    const WeightShape shape = shape_of_weight(graph, TensorId(i), options.state_sharding.kept_type(t.type));
    const WeightMemory m =
        CostModel::weight_memory(t.elements(), shape, options.gradient_type, options.optimizer);
    needed += m.weights + m.gradients + m.optimizer_state;
  }
  const Bytes available = topology.usable_memory();
  if (needed <= available) return std::nullopt;
  const double enough = std::ceil(needed / available * static_cast<double>(topology.num_devices()));
  return MissingRoom{
      static_cast<std::int64_t>(enough),
      fmt::format(
          "weights, gradients and {} state need {}, all {} devices together have {}{}; {} are missing",
          options.optimizer.str(), pretty(needed), topology.num_devices(), pretty(available),
          topology.memory_margin().is_none() ? "" : " beside the margin", pretty(needed - available))};
}

void require_room(const OperatorGraph& graph, const Topology& topology, const PlanOptions& options) {
  if (const auto missing = missing_room(graph, topology, options))
    throw InputError(
        fmt::format("model \"{}\" is too large for topology \"{}\": {}: it takes {} or more such devices",
                    graph.name(), topology.name(), missing->text, missing->devices));
}

}  // namespace pipesim
