#include "costmodel/training/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/errors.h"
#include "sim/base/suggest.h"

namespace pipesim {
namespace {

using Kind = Optimizer::Kind;
using Main = Optimizer::Main;

constexpr std::array kMomentTypes{DataType::Float32, DataType::BFloat16, DataType::Float16, DataType::Float8};

struct MainName {
  Main main;
  std::string_view name;
};
constexpr std::array<MainName, 5> kMains{{{Main::Float32, "float32"},
                                          {Main::Float16, "float16"},
                                          {Main::BFloat16, "bfloat16"},
                                          {Main::Remainder, "remainder"},
                                          {Main::None, "none"}}};

std::string_view name_of(Main main) { return std::ranges::find(kMains, main, &MainName::main)->name; }

const OptimizerKind& row_of(Kind kind) {
  return *std::ranges::find(optimizer_kinds(), kind, &OptimizerKind::kind);
}

bool has_first(Kind kind) { return kind != Kind::Sgd; }
bool has_second(Kind kind) { return kind == Kind::Adam || kind == Kind::Adafactor || kind == Kind::Muon; }
bool has_types(Kind kind) { return has_first(kind) && kind != Kind::Adam8bit; }

DataType parse_moment(std::string_view text, std::string_view name) {
  std::vector<std::string> names;
  for (const DataType type : kMomentTypes) {
    if (name_of(type) == name) return type;
    names.emplace_back(name_of(type));
  }
  throw InputError(
      fmt::format("optimizer \"{}\": moments of type \"{}\", allowed: {}", text, name, list_names(names)));
}

void read_moments(std::string_view text, std::string_view value, Optimizer& optimizer) {
  const std::string_view kind = row_of(optimizer.kind).name;
  if (optimizer.kind == Kind::Adam8bit)
    throw InputError(fmt::format("optimizer \"{}\": {} keeps its moments in 8 bits", text, kind));
  if (!has_first(optimizer.kind))
    throw InputError(fmt::format("optimizer \"{}\": {} has no moments", text, kind));
  const std::size_t plus = value.find('+');
  optimizer.first = parse_moment(text, value.substr(0, plus));
  optimizer.second = optimizer.first;
  if (plus == std::string_view::npos) return;
  if (optimizer.kind != Kind::Adam)
    throw InputError(fmt::format("optimizer \"{}\": only adam has two moments of types of their own", text));
  optimizer.second = parse_moment(text, value.substr(plus + 1));
}

void read_main(std::string_view text, std::string_view value, Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const MainName& m : kMains) {
    if (m.name == value) {
      optimizer.main = m.main;
      return;
    }
    names.emplace_back(m.name);
  }
  throw InputError(
      fmt::format("optimizer \"{}\": main weights \"{}\", allowed: {}", text, value, list_names(names)));
}

// A wider weight has moments as wide as itself.
std::int64_t moment_bytes(DataType moment, DataType weight) {
  const std::int64_t own = moment == DataType::Float32 ? bytes_per_element(weight) : 0;
  return std::max(bytes_per_element(moment), own);
}

// Bytes of moments per element.
double moments_bytes(const WeightShape& shape, const Optimizer& optimizer) {
  const auto first = static_cast<double>(moment_bytes(optimizer.first, shape.type)),
             second = static_cast<double>(moment_bytes(optimizer.second, shape.type));
  switch (optimizer.kind) {
    case Kind::Sgd:
      return 0;
    case Kind::Momentum:
    case Kind::Lion:
      return first;
    case Kind::Adam:
      return first + second;
    case Kind::Adam8bit: {
      constexpr double block = 256, scale = 4;
      return 2 * (1 + scale / block);
    }
    case Kind::Adafactor:
      if (shape.rows == 0) return second;
      return second * (1 / static_cast<double>(shape.rows) + 1 / static_cast<double>(shape.columns));
    case Kind::Muon:
      return shape.in_layer ? first : first + second;
  }
  throw InternalError("optimizer of unknown kind");
}

}  // namespace

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds{
      {Kind::Sgd, "sgd", "no state"},
      {Kind::Momentum, "momentum", "one moment"},
      {Kind::Adam, "adam", "two moments"},
      {Kind::Adam8bit, "adam8bit", "two moments of a byte, with a scale for each 256"},
      {Kind::Adafactor, "adafactor", "a mean square for each row and column of a matrix"},
      {Kind::Lion, "lion", "one moment"},
      {Kind::Muon, "muon", "one moment of a layer's matrix, whose step is made orthogonal; else as adam"}};
  return kinds;
}

