#include "executor/gpu/steps/optimizer.h"

#include "sim/base/errors.h"

namespace pipesim::gpu {

void update(Stream& stream, const Optimizer& optimizer, const OptimizerSettings& settings,
            const TrainedWeights& trained, std::int64_t averaged, const WeightChange& change) {
  const TrainedElements elements{trained.weights, trained.master, trained.gradient,
                                 static_cast<float>(averaged)};
  switch (optimizer.kind) {
    case Optimizer::Sgd:
      return run_in_groups(stream, trained.elements, SgdUpdate{elements, settings});
    case Optimizer::Momentum:
      return run_in_groups(stream, trained.elements, MomentumUpdate{elements, trained.first, settings});
    case Optimizer::Adam:
      return run(stream, (trained.elements + AdamUpdate::chunk - 1) / AdamUpdate::chunk,
                 AdamUpdate{elements, trained.first, trained.second, settings, trained.elements, change.step,
                            change.changes, change.change});
    case Optimizer::Lion:
      return run_in_groups(stream, trained.elements, LionUpdate{elements, trained.first, settings});
    default:
      throw InternalError("a step of " + optimizer.str());
  }
}

}  // namespace pipesim::gpu
