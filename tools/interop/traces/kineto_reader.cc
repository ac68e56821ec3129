#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/errors.h"
#include "tools/interop/traces/read_trace.h"

namespace pipesim {
namespace {

// This is a third of what 64 bits hold, so that a start, a duration and the base together stay within them.
constexpr double kMostTracedNanoseconds = 3e18;

// One event of the file, as far as it is of use.
struct KinetoEvent {
  std::string phase, category, name;
  std::optional<Nanoseconds> start, duration;
  std::int64_t process = 0, thread = 0;
  std::optional<std::int64_t> correlation, device, stream;
  std::string collective, group, ranks, type;
  std::int64_t group_size = 0, elements_in = 0, elements_out = 0;
  bool has_shapes = false;
  TracedCall call;
};

std::string key_of_call(const TracedCall& call) {
  std::string key;
  for (const TracedInput& input : call.inputs) {
    key += input.type;
    for (const auto& shape : input.shapes) {
      for (const std::int64_t size : shape) key += ' ' + std::to_string(size);
      key += ';';
    }
    key += '|';
  }
  for (const std::string& value : call.values) key += '=' + value;
  return key;
}

// Makes a trace of events.
class KinetoTrace {
 public:
  explicit KinetoTrace(const std::string& file) : names_(trace_.names) { trace_.file = file; }

  void add(KinetoEvent& event, std::size_t number) {
    if (event.phase != "X") return;
    const std::string& kind = event.category;
    if (kind == "kernel") {
      add_activity(event, number, DeviceWork::Kernel);
    } else if (kind == "gpu_memcpy") {
      add_activity(event, number, DeviceWork::Copy);
    } else if (kind == "gpu_memset") {
      add_activity(event, number, DeviceWork::Fill);
    } else if (kind == "cuda_runtime" || kind == "cuda_driver") {
      if (!event.correlation) return;
      const auto [start, duration] = times_of(event, number);
      trace_.launches.push_back({thread_of(event), -1, start, start + duration, *event.correlation});
    } else if (kind == "cpu_op") {
      const auto [start, duration] = times_of(event, number);
      trace_.operators.push_back(
          {names_.number_of(event.name), call_of(event), thread_of(event), -1, start, start + duration});
    } else if (kind == "user_annotation") {
      const auto [start, duration] = times_of(event, number);
      trace_.ranges.push_back({names_.number_of(event.name), start, start + duration});
    }
  }

  MeasuredTrace& trace() { return trace_; }

 private:
  [[noreturn]] void fail(const KinetoEvent& event, std::size_t number, const std::string& message) const {
    throw InputError(fmt::format("{}: /traceEvents/{} ({} \"{}\"): {}", trace_.file, number, event.category,
                                 event.name.substr(0, 40), message));
  }

  std::pair<Nanoseconds, Nanoseconds> times_of(const KinetoEvent& event, std::size_t number) const {
    if (event.name.empty()) fail(event, number, "\"name\" is missing");
    const auto checked = [&](const char* field, const std::optional<Nanoseconds>& time) {
      if (!time)
        fail(event, number, fmt::format("\"{}\" is missing, allowed: a time in microseconds", field));
      if (*time < 0)
        fail(event, number,
             fmt::format("\"{}\" is {} us, allowed: 0 or more", field, static_cast<double>(*time) / 1000));
      return *time;
    };
    return {checked("ts", event.start), checked("dur", event.duration)};
  }

  void add_activity(const KinetoEvent& event, std::size_t number, DeviceWork work) {
    const auto [start, duration] = times_of(event, number);
    const auto needed = [&](const char* field, const std::optional<std::int64_t>& value) {
      if (!value || *value < 0)
        fail(event, number, fmt::format("\"args\" has no \"{}\", allowed: a number from 0 on", field));
      return *value;
    };
    DeviceActivity activity;
    activity.work = work;
    activity.name = names_.number_of(event.name);
    const std::int64_t device = needed("device", event.device);
    if (device > kMostDevice) fail(event, number, fmt::format("\"device\" is {}", device));
    activity.device = static_cast<std::int32_t>(device);
    activity.stream = needed("stream", event.stream);
    activity.start = start;
    activity.duration = duration;
    activity.correlation = needed("correlation", event.correlation);
    if (!event.collective.empty()) {
      activity.collective = static_cast<std::int32_t>(trace_.collectives.size());
      trace_.collectives.push_back({names_.number_of(event.collective), names_.number_of(event.group),
                                    names_.number_of(event.ranks), event.group_size, event.elements_in,
                                    event.elements_out, names_.number_of(event.type)});
    }
    trace_.activities.push_back(activity);
  }

