#include "search/intra/files/read_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using IntraJson = nlohmann::json;

// Alpa's costs have two decimals, and errors of rounding behind them.
constexpr double kPartsOfAlpasCost = 1e6;
// Sums of usages of all nodes stay in 64 bits.
constexpr std::int64_t kLargestUsage = std::int64_t{1} << 53;
constexpr std::size_t kDeepest = 16;
constexpr std::int64_t kNoUsageLimit = -1;

enum class Section : std::uint8_t {
  None,
  Intervals,
  Costs,
  Usages,
  EdgeNodes,
  EdgeCosts,
  Limit,
  AlpaNodes,
  AlpaEdges,
  AlpaForbid,
  Strategies
};

struct NamedSection {
  const char* path;
  Section section;
};
constexpr NamedSection kSections[] = {
    {"/problem/nodes/intervals", Section::Intervals},
    {"/problem/nodes/costs", Section::Costs},
    {"/problem/nodes/usages", Section::Usages},
    {"/problem/edges/nodes", Section::EdgeNodes},
    {"/problem/edges/costs", Section::EdgeCosts},
    {"/problem/usage_limit", Section::Limit},
    {"/node_cost", Section::AlpaNodes},
    {"/edges", Section::AlpaEdges},
    {"/forbid", Section::AlpaForbid},
    {"/strategies", Section::Strategies},
};

// Passes rows of numbers on, one at a time.
class RowReader : public nlohmann::json_sax<IntraJson> {
 public:
  explicit RowReader(std::string file) : file_(std::move(file)) {}
  ~RowReader() override = default;

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool string(string_t& value) override { return other("\"" + value.substr(0, 40) + "\""); }
  bool binary(binary_t&) override { return other("bytes"); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), value, true);
  }
  bool number_unsigned(number_unsigned_t value) override {
    const auto most = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return number(static_cast<double>(value), static_cast<std::int64_t>(std::min(value, most)), true);
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    const bool whole = std::isfinite(value) && std::floor(value) == value;
    constexpr double kMost = 9e18;
    return number(value, static_cast<std::int64_t>(std::clamp(std::isnan(value) ? 0 : value, -kMost, kMost)),
                  whole);
  }
  bool start_object(std::size_t /*size*/) override {
    if (section() != Section::None) other("an object");
    return push(true);
  }
  bool key(string_t& value) override {
    levels_.back().key = value.substr(0, 40);
    levels_.back().section = named_section();
    if (levels_.back().section != Section::None) seen_.push_back(levels_.back().section);
    return true;
  }
  bool end_object() override { return pop(); }
  bool start_array(std::size_t /*size*/) override {
    if (levels_.empty()) {
      push(false);
      levels_.back().section = Section::Strategies;
      return true;
    }
    const Section inside = section();
    push(false);
    levels_.back().section = inside;
    if (inside != Section::None) begin_row();
    return true;
  }
  bool end_array() override {
    if (section() != Section::None) end_row();
    return pop();
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const std::string what = error.what();
    const std::size_t at = what.find(": ");
    throw InputError(fmt::format("{}: byte {}: {}, allowed: JSON of an instance", file_, position,
                                 what.substr(at == std::string::npos ? 0 : at + 2, 200)));
  }

 protected:
  virtual void begin_row() = 0;
  virtual void end_row() = 0;
  virtual void take(double value, std::int64_t integer, bool whole) = 0;

  struct Level {
    bool object = false;
    std::string key;        // of an object: the member
    std::size_t index = 0;  // of an array: the item
    Section section = Section::None;
  };

  [[nodiscard]] Section section() const { return levels_.empty() ? Section::None : levels_.back().section; }
  // 0: in the member itself; 1: in its list; 2: in a row of the list.
  [[nodiscard]] std::size_t depth() const {
    std::size_t arrays = 0;
    for (auto level = levels_.rbegin(); level != levels_.rend() && !level->object; ++level) ++arrays;
    return arrays;
  }
  [[nodiscard]] std::size_t item(std::size_t above = 0) const {
    return levels_[levels_.size() - 1 - above].index;
  }
  [[nodiscard]] bool has(Section section) const { return std::ranges::find(seen_, section) != seen_.end(); }
  [[nodiscard]] std::string pointer() const {
    std::string text;
    for (const Level& level : levels_) text += "/" + (level.object ? level.key : std::to_string(level.index));
    return text;
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_at(pointer(), what); }
  [[noreturn]] void refuse_at(const std::string& place, const std::string& what) const {
    throw InputError(fmt::format("{}: {}: {}", file_, place.empty() ? "/" : place, what));
  }

 private:
  [[nodiscard]] Section named_section() const {
    if (std::ranges::any_of(levels_, [](const Level& level) { return !level.object; })) return Section::None;
    const std::string path = pointer();
    for (const NamedSection& named : kSections) {
      if (path == named.path) return named.section;
    }
    return Section::None;
  }
  bool other(const std::string& what) {
    if (section() != Section::None) refuse(fmt::format("found {}, allowed: numbers", what));
    return step();
  }
  bool number(double value, std::int64_t integer, bool whole) {
    if (section() != Section::None) take(value, integer, whole);
    return step();
  }
  bool step() {
    if (!levels_.empty() && !levels_.back().object) ++levels_.back().index;
    return true;
  }
  bool push(bool object) {
    if (levels_.size() == kDeepest) refuse(fmt::format("nested deeper than {} levels", kDeepest));
    levels_.push_back({object, {}, 0, Section::None});
    return true;
  }
  bool pop() {
    levels_.pop_back();
    return step();
  }

  std::string file_;
  std::vector<Level> levels_;
  std::vector<Section> seen_;
};

