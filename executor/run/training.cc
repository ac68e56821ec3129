#include "executor/run/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "executor/program/arena.h"
#include "executor/program/compile.h"
#include "sim/base/errors.h"
#include "sim/base/out_of_memory.h"
#include "sim/simulate.h"
#include "taskgraph/memory/peak_memory.h"

namespace pipesim {
namespace {

using Content = Program::Result::Content;

std::string name_of(Content content, const std::string& tensor) {
  return content == Content::Gradient ? "gradient of " + tensor : tensor;
}

// max |x − y| / max |y|; NaN anywhere makes it infinite.
TensorError error_of(std::string name, std::span<const float> values, std::span<const float> reference,
                     double largest) {
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(values[i]) - static_cast<double>(reference[i]));
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  if (!std::isfinite(largest)) worst = INFINITY, largest = 1;
  return {std::move(name), largest > 0 ? worst / largest : worst, largest};
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

// What is kept in a wider type than it is used in is rounded to that.
void read_as(DataType used, const HostPiece& held, const HostPiece& kept) {
  if (bytes_per_element(held.type) <= bytes_per_element(used) || used == DataType::Float32)
    return move_region(held, kept, kept.box, false);
  std::vector<std::byte> bytes(static_cast<std::size_t>(kept.box.elements() * bytes_per_element(used)));
  const HostPiece rounded{bytes.data(), used, kept.box};
  move_region(held, rounded, kept.box, false);
  move_region(rounded, kept, kept.box, false);
}

void worst_first(std::vector<TensorError>& errors) {
  std::stable_sort(errors.begin(), errors.end(),
                   [](const TensorError& a, const TensorError& b) { return a.error > b.error; });
}

void add_differences(const std::map<TensorId, std::vector<float>>& values,
                     const std::map<TensorId, std::vector<float>>& reference, Content content,
                     const OperatorGraph& graph, std::vector<TensorError>& errors) {
  for (const auto& [tensor, whole] : reference) {
    errors.push_back(
        error_of(name_of(content, graph.tensor(tensor).name), values.at(tensor), whole, largest_of(whole)));
  }
}

}  // namespace

Training::Training(const OperatorGraph& graph, const CostModel& costs, const PlanOptions& options,
                   const Strategy& strategy, Setting setting, const MakePace& make_pace)
    : graph_(graph), setting_(std::move(setting)), contents_(graph, costs, options), expanded_(contents_) {
  if (contents_.ways() > 1 && schedule_kind(options.pipeline->schedule).both_ways)
    throw InputError(
        fmt::format("schedule \"{}\" can be simulated, not executed: it needs two copies of the weights; "
                    "allowed: those with "
                    "one",
                    options.pipeline->schedule));
  if (contents_.versions().several() && options.microbatches % contents_.versions().period() != 0)
    throw InputError(fmt::format(
        "replicas that take microbatches in turn are executed in whole turns: found {} microbatches, "
        "allowed: a multiple of {}",
        options.microbatches, contents_.versions().period()));
  if (options.pipeline &&
      schedule_kind(options.pipeline->schedule).weights == WeightChange::BetweenIterations)
    throw InputError(
        fmt::format("schedule \"{}\" can be simulated, not executed: a step is one iteration, and weights "
                    "change between them; "
                    "allowed: those that empty the pipeline, and pipedream",
                    options.pipeline->schedule));
  expanded_.expand(contents_.bind(strategy), {.labels = Labels::Make});
  try {
    simulated_ = simulate(expanded_.dag());
  } catch (const DependencyCycle& cycle) {
    throw InputError(describe_deadlock(cycle.tasks(), expanded_.graph(), graph_, costs.topology()));
  }
  predicted_memory_ = peak_memory(expanded_, simulated_);
  if (setting_.before_allocation) setting_.before_allocation(predicted_memory_);
  const auto too_many = [&] {
    return out_of_memory(fmt::format("making the program of {} tasks on {} devices",
                                     expanded_.dag().num_tasks(), costs.topology().num_devices()),
                         "Take fewer microbatches (--microbatches) or devices");
  };
  with_memory(too_many, [&] {
    program_ = compile(expanded_, simulated_, setting_.backend, setting_.local);
    if (setting_.arenas) program_.arenas = plan_arenas(program_, costs.topology().num_devices(), simulated_);
  });
  pace_ = make_pace(expanded_.dag(), program_.order);
  const auto describe = [this](const Buffer& b) {
    const std::string what = b.tensor.valid() ? graph_.tensor(b.tensor).name : "what kernels keep";
    return fmt::format("{} on {}, whose predicted peak is {}", what,
                       contents_.costs().topology().device(b.device).name,
                       pretty(predicted_memory_[b.device.index()].peak));
  };
  execution_ =
      setting_.backend.make_execution({program_, expanded_.dag().num_tasks(), costs.topology().num_devices(),
                                       *pace_, setting_.worlds, describe, predicted_memory_});
}

Training::~Training() = default;

StepContext Training::context() const {
  StepContext context;
  context.seed = setting_.seed;
  context.step = steps_;
  context.microbatches = contents_.options().microbatches;
  context.added_up = contents_.versions().several() ? 1 : context.microbatches;
  context.sums = setting_.sums;
  return context;
}

StepRecord Training::step() {
  if (setting_.backend.computes()) load(steps_ == 0);
  const StepContext context = this->context();
  ++steps_;
  return execution_->run(context, [this] {
    if (keep_ != Keep::Nothing && setting_.backend.computes()) keep();
  });
}

void Training::load(bool first_step) {
  StepContext context = this->context();
  for (const Loaded& l : program_.loaded) {
    if (!first_step && l.content != Loaded::Content::Data) continue;
    context.microbatch = l.microbatch;
    for (const View& view : {l.view, l.master}) {
      if (!view.present()) continue;
      execution_->fill(
          view, [&](const HostPiece& piece) { setting_.source.fill(l.content, l.tensor, piece, context); });
    }
  }
}

void Training::keep() {
  kept_.clear();
  values_ = {};
  for (const Program::Result& r : program_.results) {
    if (keep_ == Keep::Outputs && r.content != Content::Output) continue;
    KeptPiece piece{r.content, r.tensor, r.region,
                    std::vector<float>(static_cast<std::size_t>(r.region.elements()))};
    const HostPiece kept{reinterpret_cast<std::byte*>(piece.values.data()), DataType::Float32, r.region};
    const DataType used = r.content == Content::Weight ? graph_.tensor(r.tensor).type : DataType::Float32;
    execution_->read(r.view, [&](const HostPiece& held) { read_as(used, held, kept); });
    auto& tensors = r.content == Content::Output     ? values_.outputs
                    : r.content == Content::Gradient ? values_.gradients
                                                     : values_.weights;
    const Tensor& tensor = graph_.tensor(r.tensor);
    std::vector<float>& whole = tensors[r.tensor];
    whole.resize(static_cast<std::size_t>(tensor.elements()), 0.0F);
    const HostPiece all{reinterpret_cast<std::byte*>(whole.data()), DataType::Float32,
                        Box::whole(tensor.shape)};
    move_region(kept, all, r.region, r.content == Content::Output);
    kept_.push_back(std::move(piece));
  }
}

std::vector<TensorError> Training::errors_against(const StepValues& reference) const {
  std::map<std::pair<Content, TensorId>, TensorError> worst;
  std::vector<float> expected;
  for (const KeptPiece& piece : kept_) {
    if (piece.content == Content::Output) continue;
    const auto& tensors = piece.content == Content::Gradient ? reference.gradients : reference.weights;
    const std::vector<float>& whole = tensors.at(piece.tensor);
    expected.resize(piece.values.size());
    const Tensor& tensor = graph_.tensor(piece.tensor);
    const HostPiece all{reinterpret_cast<std::byte*>(const_cast<float*>(whole.data())), DataType::Float32,
                        Box::whole(tensor.shape)};
    move_region(all, {reinterpret_cast<std::byte*>(expected.data()), DataType::Float32, piece.box}, piece.box,
                false);
    TensorError error =
        error_of(name_of(piece.content, tensor.name), piece.values, expected, largest_of(whole));
    const auto [it, fresh] = worst.try_emplace({piece.content, piece.tensor}, error);
    if (!fresh && error.error > it->second.error) it->second = std::move(error);
  }
  std::vector<TensorError> errors;
  for (auto& [key, error] : worst) errors.push_back(std::move(error));
  worst_first(errors);
  return errors;
}

std::vector<TensorError> differences(const StepValues& values, const StepValues& reference,
                                     const OperatorGraph& graph) {
  std::vector<TensorError> errors;
  add_differences(values.outputs, reference.outputs, Content::Output, graph, errors);
  add_differences(values.gradients, reference.gradients, Content::Gradient, graph, errors);
  add_differences(values.weights, reference.weights, Content::Weight, graph, errors);
  worst_first(errors);
  return errors;
}

}  // namespace pipesim
