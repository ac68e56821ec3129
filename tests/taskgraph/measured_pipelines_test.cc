#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models/zoo/zoo.h"
#include "sim/simulate.h"
#include "taskgraph/expansion/expanded_strategy.h"
#include "taskgraph/memory/peak_memory.h"
#include "tests/seeds.h"
#include "topologies/presets/presets.h"

namespace pipesim {
namespace {

/// A row of tables 3 to 5 of Qi et al. (Zero Bubble Pipeline Parallelism), ICLR 2024, arXiv:2401.10241.
struct MeasuredPipeline {
  std::string schedule;
  std::int32_t microbatches;
  double samples;  ///< per GPU and second
  double memory;   ///< GB of the fullest GPU
};

/// A model of theirs on A100-80GB: as many stages as GPUs, sequences of 1024, the first and the last stage
/// with a layer less than the others; `interleaved` has one layer a chunk. ZB-1p and ZB-2p are zb-auto with
/// limits of one and two microbatches a stage. Their nodes are taken for DGX A100.
struct MeasuredModel {
  std::string model, topology;
  std::int32_t layers, stages, microbatch;
  std::vector<MeasuredPipeline> rows;  ///< 1f1b first
};

// Attention keeps its scores, as it did there. Embeddings are not tied: nothing but neighbouring stages
// communicates, and both ends keep one either way.
const MeasuredModel kMeasured1B{
    "gpt:batch=6,sequence=1024,layers=22,hidden=2304,heads=24,dtype=float16,projection=untied,attention="
    "scores",
    "dgx-a100",
    22,
    8,
    6,
    {{"1f1b", 24, 11.8, 30},
     {"1f1b", 32, 12.5, 30},
     {"1f1b", 64, 13.6, 30},
     {"interleaved", 24, 13.1, 40},
     {"interleaved", 32, 13.4, 40},
     {"interleaved", 64, 13.9, 40},
     {"zb-auto:8", 24, 12.9, 32},
     {"zb-auto:8", 32, 13.4, 32},
     {"zb-auto:8", 64, 14.2, 32},
     {"zb-auto:16", 24, 14.5, 59},
     {"zb-auto:16", 32, 14.8, 59},
     {"zb-auto:16", 64, 14.9, 59}}};
const MeasuredModel kMeasured14B{
    "gpt:batch=1,sequence=1024,layers=46,hidden=5120,heads=40,dtype=float16,projection=untied,attention="
    "scores",
    "dgx-a100:2",
    46,
    16,
    1,
    {{"1f1b", 48, 1.40, 32},
     {"1f1b", 64, 1.49, 32},
     {"1f1b", 128, 1.64, 32},
     {"interleaved", 48, 1.54, 39},
     {"interleaved", 64, 1.59, 39},
     {"interleaved", 128, 1.66, 39},
     {"zb-auto:16", 48, 1.61, 33},
     {"zb-auto:16", 64, 1.67, 33},
     {"zb-auto:16", 128, 1.76, 33},
     {"zb-auto:32", 48, 1.81, 51},
     {"zb-auto:32", 64, 1.83, 51},
     {"zb-auto:32", 128, 1.85, 51}}};

// A100s that work at `speed` times the rates of the preset. Blocking: a transfer keeps both of its devices.
Topology measured_topology(const std::string& name, double speed, bool blocking) {
  TopologyParts parts = make_topology(name).parts();
  for (DeviceKind& kind : parts.kinds) {
    for (auto& [type, rate] : kind.peak) rate = FlopsPerSecond(rate.value * speed);
    kind.memory_bandwidth = BytesPerSecond(kind.memory_bandwidth.value * speed);
    kind.overlap = !blocking;
    kind.products.sustained = 1;  // the speed that is fitted has it
  }
  return Topology(std::move(parts));
}

struct PredictedPipeline {
  double seconds =
      0;  ///< from iteration to iteration: the longest time from a device's first task to its last
  double memory = 0;  ///< GB of the fullest device
};

class MeasuredPrediction {
 public:
  explicit MeasuredPrediction(const MeasuredModel& measured)
      : measured_(measured), graph_(make_zoo_model(measured.model)) {
    // Embeddings and the projection take the place of a layer each.
    std::int32_t layer = 0;
    for (const Operator& op : graph_.operators()) {
      if (op.name.starts_with("layer"))
        layer = std::stoi(op.name.substr(5));
      else if (layer > 0)
        layer = measured.layers + 1;
      layer_of_.push_back(layer);
    }
  }

