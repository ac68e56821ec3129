// Problems and their plans, as Python's values.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "python/module/bindings.h"
#include "python/module/interpreter_lock.h"
#include "python/module/plan_call.h"
#include "python/module/signals.h"
#include "search/baselines/baselines.h"
#include "search/candidates.h"
#include "sim/base/errors.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/inputs/open_plan.h"
#include "tools/analysis/searching/plan_scorer.h"
#include "tools/base/figures.h"
#include "tools/interop/framework/open_run.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// What pipesim.Problem takes beside a model and a topology, under the same names.
struct ProblemOptions {
  std::int64_t microbatches = 1;
  std::string optimizer, gradient_type, gradient_piece, recompute, state_sharding, gathered_inputs,
      gradient_reduction, imbalance, memory_margin, runtime, calibration;
};

// Returns what `read` makes of an option; its errors name the option.
template <class Read>
auto option(const char* name, const Read& read) {
  try {
    return read();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, error.what()));
  }
}

DataType gradient_type_of(const std::string& name) {
  constexpr std::array kTypes{DataType::Float32, DataType::Float16, DataType::BFloat16, DataType::Float64};
  std::vector<std::string> names;
  for (const DataType type : kTypes) {
    if (name == name_of(type)) return type;
    names.emplace_back(name_of(type));
  }
  throw InputError(fmt::format("found \"{}\", allowed: {}", name, list_names(names)));
}

PlanOptions plan_options_of(const ProblemOptions& o) {
  PlanOptions options;
  if (o.microbatches < 1 || o.microbatches > kMostMicrobatches)
    throw InputError(
        fmt::format("microbatches: found {}, allowed: from 1 to {}", o.microbatches, kMostMicrobatches));
  options.microbatches = static_cast<std::int32_t>(o.microbatches);
  options.optimizer = option("optimizer", [&] { return parse_optimizer(o.optimizer); });
  options.gradient_type = option("gradient_type", [&] { return gradient_type_of(o.gradient_type); });
  options.gradient_piece = option("gradient_piece", [&] { return parse_bytes(o.gradient_piece); });
  options.recompute = option("recompute", [&] { return parse_recompute(o.recompute); });
  options.state_sharding = option("state_sharding", [&] { return parse_state_sharding(o.state_sharding); });
  options.gathered_inputs =
      option("gathered_inputs", [&] { return parse_gathered_inputs(o.gathered_inputs); });
  options.gradient_reduction =
      option("gradient_reduction", [&] { return parse_gradient_reduction(o.gradient_reduction); });
  options.imbalance = parse_imbalance(o.imbalance);  // its errors begin with the name
  return options;
}

std::shared_ptr<const Problem> problem_of(const std::string& model, const OperatorGraph& graph,
                                          const std::string& topology_text, const Topology& topology,
                                          const ProblemOptions& o) {
  PlanOptions options = plan_options_of(o);
  if (options.recompute.kind != Recompute::Kind::Stage) {
    if (const auto reason = illegal(graph, options.recompute, {}))
      throw InputError(fmt::format("recompute: found \"{}\", but {}", o.recompute, *reason));
  }
  if (const auto reason = illegal(graph, options.imbalance))
    throw InputError(fmt::format("imbalance: found \"{}\", but {}", o.imbalance, *reason));
  Topology usable = o.memory_margin.empty() ? topology : option("memory_margin", [&] {
    return topology.with_memory_margin(MemoryMargin::parse(o.memory_margin));
  });
  return std::make_shared<const Problem>(Problem{
      model, graph, topology_text, std::move(usable), std::move(options),
      option("runtime", [&] { return parse_runtime(o.runtime); }), o.calibration, profile_note(model)});
}

// The thread that works on a problem, if one does.
struct AtWork {
  std::timed_mutex mutex;
  std::atomic<std::thread::id> thread;
};

// A turn at the work. The thread waits until others are done, which its own deadline may end, so that it
// hears signals meanwhile. A handler of signals runs on the thread that works, and would wait for itself.
class Turn {
 public:
  explicit Turn(AtWork& at_work) : at_work_(at_work) {
    constexpr std::chrono::milliseconds kBetween{20};
    if (at_work.thread == std::this_thread::get_id())
      throw UsageError("a handler of signals can't use the problem whose plan is being evaluated");
    while (!at_work.mutex.try_lock_for(kBetween)) stop_if_late();
    at_work.thread = std::this_thread::get_id();
  }
  ~Turn() {
    at_work_.thread = std::thread::id();
    at_work_.mutex.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  AtWork& at_work_;
};

// A problem that Python works on. Several threads may, one after the other.
class OpenProblem {
 public:
  OpenProblem(const std::string& model, const OperatorGraph& graph, const std::string& topology_text,
              const Topology& topology, const ProblemOptions& options)
      : problem_(problem_of(model, graph, topology_text, topology, options)),
        calibration_(open(options.calibration)),
        costs_(problem_->topology, calibration_.get(), problem_->runtime),
        scorer_(problem_->topology, calibration_.get()) {}