class InstanceReader : public RowReader {
 public:
  using RowReader::RowReader;

  IntraInstance finish() {
    if (has(Section::AlpaNodes)) return finish_alpa();
    for (const Section part : {Section::Intervals, Section::Costs, Section::Usages, Section::EdgeNodes,
                               Section::EdgeCosts, Section::Limit}) {
      if (has(part)) continue;
      const auto* named = std::ranges::find(kSections, part, &NamedSection::section);
      refuse_at(named->path, "is missing, allowed: an instance of the contest, or one that Alpa merged");
    }
    if (limit_ == kNoUsageLimit) refuse_at("/problem/usage_limit", "found a list, allowed: a number");
    const std::size_t nodes = costs_.size();
    for (const auto& [name, size] : {std::pair{"intervals", intervals_.size()}, {"usages", usages_.size()}}) {
      if (size != nodes)
        refuse_at(fmt::format("/problem/nodes/{}", name),
                  fmt::format("found {} nodes, allowed: {}, as in costs", size, nodes));
    }
    if (ends_.size() != tables_.size())
      refuse_at("/problem/edges/costs",
                fmt::format("found {} edges, allowed: {}, as in nodes", tables_.size(), ends_.size()));
    IntraInstance instance;
    instance.limit = limit_;
    for (std::size_t i = 0; i < nodes; ++i) {
      if (usages_[i].size() != costs_[i].size())
        refuse_at(fmt::format("/problem/nodes/usages/{}", i),
                  fmt::format("found {} usages, allowed: {}, as many as costs", usages_[i].size(),
                              costs_[i].size()));
      instance.nodes.push_back(
          {intervals_[i].first, intervals_[i].second, std::move(costs_[i]), std::move(usages_[i])});
    }
    for (std::size_t e = 0; e < ends_.size(); ++e)
      add_edge(instance, "/problem/edges/nodes", "/problem/edges/costs", e, ends_[e], std::move(tables_[e]));
    return instance;
  }

 protected:
  void begin_row() override {
    const bool alpa = section() == Section::AlpaEdges || section() == Section::AlpaForbid;
    const std::size_t deepest = section() == Section::Limit ? 0 : alpa ? 3 : 2;
    if (depth() > deepest) refuse("found a list, allowed: numbers");
    if (depth() == 2) row_.clear(), pair_.clear();
  }