  [[nodiscard]] double measured_seconds(const MeasuredPipeline& row) const {
    return row.microbatches * measured_.microbatch / (row.samples * measured_.stages);
  }

  [[nodiscard]] PredictedPipeline predict(const std::string& schedule, std::int32_t microbatches,
                                          double speed, bool blocking) const {
    const Topology topology = measured_topology(measured_.topology, speed, blocking);
    const CostModel costs(topology);
    const std::int32_t layers_a_stage =
        schedule == "interleaved" ? 1 : (measured_.layers + 2) / measured_.stages;
    PlanOptions options;
    options.optimizer = Optimizer::Adam;
    options.microbatches = microbatches;
    options.pipeline = Pipeline{schedule, {}};
    Strategy strategy;
    for (std::size_t op = 0; op < layer_of_.size(); ++op) {
      const std::int32_t stage = layer_of_[op] / layers_a_stage;
      options.pipeline->stage_of.push_back(stage);
      const DeviceId device(static_cast<std::size_t>(stage % measured_.stages));
      strategy.push_back(single_device(graph_.operators()[op], device));
    }
    EXPECT_EQ(illegal(graph_, strategy, options, topology), std::nullopt);
    const PlanContents contents(graph_, costs, options);
    const BoundStrategy bound = contents.bind(strategy);
    ExpandedStrategy expanded(contents);
    const TaskGraph& tasks = expanded.graph();
    expanded.expand(bound, {.labels = Labels::Make});
    const Timeline timeline = simulate(tasks.dag);
    PredictedPipeline predicted{to_seconds(longest_span(tasks, timeline)).value, 0};
    for (const DeviceMemory& device : peak_memory(expanded, timeline))
      predicted.memory = std::max(predicted.memory, static_cast<double>(device.peak.value) * 1e-9);
    return predicted;
  }

  // The speed at which a further microbatch of 1f1b costs what was measured; all else follows.
  [[nodiscard]] double fitted_speed() const {
    const MeasuredPipeline *few = measured_.rows.data(), *many = few;
    for (const MeasuredPipeline& row : measured_.rows) {
      if (row.schedule == "1f1b" && row.microbatches > many->microbatches) many = &row;
    }
    const double slope =
        (measured_seconds(*many) - measured_seconds(*few)) / (many->microbatches - few->microbatches);
    const std::int32_t stages = measured_.stages;
    double speed = 1;
    for (std::int32_t round = 0; round < 3; ++round) {
      const double predicted =
          predict("1f1b", 2 * stages, speed, true).seconds - predict("1f1b", stages, speed, true).seconds;
      speed *= predicted / stages / slope;
    }
    return speed;
  }

 private:
  Nanoseconds longest_span(const TaskGraph& tasks, const Timeline& timeline) const {
    std::vector<Nanoseconds> first(static_cast<std::size_t>(measured_.stages),
                                   std::numeric_limits<Nanoseconds>::max());
    std::vector<Nanoseconds> last(first.size(), 0);
    for (std::size_t t = 0; t < tasks.labels.size(); ++t) {
      const TaskLabel& label = tasks.labels[t];
      if (label.kind > TaskKind::BackwardWeight && label.kind != TaskKind::Update) continue;
      Nanoseconds &begin = first[label.device.index()], &end = last[label.device.index()];
      begin = std::min(begin, timeline.start[t]);
      end = std::max(end, timeline.end[t]);
    }
    Nanoseconds longest = 0;
    for (std::size_t d = 0; d < first.size(); ++d) longest = std::max(longest, last[d] - first[d]);
    return longest;
  }

