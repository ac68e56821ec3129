#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"

namespace pipesim {

/// What a configuration of DeepSpeed says of a run; nothing: it does not, or leaves it to the program
/// ("auto").
struct DeepspeedConfig {
  std::optional<std::int64_t> samples, microbatch, accumulation;  ///< of an iteration, on a device, steps
  std::optional<std::int64_t> zero_stage, shard_group;
  std::optional<std::int64_t> tensor, sequence, pipeline, expert;  ///< degrees
  std::optional<DataType> type, gradient_type;
  std::optional<Optimizer> optimizer;          ///< its kind
  bool torch_adam = false;                     ///< PyTorch's own, and not DeepSpeed's FusedAdam
  std::optional<Optimizer::Main> narrow_main;  ///< of 16-bit weights, where it is not float32
  std::optional<DataType> narrow_moments;      ///< where they are not in float32
  std::int64_t checkpoint_interval = 0;        ///< layers of a pipeline that run again together; 0: none
  bool tunes_recomputation = false;            ///< that the program asks for, or not
  std::vector<std::string> left_out;  ///< "ds_config.json: zero_optimization.…: what is taken otherwise"
};

/// Nothing where the text is no JSON object, as a script may write one with variables. `name`: of the file,
/// for messages. InputError `NAME: KEY: found …, allowed: …`.
std::optional<DeepspeedConfig> read_deepspeed_config(std::string_view text, const std::string& name);

/// Whether the text is one.
bool is_deepspeed_config(std::string_view text);

}  // namespace pipesim