  void take(double value, std::int64_t integer, bool whole) override {
    const bool alpa = section() == Section::AlpaEdges || section() == Section::AlpaForbid;
    if (section() == Section::Limit ? depth() != 0 : depth() < 2) refuse("found a number, allowed: a list");
    if (alpa && depth() == 2) return pair_.push_back(whole_number(value, integer, whole, kLargestIndex));
    switch (section()) {
      case Section::Limit:
        limit_ = whole_number(value, integer, whole, kLargestUsage);
        return;
      case Section::Intervals:
      case Section::Usages:
      case Section::EdgeNodes:
        return row_.push_back(whole_number(value, integer, whole, kLargestUsage));
      case Section::AlpaNodes:
      case Section::AlpaEdges:
        value = std::round(value * kPartsOfAlpasCost);
        if (!(value > -static_cast<double>(kForbidden)))
          refuse(fmt::format("found {}, allowed: more than -10^12", value / kPartsOfAlpasCost));
        return row_.push_back(value < static_cast<double>(kForbidden) ? static_cast<std::int64_t>(value)
                                                                      : kForbidden);
      default:
        if (value >= static_cast<double>(kForbidden)) return row_.push_back(kForbidden);
        return row_.push_back(whole_number(value, integer, whole, kForbidden, 1 - kForbidden));
    }
  }

  void end_row() override {
    if (depth() != 2) return;
    row_.shrink_to_fit();
    switch (section()) {
      case Section::Intervals:
        if (row_.size() != 2 || row_[0] > row_[1])
          refuse_row("two times, the first no later than the second");
        intervals_.emplace_back(row_[0], row_[1]);
        break;
      case Section::Costs:
      case Section::AlpaNodes:
        if (row_.empty()) refuse_row("the costs of at least one strategy");
        costs_.push_back(std::move(row_));
        break;
      case Section::Usages:
        usages_.push_back(std::move(row_));
        break;
      case Section::EdgeNodes:
        if (row_.size() != 2) refuse_row("the numbers of two nodes");
        ends_.emplace_back(row_[0], row_[1]);
        break;
      case Section::EdgeCosts:
        tables_.push_back(std::move(row_));
        break;
      case Section::AlpaEdges:
      case Section::AlpaForbid:
        if (pair_.size() != 2) refuse_row("the numbers of two nodes, and a list of costs");
        if (section() == Section::AlpaEdges) {
          ends_.emplace_back(pair_[0], pair_[1]);
          tables_.push_back(std::move(row_));
        } else {
          forbidden_ends_.emplace_back(pair_[0], pair_[1]);
          for (std::int64_t& cell : row_) cell = cell != 0 ? kForbidden : 0;
          forbidden_.push_back(std::move(row_));
        }
        break;
      default:
        break;
    }
    row_ = {};
  }

 private:
  using Ends = std::pair<std::int64_t, std::int64_t>;
  static constexpr std::int64_t kLargestIndex = (std::int64_t{1} << 31) - 1;

  // The error names this row, not the number that follows it.
  [[noreturn]] void refuse_row(const char* allowed) const {
    const std::string place = pointer();
    refuse_at(place.substr(0, place.rfind('/')),
              fmt::format("found {} numbers{}, allowed: {}", row_.size(),
                          row_.size() == 2 ? fmt::format(" ({}, {})", row_[0], row_[1]) : "", allowed));
  }

  [[nodiscard]] std::int64_t whole_number(double value, std::int64_t integer, bool whole, std::int64_t most,
                                          std::int64_t least = 0) const {
    if (!whole || integer < least || integer > most)
      refuse(fmt::format("found {}, allowed: whole numbers from {} to {}",
                         whole ? fmt::format("{}", integer) : fmt::format("{}", value), least, most));
    return integer;
  }

  void add_edge(IntraInstance& instance, const char* nodes_place, const char* costs_place, std::size_t number,
                const Ends& ends, std::vector<std::int64_t> table) const {
    for (const std::int64_t end : {ends.first, ends.second}) {
      if (static_cast<std::size_t>(end) >= instance.nodes.size())
        refuse_at(fmt::format("{}/{}", nodes_place, number),
                  fmt::format("found node {}, allowed: nodes below {}", end, instance.nodes.size()));
    }
    const auto a = static_cast<std::uint32_t>(ends.first), b = static_cast<std::uint32_t>(ends.second);
    const std::size_t rows = instance.nodes[a].cost.size(), columns = instance.nodes[b].cost.size();
    if (table.size() != rows * columns)
      refuse_at(fmt::format("{}/{}", costs_place, number),
                fmt::format("found {} costs, allowed: {} ({} strategies of node {} times {} of node {})",
                            table.size(), rows * columns, rows, a, columns, b));
    instance.edges.push_back({a, b, std::move(table)});
  }

