#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/graph_builder.h"

namespace pipesim {

/// Two layers, each of a scan of Mamba-2, of the gated delta rule, and of attention whose keys are selected
/// by frozen projections. There are 2 groups of 4 heads, and 8 positions.
inline OperatorGraph scanning_layers(std::int64_t batch) {
  using Out = std::vector<std::int64_t>;
  constexpr std::int64_t kSequence = 8, kHidden = 12, kWords = 48;
  GraphBuilder b("scanning", batch);
  const TensorId words = b.data("words", {batch, kSequence}, DataType::Int64);
  TensorId x = b.add("embedding", "word_embedding", {words}, {{"rows", kWords}, {"width", kHidden}});
  const auto made = [&](const std::string& name, TensorId from, Out out) {
    return b.add("linear", name, {from}, {{"out", std::move(out)}, {"bias", 0}});
  };
  const auto back = [&](const std::string& name, TensorId from) {
    const TensorId out =
        b.add("linear", name, {from}, {{"out", Out{kHidden}}, {"contract", std::int64_t{3}}, {"bias", 0}});
    x = b.add("add", name + "_add", {x, out});
  };
  for (std::int64_t layer = 1; layer <= 2; ++layer) {
    b.begin_repeat("layer", layer);
    TensorId y = b.add("rms_norm", "scan_norm", {x});
    back("scan_out", b.add("state_space_scan", "scan",
                           {made("scan_x", y, {2, 4, 3}), made("scan_step", y, {2, 4}),
                            made("scan_b", y, {2, 5}), made("scan_c", y, {2, 5})}));
    y = b.add("rms_norm", "delta_norm", {x});
    back("delta_out", b.add("gated_delta_rule", "delta",
                            {made("delta_q", y, {2, 3}), made("delta_k", y, {2, 3}),
                             made("delta_v", y, {2, 4, 5}), made("delta_step", y, {2, 4}),
                             b.add("sigmoid", "delta_beta", {made("delta_beta_in", y, {2, 4})})}));
    y = b.add("rms_norm", "attention_norm", {x});
    b.freeze(true);
    const TensorId selected =
        b.add("select_keys", "select",
              {made("select_q", y, {2, 3}), made("select_k", y, {3}), made("select_w", y, {2})},
              {{"count", std::int64_t{3}}});
    b.freeze(false);
    back("attention_out",
         b.add("selected_attention", "attention",
               {made("query", y, {2, 4, 3}), made("key", y, {2, 3}), made("value", y, {2, 3}), selected}));
    b.end_repeat();
  }
  const TensorId scores = made("projection", b.add("rms_norm", "norm", {x}), {kWords});
  b.add("cross_entropy", "loss", {scores, b.data("labels", {batch, kSequence}, DataType::Int64)});
  return b.build();
}

}  // namespace pipesim