  // What is to be said of the calibration.
  [[nodiscard]] const std::string& notes() const { return notes_; }

  [[nodiscard]] std::shared_ptr<OpenPlan> baseline(const std::string& name) {
    return interruptible([&] { return std::make_shared<OpenPlan>(baseline_plan(problem_, costs_, name)); });
  }
  [[nodiscard]] std::shared_ptr<OpenPlan> recipe(const std::string& text) {
    return interruptible([&] {
      refuse_parts_of_recipes(problem_->options);
      const bool local = dispatches_locally(nullptr, problem_->model, problem_->runtime);
      return std::make_shared<OpenPlan>(recipe_plan(problem_, text, local));
    });
  }
  [[nodiscard]] std::shared_ptr<OpenPlan> open(const std::string& text, const std::string& source) {
    return interruptible([&] { return std::make_shared<OpenPlan>(open_plan(problem_, text, source)); });
  }

  // None where an iteration takes `below_s` or longer.
  [[nodiscard]] py::object evaluate(const std::shared_ptr<OpenPlan>& plan, double below_s) {
    constexpr double kInSecond = 1e9, kMost = 1e18;
    const double limit = std::max(0.0, below_s * kInSecond);
    const Nanoseconds below = limit < kMost ? std::llround(limit) : PlanScorer::kNoLimit;
    const std::optional<Evaluation> found = interruptible([&] {
      require_plan_of(*problem_, *plan);
      const Turn turn(at_work_);
      return scorer_.score(plan, below);
    });
    if (!found) return py::none();
    return py::make_tuple(seconds(found->time), found->feasible(), found->proven);
  }
  [[nodiscard]] py::tuple memory(const std::shared_ptr<OpenPlan>& plan) {
    const std::vector<DeviceMemory> peaks = interruptible([&] {
      require_plan_of(*problem_, *plan);
      const Turn turn(at_work_);
      return scorer_.peaks(plan);
    });
    py::dict by_device;
    for (std::size_t d = 0; d < peaks.size(); ++d)
      by_device[utf8(problem_->topology.device(DeviceId(d)).name)] = peaks[d].peak.value;
    return py::make_tuple(by_device, memory_shortage(peaks, problem_->topology));
  }

  [[nodiscard]] py::list candidates(const std::string& name);

  [[nodiscard]] py::tuple plan(const PlanQuestion& question, const py::object& progress) const {
    const auto call = std::make_shared<PlanCall>(problem_, calibration_, question);
    BackgroundCall::run(call, question.algorithm, progress);
    const FoundPlan& found = call->found();
    const auto bound = found.lower_bound ? std::optional(seconds(*found.lower_bound)) : std::nullopt;
    return py::make_tuple(found.plan, utf8(found.found_by), utf8(found.note), found.proven, bound,
                          found.seconds, call->stop_requested());
  }

 private:
  std::shared_ptr<const Calibration> open(const std::string& file) {
    std::ostringstream notes;
    std::optional<Calibration> calibration = open_calibration(file, problem_->topology, notes);
    notes_ = notes.str();
    return calibration ? std::make_shared<const Calibration>(std::move(*calibration)) : nullptr;
  }

