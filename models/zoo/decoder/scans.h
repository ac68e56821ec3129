#pragma once

#include <cstdint>
#include <string>

#include "models/zoo/transformer.h"

namespace pipesim {

/// Sizes of a gated delta rule's heads: each of `key_heads` has value_heads / key_heads heads of values.
struct DeltaSizes {
  std::int64_t key_heads = 0, value_heads = 0, key_width = 0, value_width = 0;
  std::int64_t kernel = 4;        ///< positions of the short convolutions
  bool decay_by_channel = false;  ///< each channel of a key fades by itself, or each head
  std::int64_t decay_latent = 0;  ///< width of the latent that decays by channel are made of; 0: none
  std::int64_t gate_latent = 0;   ///< the same of the output's gate
};

/// From the options delta_….
DeltaSizes delta_sizes(const ZooValues& values);

/// Gated DeltaNet (Yang, Kautz and Hatamizadeh, 2024; arXiv:2412.06464, figure 1), and Kimi Delta Attention
/// where decays are by channel (Kimi team, 2025; arXiv:2510.26692, section 4). Returns the mixer's result of
/// x [b, s, hidden].
TensorId delta_mixer(TransformerNetwork& net, const std::string& prefix, TensorId x, std::int64_t hidden,
                     const DeltaSizes& sizes);

/// Sizes of a state-space mixer.
struct StateSpaceSizes {
  std::int64_t heads = 0, head_width = 0, groups = 1, states = 0, kernel = 4, chunk = 256;
};

/// From the options ssm_….
StateSpaceSizes state_space_sizes(const ZooValues& values);

/// Mamba-2 (Dao and Gu, 2024, figure 6; arXiv:2405.21060): the gate comes before the norm, which each group
/// has for itself.
TensorId state_space_mixer(TransformerNetwork& net, const std::string& prefix, TensorId x,
                           std::int64_t hidden, const StateSpaceSizes& sizes);

/// Sizes of a selective state-space mixer.
struct SelectiveSizes {
  std::int64_t hidden = 0, inner = 0, states = 0, kernel = 4, rank = 0;
  bool norms = false;  ///< of steps and of what states read and write, as in Jamba
};

/// Mamba (Gu and Dao, 2023, figure 3), without its norm and residual.
TensorId selective_mixer(GraphBuilder& builder, const std::string& prefix, TensorId x,
                         const SelectiveSizes& sizes);

}  // namespace pipesim