  IntraInstance finish_alpa() {
    IntraInstance instance;
    instance.unit = 1 / kPartsOfAlpasCost;
    for (std::vector<std::int64_t>& costs : costs_) {
      std::vector<std::int64_t> usages(costs.size(), 0);
      instance.nodes.push_back({0, 0, std::move(costs), std::move(usages)});
    }
    for (std::size_t e = 0; e < ends_.size(); ++e)
      add_edge(instance, "/edges", "/edges", e, ends_[e], std::move(tables_[e]));
    keep_few_decimals(instance);
    for (std::size_t e = 0; e < forbidden_ends_.size(); ++e)
      add_edge(instance, "/forbid", "/forbid", e, forbidden_ends_[e], std::move(forbidden_[e]));
    return instance;
  }

  // Sums of smaller numbers stay exact in the solver.
  static void keep_few_decimals(IntraInstance& instance) {
    const auto each_cost = [&](auto visit) {
      for (IntraInstance::Node& node : instance.nodes) std::ranges::for_each(node.cost, visit);
      for (IntraInstance::Edge& edge : instance.edges) std::ranges::for_each(edge.cost, visit);
    };
    constexpr std::int64_t kTen = 10;
    bool even = true;
    for (auto parts = static_cast<std::int64_t>(kPartsOfAlpasCost); parts > 1;) {
      each_cost([&](const std::int64_t& cost) { even = even && (cost >= kForbidden || cost % kTen == 0); });
      if (!even) return;
      each_cost([](std::int64_t& cost) { cost /= cost < kForbidden ? kTen : 1; });
      parts /= kTen;
      instance.unit = 1 / static_cast<double>(parts);
    }
  }

  std::vector<std::int64_t> row_, pair_;
  std::vector<Ends> intervals_, ends_, forbidden_ends_;
  std::vector<std::vector<std::int64_t>> costs_, usages_, tables_, forbidden_;
  std::int64_t limit_ = kNoUsageLimit;
};

class AnswerReader : public RowReader {
 public:
  AnswerReader(const std::string& file, const IntraInstance& instance)
      : RowReader(file), instance_(instance) {}

  IntraAnswer finish() const {
    if (!has(Section::Strategies) && answer_.empty() && !instance_.nodes.empty())
      refuse_at("/strategies", "is missing, allowed: the strategy of each node");
    if (answer_.size() != instance_.nodes.size())
      refuse_at("/strategies", fmt::format("found {} strategies, allowed: {}, one for each node",
                                           answer_.size(), instance_.nodes.size()));
    return answer_;
  }

 protected:
  void begin_row() override {
    if (section() == Section::Strategies && depth() > 1) refuse("found a list, allowed: numbers");
  }
  void end_row() override {}
  void take(double value, std::int64_t integer, bool whole) override {
    if (section() != Section::Strategies) return;
    if (depth() != 1) refuse("found a number, allowed: a list");
    const std::size_t node = answer_.size();
    if (node == instance_.nodes.size())
      refuse(fmt::format("found more strategies, allowed: {}, one for each node", node));
    const std::size_t strategies = instance_.nodes[node].cost.size();
    if (!whole || integer < 0 || static_cast<std::size_t>(integer) >= strategies)
      refuse(fmt::format("found {}, allowed: whole numbers below {}, the strategies of the node", value,
                         strategies));
    answer_.push_back(static_cast<std::uint32_t>(integer));
  }

 private:
  const IntraInstance& instance_;
  IntraAnswer answer_;
};

}  // namespace

IntraInstance read_instance(std::istream& text, const std::string& file) {
  InstanceReader reader(file);
  IntraJson::sax_parse(text, &reader);
  return reader.finish();
}

IntraAnswer read_answer(std::istream& text, const std::string& file, const IntraInstance& instance) {
  AnswerReader reader(file, instance);
  IntraJson::sax_parse(text, &reader);
  return reader.finish();
}

std::string answer_text(const IntraAnswer& answer, WideCost cost) {
  std::string text = fmt::format("{{\"cost\": \"{}\", \"strategies\": [", to_string(cost));
  for (std::size_t i = 0; i < answer.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", answer[i]);
  return text + "]}\n";
}

}  // namespace pipesim