std::string Optimizer::str() const {
  std::string text(row_of(kind).name);
  if (has_types(kind)) {
    if (first != second && has_second(kind))
      text += fmt::format(",moments={}+{}", name_of(first), name_of(second));
    else if (first != DataType::Float32)
      text += fmt::format(",moments={}", name_of(first));
  }
  if (main != Main::Float32) text += fmt::format(",main={}", name_of(main));
  return text;
}

Optimizer parse_optimizer(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(','));
  const auto known = std::ranges::find(optimizer_kinds(), name, &OptimizerKind::name);
  if (known == optimizer_kinds().end()) {
    std::vector<std::string> names;
    for (const OptimizerKind& k : optimizer_kinds()) names.emplace_back(k.name);
    throw InputError("unknown optimizer \"" + std::string(name) + "\": allowed are " + list_names(names) +
                     did_you_mean(name, names));
  }
  Optimizer optimizer(known->kind);
  std::string_view left = text.substr(name.size());
  std::vector<std::string_view> seen;
  while (!left.empty()) {
    left.remove_prefix(1);  // the comma
    const std::string_view part = left.substr(0, left.find(','));
    const std::string_view part_name = part.substr(0, part.find('=')),
                           value = part.substr(std::min(part.size(), part_name.size() + 1));
    if (std::ranges::find(seen, part_name) != seen.end())
      throw InputError(fmt::format("optimizer \"{}\": {} stands there twice", text, part_name));
    seen.push_back(part_name);
    if (part_name == "moments") {
      read_moments(text, value, optimizer);
    } else if (part_name == "main") {
      read_main(text, value, optimizer);
    } else {
      throw InputError(
          fmt::format("optimizer \"{}\": unknown part \"{}\", allowed: moments=TYPE, main=WHAT", text, part));
    }
    left.remove_prefix(part.size());
  }
  return optimizer;
}

std::optional<DataType> main_type(DataType weight, const Optimizer& optimizer) {
  if (bytes_per_element(weight) >= 4) return std::nullopt;
  switch (optimizer.main) {
    case Main::Float32:
      return DataType::Float32;
    case Main::Float16:
      return DataType::Float16;
    case Main::BFloat16:
      return DataType::BFloat16;
    case Main::Remainder:
      return keeps_remainder(weight, optimizer) ? DataType::BFloat16 : DataType::Float32;
    case Main::None:
      return std::nullopt;
  }
  throw InternalError("main weights of unknown kind");
}

bool keeps_remainder(DataType weight, const Optimizer& optimizer) {
  return optimizer.main == Main::Remainder && weight == DataType::BFloat16;
}

int num_moments(const Optimizer& optimizer) {
  switch (optimizer.kind) {
    case Kind::Sgd:
    case Kind::Adafactor:
      return 0;
    case Kind::Momentum:
    case Kind::Lion:
    case Kind::Muon:
      return 1;
    case Kind::Adam:
    case Kind::Adam8bit:
      return 2;
  }
  throw InternalError("optimizer of unknown kind");
}

bool knows_shapes(const Optimizer& optimizer) {
  return optimizer.kind == Kind::Adafactor || optimizer.kind == Kind::Muon;
}

std::int64_t second_moment_bytes(const WeightShape& shape, const Optimizer& optimizer) {
  const bool has = has_second(optimizer.kind) && !(optimizer.kind == Kind::Muon && shape.in_layer);
  return has ? moment_bytes(optimizer.second, shape.type) : 0;
}

Bytes state_bytes(std::int64_t elements, const WeightShape& shape, const Optimizer& optimizer) {
  const auto main = main_type(shape.type, optimizer);
  const double each =
      moments_bytes(shape, optimizer) + (main ? static_cast<double>(bytes_per_element(*main)) : 0);
  return Bytes(static_cast<std::int64_t>(static_cast<double>(elements) * each));
}

}  // namespace pipesim