  const MeasuredModel& measured_;
  OperatorGraph graph_;
  std::vector<std::int32_t> layer_of_;  // by operator
};

struct PipelineErrors {
  double ratio = 0, memory = 0;  ///< sums of relative errors
  std::int32_t ratios = 0, memories = 0;
};

// All that is fitted are the speed of the devices and what an iteration takes beside its microbatches, both
// to the rows of 1f1b. A ratio is 1f1b's time over the schedule's, at the same number of microbatches.
void add_errors(const MeasuredModel& measured, PipelineErrors& errors) {
  const MeasuredPrediction prediction(measured);
  const double speed = prediction.fitted_speed();
  std::vector<PredictedPipeline> predicted;
  double beside = 0, plain_rows = 0;
  for (const MeasuredPipeline& row : measured.rows) {
    predicted.push_back(prediction.predict(row.schedule, row.microbatches, speed, true));
    if (row.schedule != "1f1b") continue;
    beside += prediction.measured_seconds(row) - predicted.back().seconds;
    ++plain_rows;
  }
  for (PredictedPipeline& p : predicted) p.seconds += beside / plain_rows;

  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const MeasuredPipeline& row = measured.rows[i];
    SCOPED_TRACE(fmt::format("{} {} microbatches of {}", row.schedule, row.microbatches, measured.model));
    const double memory_error = std::abs(predicted[i].memory / row.memory - 1);
    EXPECT_LT(memory_error, 0.10) << predicted[i].memory << " GB";
    errors.memory += memory_error;
    ++errors.memories;
    if (row.schedule == "1f1b") {
      const double seconds = prediction.measured_seconds(row);
      EXPECT_NEAR(predicted[i].seconds, seconds, 0.01 * seconds);
      continue;
    }
    const auto plain = static_cast<std::size_t>(
        std::ranges::find(measured.rows, row.microbatches, &MeasuredPipeline::microbatches) -
        measured.rows.begin());
    const double ratio = predicted[plain].seconds / predicted[i].seconds;
    const double found = row.samples / measured.rows[plain].samples;
    EXPECT_LT(std::abs(ratio / found - 1), 0.06) << ratio << ", measured " << found;
    errors.ratio += std::abs(ratio / found - 1);
    ++errors.ratios;
  }
}

TEST(MeasuredPipelines, OfZeroBubblesAndChunks) {
  PipelineErrors errors;
  add_errors(kMeasured1B, errors);
  if (!sanitized) add_errors(kMeasured14B, errors);
  EXPECT_LT(errors.ratio / errors.ratios, 0.03);
  EXPECT_LT(errors.memory / errors.memories, 0.05);
}

// Three times as many transfers cost time where they keep devices from working: else chunks would look
// better than they are.
TEST(MeasuredPipelines, ChunksPayForTheirTransfers) {
  for (const MeasuredModel* measured : {&kMeasured1B, &kMeasured14B}) {
    if (sanitized && measured == &kMeasured14B) continue;
    const MeasuredPrediction prediction(*measured);
    const double speed = prediction.fitted_speed();
    const std::int32_t microbatches = measured->rows.front().microbatches;
    const auto error = [&](bool blocking) {
      double found = 0;
      for (const MeasuredPipeline& row : measured->rows) {
        if (row.schedule == "interleaved" && row.microbatches == microbatches)
          found = row.samples / measured->rows.front().samples;
      }
      return prediction.predict("1f1b", microbatches, speed, blocking).seconds /
                 prediction.predict("interleaved", microbatches, speed, blocking).seconds / found -
             1;
    };
    EXPECT_GT(error(false), 0.02) << measured->model;
    EXPECT_LT(std::abs(error(true)), 0.02) << measured->model;
  }
}

}  // namespace
}  // namespace pipesim