  std::shared_ptr<const Problem> problem_;
  std::string notes_;
  std::shared_ptr<const Calibration> calibration_;
  CostModel costs_;
  AtWork at_work_;  // with what follows
  PlanScorer scorer_;
  std::optional<CandidateSet> candidates_;
};

// Devices by number as Python's texts, made once.
std::vector<py::str> device_names(const Topology& topology) {
  std::vector<py::str> names;
  for (std::size_t d = 0; d < topology.num_devices(); ++d)
    names.push_back(utf8(topology.device(DeviceId(d)).name));
  return names;
}

py::tuple config_tuple(const ParallelConfig& config, const Operator& op, const std::vector<py::str>& names) {
  py::dict splits;
  for (std::size_t f = 0; f < op.factors.size(); ++f) {
    if (config.degrees[f] > 1) splits[utf8(op.factors[f].name)] = config.degrees[f];
  }
  py::tuple devices(config.devices.size());
  for (std::size_t i = 0; i < config.devices.size(); ++i) devices[i] = names[config.devices[i].index()];
  return py::make_tuple(splits, devices, config.replicas, config.ring);
}

py::list OpenProblem::candidates(const std::string& name) {
  const OperatorId op = operator_named(problem_->graph, name);
  const CandidateSet& set = *interruptible([&] {
    const Turn turn(at_work_);
    return candidates_ ? &*candidates_ : &candidates_.emplace(problem_->graph, problem_->topology);
  });
  const std::vector<py::str> names = device_names(problem_->topology);
  py::list list;
  for (std::size_t i = 0; i < set.size(op); ++i)
    list.append(config_tuple(set.config(op, i), problem_->graph.operators()[op.index()], names));
  return list;
}

py::dict configs_of(const OpenPlan& open) {
  const std::vector<py::str> names = device_names(*open.topology);
  py::dict configs;
  for (std::size_t i = 0; i < open.plan.strategy.size(); ++i) {
    const Operator& op = open.graph->operators()[i];
    configs[utf8(op.name)] = config_tuple(open.plan.strategy[i], op, names);
  }
  return configs;
}

// The members of pipesim.PlanOptions, in order.
py::tuple options_of_plan(const OpenPlan& open) {
  const PlanOptions& o = open.plan.options;
  py::object schedule = py::none();
  py::tuple stages;
  if (o.pipeline) {
    schedule = utf8(o.pipeline->schedule);
    std::vector<std::vector<std::string>> operators(static_cast<std::size_t>(o.pipeline->num_stages()));
    for (std::size_t i = 0; i < o.pipeline->stage_of.size(); ++i)
      operators[static_cast<std::size_t>(o.pipeline->stage_of[i])].push_back(open.graph->operators()[i].name);
    py::list list;
    for (const std::vector<std::string>& stage : operators) list.append(py::tuple(py::cast(stage)));
    stages = py::tuple(list);
  }
  return py::make_tuple(o.microbatches, o.optimizer.str(), name_of(o.gradient_type), o.gradient_piece.value,
                        in_words(o.recompute), o.state_sharding.str(), name_of(o.gathered_inputs),
                        name_of(o.gradient_reduction), o.imbalance.str(), open.plan.runtime.name, schedule,
                        stages);
}

}  // namespace

void bind_problems(py::module_& m) {
  using py::arg;
  using WithoutLock = py::call_guard<Unlocked>;
  m.def("baseline_names",
        [] { return std::vector<std::string>(baseline_names().begin(), baseline_names().end()); });
  py::class_<OpenPlan, std::shared_ptr<OpenPlan>>(m, "Plan")
      .def(py::init(
               [](const std::string& text, const std::string& source) { return open_plan(text, source); }),
           arg("text"), arg("source"), WithoutLock())
      .def("configs", &configs_of)
      .def("options", &options_of_plan)
      .def(
          "with_config",
          [](const OpenPlan& open, const std::string& op, std::map<std::string, std::int64_t> splits,
             std::vector<std::string> devices, std::int64_t copies, bool ring) {
            return with_config(open, op, {std::move(splits), std::move(devices), copies, ring});
          },
          arg("operator"), arg("splits"), arg("devices"), arg("copies"), arg("ring"))
      .def("to_json", &plan_file_of, WithoutLock());
  py::class_<OpenProblem>(m, "Problem")
      .def(py::init([](const std::string& model, const OperatorGraph& graph, const std::string& topology_text,
                       const Topology& topology, std::int64_t microbatches,
                       const std::map<std::string, std::string>& texts) {
             const auto text = [&](const char* name) { return texts.at(name); };
             return std::make_unique<OpenProblem>(
                 model, graph, topology_text, topology,
                 ProblemOptions{microbatches, text("optimizer"), text("gradient_type"),
                                text("gradient_piece"), text("recompute"), text("state_sharding"),
                                text("gathered_inputs"), text("gradient_reduction"), text("imbalance"),
                                text("memory_margin"), text("runtime"), text("calibration")});
           }),
           arg("model"), arg("graph"), arg("topology_text"), arg("topology"), arg("microbatches"),
           arg("options"), WithoutLock())
      .def_property_readonly("notes", [](const OpenProblem& p) { return utf8(p.notes()); })
      .def("baseline", &OpenProblem::baseline, arg("name"))
      .def("recipe", &OpenProblem::recipe, arg("text"))
      .def("open", py::overload_cast<const std::string&, const std::string&>(&OpenProblem::open), arg("text"),
           arg("source"))
      .def("candidates", &OpenProblem::candidates, arg("operator"))
      .def("evaluate", &OpenProblem::evaluate, arg("plan"), arg("below_s"))
      .def("memory", &OpenProblem::memory, arg("plan"))
      .def(
          "plan",
          [](const OpenProblem& p, const std::string& algorithm, double seconds,
             std::optional<std::int64_t> proposals, std::optional<std::uint64_t> seed,
             std::optional<std::int32_t> threads, const py::object& progress) {
            return p.plan({algorithm, seconds, proposals, seed, threads}, progress);
          },
          arg("algorithm"), arg("seconds"), arg("proposals"), arg("seed"), arg("threads"), arg("progress"));
}

}  // namespace pipesim
