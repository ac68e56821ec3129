#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/options.h"

namespace pipesim {

/// What defines a decoder beside its sizes. No operator's cost depends on it, so graphs do not have it; it
/// stays in a model's text because frameworks need it.
struct DecoderDefinition {
  double rotary_base = 10000;
  std::string rotary_scaling = "none";  ///< of rotary_scalings()
  double rotary_factor = 1;
  std::int64_t rotary_original = 8192;
  double rotary_low = 1, rotary_high = 4;
  double rotary_mscale = 1, rotary_mscale_all = 0;
  double norm_epsilon = 1e-5;
  double init_deviation = 0.02;
};
/// Options of decoders with rotary positions.
ZooOptions definition_options(const DecoderDefinition& definition);
/// Returns the options of decoders whose positions may be learned: base, epsilon and deviation.
ZooOptions plain_definition_options();

/// Ways in which rotary positions are stretched beyond those that a model was trained for.
const std::vector<std::string>& rotary_scalings();

/// What defines a router beside its experts.
ZooOption expert_shares_option();
ZooOption balance_loss_option(double value);

}  // namespace pipesim