  std::int32_t thread_of(const KinetoEvent& event) {
    return threads_.try_emplace({event.process, event.thread}, static_cast<std::int32_t>(threads_.size()))
        .first->second;
  }

  std::int32_t call_of(KinetoEvent& event) {
    if (!event.has_shapes) return -1;
    if (event.name.find("attention") == std::string::npos) event.call.values.clear();
    const auto [known, is_new] =
        calls_.try_emplace(key_of_call(event.call), static_cast<std::int32_t>(trace_.calls.size()));
    if (is_new) trace_.calls.push_back(std::move(event.call));
    return known->second;
  }

  static constexpr std::int64_t kMostDevice = 1 << 20;
  MeasuredTrace trace_;
  NameTable names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> threads_;
  std::map<std::string, std::int32_t> calls_;
};

// Hears the file's values one by one. `open_` has a letter for each object or array that is open, by what it
// is: R the file, E the events, e an event, a its arguments, D T V shapes, types and values of an operator's
// arguments (a d t list in them: a second letter), P devices, p one, I what is known of the run, and - what
// is of no use.
class KinetoListener : public nlohmann::json_sax<nlohmann::json> {
 public:
  KinetoListener(const std::string& file, KinetoTrace& trace) : file_(file), trace_(trace) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value), value, std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value), static_cast<std::int64_t>(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    const bool fits = std::abs(value) < kMostTracedNanoseconds;
    return number(value, fits ? static_cast<std::int64_t>(value) : 0, text);
  }

