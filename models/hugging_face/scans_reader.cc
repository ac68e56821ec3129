#include <algorithm>

#include "models/hugging_face/decoder_reader.h"
#include "models/zoo/decoder/decoder_layers.h"

namespace pipesim {
namespace {

namespace mixer = mixer_letters;

// Kimi's layers say their sizes in an object of their own; all heads have keys.
DeltaFeatures kimi_delta(const ConfigReader& linear) {
  DeltaFeatures d;
  d.key_heads = d.value_heads = linear.size({"num_heads"});
  d.key_width = d.value_width = linear.size({"head_dim"});
  d.kernel = linear.size_or({"short_conv_kernel_size"}, 4);
  d.by_channel = true;
  d.decay_latent = d.key_width;
  d.gate_latent = linear.flag_or({"use_full_rank_gate"}, false) ? 0 : d.value_width;
  return d;
}

DeltaFeatures qwen_delta(const ConfigReader& c) {
  DeltaFeatures d;
  d.key_heads = c.size({"linear_num_key_heads"});
  d.value_heads = c.size({"linear_num_value_heads"});
  d.key_width = c.size({"linear_key_head_dim"});
  d.value_width = c.size({"linear_value_head_dim"});
  d.kernel = c.size_or({"linear_conv_kernel_dim"}, 4);
  if (d.value_heads % d.key_heads != 0)
    c.config()
        .at("linear_num_key_heads")
        .fail("allowed: a divisor of \"linear_num_value_heads\", which is " + std::to_string(d.value_heads));
  return d;
}

StateSpaceFeatures selective(const ConfigReader& c, const DecoderFeatures& f) {
  StateSpaceFeatures s;
  s.states = c.size_or({"mamba_d_state", "state_size"}, 16);
  s.kernel = c.size_or({"mamba_d_conv", "conv_kernel"}, 4);
  const std::int64_t inner = c.value("intermediate_size") && c.value("state_size")
                                 ? c.size({"intermediate_size"})
                                 : c.size_or({"mamba_expand", "expand"}, 2) * f.hidden;
  s.heads = 1;
  s.head_width = inner;
  s.rank = (f.hidden + 15) / 16;
  if (const auto rank = c.value({"mamba_dt_rank", "time_step_rank"}); rank && rank->is_number())
    s.rank = rank->integer(1, f.hidden);
  s.norms = c.value("mamba_d_state").has_value();  // Jamba's names: it norms what it selects
  return s;
}

StateSpaceFeatures state_space(const ConfigReader& c, const DecoderFeatures& f) {
  StateSpaceFeatures s;
  s.states = c.size_or({"ssm_state_size", "mamba_d_state", "state_size"}, 128);
  s.groups = std::max<std::int64_t>(c.size_or({"n_groups", "mamba_n_groups"}, 1), 1);
  s.kernel = c.size_or({"conv_kernel", "mamba_d_conv"}, 4);
  s.chunk = c.size_or({"chunk_size", "mamba_chunk_size"}, 256);
  const std::int64_t inner = c.size_or({"expand", "mamba_expand"}, 2) * f.hidden;
  s.head_width = 64;
  const auto width = c.value({"mamba_head_dim", "mamba_d_head"});
  if (width && width->is_number()) s.head_width = width->integer(1, inner);
  if (!width && c.value("state_size")) s.head_width = c.size_or({"head_dim"}, 64);  // Mamba-2's own config
  s.heads = c.size_or({"mamba_num_heads", "mamba_n_heads"}, inner / s.head_width);
  if (!width && c.value("mamba_n_heads")) s.head_width = inner / s.heads;
  if (c.value("state_size")) s.heads = c.size_or({"num_heads"}, s.heads);
  if (s.heads % s.groups != 0)
    c.value({"n_groups", "mamba_n_groups"})
        ->fail("found " + std::to_string(s.groups) + ", allowed: a divisor of the " +
               std::to_string(s.heads) + " heads of Mamba");
  return s;
}

}  // namespace

void read_scans(const ConfigReader& c, DecoderFeatures& f) {
  const auto has = [&](char letter) { return f.mixers.find(letter) != std::string::npos; };
  if (!has(mixer::kDelta) && !has(mixer::kStateSpace) && !has(mixer::kSelective)) return;
  c.pass_over({"mamba_hidden_act",
               "mamba_proj_bias",
               "mamba_conv_bias",
               "use_conv_bias",
               "time_step_floor",
               "time_step_limit",
               "time_step_max",
               "time_step_min",
               "time_step_rank",
               "mamba_ssm_dtype",
               "mamba_ssm_cache_dtype",
               "time_step_scale",
               "time_step_init_scheme",
               "mamba_dt_rank",
               "rms_norm",
               "expand",
               "mamba_expand",
               "mamba_d_conv",
               "mamba_d_state",
               "norm_before_gate",
               "use_associative_scan"});
  if (has(mixer::kDelta)) {
    const auto linear = c.object("linear_attn_config");
    f.delta = linear ? kimi_delta(*linear) : qwen_delta(c);
  }
  if (has(mixer::kStateSpace)) f.state_space = state_space(c, f);
  if (has(mixer::kSelective)) f.state_space = selective(c, f);
}

}  // namespace pipesim
