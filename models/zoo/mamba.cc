#include <string>
#include <utility>

#include "models/graph_builder.h"
#include "models/zoo/families.h"
#include "models/zoo/options.h"

namespace pipesim {

namespace {

struct MambaSizes {
  std::int64_t batch = 0, sequence = 0, hidden = 0, inner = 0, states = 0, kernel = 0, rank = 0;
};

/// Along the sequence every channel by itself, from the last few positions: [b, s, d].
TensorId causal_convolution(GraphBuilder& builder, TensorId x, const MambaSizes& sizes) {
  x = builder.add("transpose", "channels_first", {x}, {{"order", Sizes{0, 2, 1}}});
  x = builder.add("conv1d", "conv", {x},
                  {{"out", sizes.inner},
                   {"kernel", sizes.kernel},
                   {"pad", sizes.kernel - 1},
                   {"pad_end", 0},
                   {"groups", sizes.inner},
                   {"activation", "silu"}});
  return builder.add("transpose", "channels_last", {x}, {{"order", Sizes{0, 2, 1}}});
}

/// The block of Gu and Dao, figure 3.
TensorId mamba_layer(GraphBuilder& builder, TensorId x, const MambaSizes& sizes) {
  const auto linear = [&](const std::string& name, TensorId in, std::int64_t out, bool bias) {
    return builder.add("linear", name, {in}, {{"out", Sizes{out}}, {"bias", bias ? 1 : 0}});
  };
  const auto halves = builder.add_all(
      "split", "halves", {linear("in", builder.add("rms_norm", "norm", {x}), 2 * sizes.inner, false)},
      {{"axis", 2}, {"sizes", Sizes{sizes.inner, sizes.inner}}});
  const TensorId y = causal_convolution(builder, halves[0], sizes);
  const auto selected =
      builder.add_all("split", "selected", {linear("select", y, sizes.rank + 2 * sizes.states, false)},
                      {{"axis", 2}, {"sizes", Sizes{sizes.rank, sizes.states, sizes.states}}});
  const TensorId delta = builder.add("softplus", "step", {linear("step_in", selected[0], sizes.inner, true)});
  const TensorId scanned = builder.add("selective_scan", "scan", {y, delta, selected[1], selected[2]});
  const TensorId gated = builder.add("mul", "gate", {scanned, builder.add("silu", "gate_silu", {halves[1]})});
  return builder.add("add", "add", {x, linear("out", gated, sizes.hidden, false)});
}

OperatorGraph mamba(const ZooValues& values) {
  MambaSizes sizes;
  sizes.batch = values.integer("batch"), sizes.sequence = values.integer("sequence");
  sizes.hidden = values.integer("hidden"), sizes.inner = values.integer("expand") * sizes.hidden;
  sizes.states = values.integer("states"), sizes.kernel = values.integer("kernel");
  sizes.rank = (sizes.hidden + 15) / 16;
  GraphBuilder builder(values.name(), sizes.batch, values.data_type());
  const std::int64_t vocabulary = values.integer("vocab");
  const TensorId words = builder.data("words", {sizes.batch, sizes.sequence}, DataType::Int64);
  TensorId x =
      builder.add("embedding", "word_embedding", {words}, {{"rows", vocabulary}, {"width", sizes.hidden}});
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    builder.begin_repeat("layer", i);
    x = mamba_layer(builder, x, sizes);
    builder.end_repeat();
  }
  x = builder.add("rms_norm", "norm", {x});
  const TensorId scores =
      builder.add("linear", "projection", {x},
                  {{"out", Sizes{vocabulary}}, {"bias", 0}, {"transpose_weight", 1}, {"uneven", 1}},
                  {"word_embedding.w"});
  const TensorId labels = builder.data("labels", {sizes.batch, sizes.sequence}, DataType::Int64);
  builder.add("cross_entropy", "loss", {scores, labels});
  return builder.build();
}

ZooModel mamba_model(const std::string& size, std::int64_t layers, std::int64_t hidden) {
  ZooOptions options = {batch_option(64, "4 for each of 16 devices"),
                        dtype_option("bfloat16"),
                        ZooOption::integer("sequence", 2048, 1, 1 << 24, "tokens of a sample"),
                        ZooOption::integer("layers", layers, 1, 1000, "layers"),
                        ZooOption::integer("hidden", hidden, 1, 1 << 17, "width of the residual stream"),
                        ZooOption::integer("expand", 2, 1, 16, "width within a layer, in terms of hidden"),
                        ZooOption::integer("states", 16, 1, 1 << 10, "states of a channel"),
                        ZooOption::integer("kernel", 4, 1, 64, "positions that the convolution sees"),
                        ZooOption::integer("vocab", 50280, 2, 1000000, "words of the vocabulary")};
  return {"mamba-" + size, "Mamba of " + size + " parameters, selective state spaces in place of attention",
          "Gu and Dao, 2023, table 12; arXiv:2312.00752", std::move(options), mamba};
}

}  // namespace

std::vector<ZooModel> mamba_models() {
  return {mamba_model("130m", 24, 768), mamba_model("370m", 48, 1024), mamba_model("790m", 48, 1536),
          mamba_model("1.4b", 48, 2048), mamba_model("2.8b", 64, 2560)};
}

}  // namespace pipesim