  bool string(string_t& value) override {
    switch (inside()) {
      case 'e':
        if (key_ == "ph") event_.phase = value;
        if (key_ == "cat") event_.category = value;
        if (key_ == "name") event_.name = value;
        break;
      case 'a':
        if (key_ == "Collective name") event_.collective = value;
        if (key_ == "Process Group Name") event_.group = value;
        if (key_ == "Process Group Ranks") event_.ranks = value;
        if (key_ == "dtype") event_.type = value;
        break;
      case 'T':
        input_at(position_++).type = value;
        break;
      case 'V':
        event_.call.values.push_back(value);
        break;
      case 'p':
        if (key_ == "name" && device_ >= 0) {
          auto& names = trace_.trace().device_names;
          if (names.size() <= static_cast<std::size_t>(device_))
            names.resize(static_cast<std::size_t>(device_) + 1);
          names[static_cast<std::size_t>(device_)] = value;
        }
        break;
      default:
        break;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    const char outer = inside();
    char now = '-';
    if (open_.empty()) {
      now = 'R';
    } else if (outer == 'E') {
      now = 'e';
      event_ = KinetoEvent();
    } else if (outer == 'e' && key_ == "args") {
      now = 'a';
    } else if (outer == 'P') {
      now = 'p';
      device_ = -1;
    } else if (outer == 'R' && key_ == "distributedInfo") {
      now = 'I';
    }
    open_ += now;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool end_object() override {
    if (inside() == 'e') trace_.add(event_, number_++);
    open_.pop_back();
    return true;
  }

  bool start_array(std::size_t) override {
    const char outer = inside();
    char now = '-';
    if (open_.empty()) {
      open_ = "-";
      return true;
    }
    if (outer == 'R' && key_ == "traceEvents") now = 'E', has_events_ = true;
    if (outer == 'R' && key_ == "deviceProperties") now = 'P';
    if (outer == 'a' && key_ == "Input Dims") now = 'D', event_.has_shapes = true;
    if (outer == 'a' && key_ == "Input type") now = 'T';
    if (outer == 'a' && key_ == "Concrete Inputs") now = 'V';
    if (now == 'D' || now == 'T' || now == 'V') position_ = 0;
    if (outer == 'D') {  // a tensor, or a list of them
      now = 'd';
      input_at(position_).shapes.assign(1, {});
      lists_ = false;
    } else if (outer == 'd') {
      now = 'l';
      std::vector<std::vector<std::int64_t>>& shapes = input_at(position_).shapes;
      if (!lists_) shapes.clear();
      lists_ = true;
      shapes.emplace_back();
    }
    open_ += now;
    return true;
  }
  bool end_array() override {
    if (inside() == 'd') ++position_;
    if (inside() == '-' && open_.size() > 1 && open_[open_.size() - 2] == 'T') ++position_;
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while …"
    const std::string_view what = error.what();
    const std::size_t line = what.find("at line "), column = what.find(", column "), reason = what.find(": ");
    if (line == what.npos || column == what.npos || reason == what.npos || column < line || reason < column)
      throw InputError(
          fmt::format("{}: byte {}: not valid JSON: {}", file_, position, what.substr(0, kMostReason)));
    const std::size_t line_at = line + 8, column_at = column + 9;
    throw InputError(
        fmt::format("{}:{}:{}: not valid JSON: {}", file_, what.substr(line_at, column - line_at),
                    what.substr(column_at, reason - column_at), what.substr(reason + 2, kMostReason)));
  }

  [[nodiscard]] bool has_events() const { return has_events_; }
  [[nodiscard]] Nanoseconds base() const { return base_; }

 private:
  [[nodiscard]] char inside() const { return open_.empty() ? ' ' : open_.back(); }

  TracedInput& input_at(std::size_t position) {
    if (event_.call.inputs.size() <= position) event_.call.inputs.resize(position + 1);
    return event_.call.inputs[position];
  }

  bool number(double real, std::int64_t integer, const std::string& text) {
    switch (inside()) {
      case 'e':
        if (key_ == "ts") event_.start = nanoseconds(real, text);
        if (key_ == "dur") event_.duration = nanoseconds(real, text);
        if (key_ == "pid") event_.process = integer;
        if (key_ == "tid") event_.thread = integer;
        break;
      case 'a':
        number_of_argument(integer);
        break;
      case 'd':
      case 'l':
        input_at(position_).shapes.back().push_back(integer);
        break;
      case 'p':
        if (key_ == "id" && integer >= 0 && integer < 4096) device_ = integer;
        break;
      case 'I':
        if (key_ == "rank") trace_.trace().rank = integer;
        break;
      case 'R':
        if (key_ == "baseTimeNanoseconds") base_ = integer;
        break;
      default:
        break;
    }
    return true;
  }

  void number_of_argument(std::int64_t value) {
    if (key_ == "correlation") event_.correlation = value;
    if (key_ == "device") event_.device = value;
    if (key_ == "stream") event_.stream = value;
    if (key_ == "Group size") event_.group_size = value;
    if (key_ == "In msg nelems") event_.elements_in = value;
    if (key_ == "Out msg nelems") event_.elements_out = value;
  }

  // Reads microseconds with all three decimals, which a double would lose for times since 1970.
  [[nodiscard]] Nanoseconds nanoseconds(double microseconds, const std::string& text) const {
    if (!(std::abs(microseconds) < kMostTracedNanoseconds / 1e3))
      throw InputError(fmt::format("{}: /traceEvents/{}: \"{}\" is {}, allowed: microseconds below 3e15",
                                   file_, number_, key_, text));
    if (text.find_first_of("eE") != std::string::npos) return std::llround(microseconds * 1e3);
    const std::size_t point = text.find('.');
    const Nanoseconds whole = std::strtoll(text.c_str(), nullptr, 10) * 1000;
    if (point == std::string::npos) return whole;
    const auto part = std::llround(std::strtod(text.c_str() + point, nullptr) * 1e3);
    return text.front() == '-' ? whole - part : whole + part;
  }

  static constexpr std::size_t kMostReason = 120;  // letters: it may have all of a long text
  const std::string& file_;
  KinetoTrace& trace_;
  std::string open_, key_;
  KinetoEvent event_;
  std::size_t number_ = 0, position_ = 0;
  std::int64_t device_ = -1;
  Nanoseconds base_ = 0;
  bool has_events_ = false, lists_ = false;
};

void shift_times(MeasuredTrace& trace, Nanoseconds by) {
  for (TracedOperator& op : trace.operators) op.start += by, op.end += by;
  for (TracedLaunch& launch : trace.launches) launch.start += by, launch.end += by;
  for (DeviceActivity& activity : trace.activities) activity.start += by;
  for (TracedRange& range : trace.ranges) range.start += by, range.end += by;
}

}  // namespace

MeasuredTrace read_kineto(std::istream& text, const std::string& file) {
  KinetoTrace trace(file);
  KinetoListener listener(file, trace);
  nlohmann::json::sax_parse(text, &listener);
  if (!listener.has_events())
    throw InputError(
        fmt::format("{}: \"traceEvents\" is missing, allowed: a trace of PyTorch's profiler or of nsys "
                    "export --type sqlite",
                    file));
  const double base = static_cast<double>(listener.base());
  if (base < 0 || base > kMostTracedNanoseconds)
    throw InputError(
        fmt::format("{}: /baseTimeNanoseconds is {}, allowed: 0 or more", file, listener.base()));
  shift_times(trace.trace(), listener.base());
  return std::move(trace.trace());
}

}  // namespace pipesim
