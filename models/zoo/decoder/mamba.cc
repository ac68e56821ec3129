#include <string>
#include <utility>

#include "models/graph_builder.h"
#include "models/zoo/decoder/scans.h"
#include "models/zoo/families.h"
#include "models/zoo/options.h"

namespace pipesim {

namespace {

OperatorGraph mamba(const ZooValues& values) {
  const std::int64_t batch = values.integer("batch"), sequence = values.integer("sequence"),
                     hidden = values.integer("hidden"), vocabulary = values.integer("vocab");
  const SelectiveSizes sizes{.hidden = hidden,
                             .inner = values.integer("expand") * hidden,
                             .states = values.integer("states"),
                             .kernel = values.integer("kernel"),
                             .rank = (hidden + 15) / 16};
  GraphBuilder builder(values.name(), batch, values.data_type());
  const TensorId words = builder.data("words", {batch, sequence}, DataType::Int64);
  TensorId x = builder.add("embedding", "word_embedding", {words}, {{"rows", vocabulary}, {"width", hidden}});
  for (std::int64_t i = 1; i <= values.integer("layers"); ++i) {
    builder.begin_repeat("layer", i);
    x = builder.add("add", "add",
                    {x, selective_mixer(builder, "", builder.add("rms_norm", "norm", {x}), sizes)});
    builder.end_repeat();
  }
  x = builder.add("rms_norm", "norm", {x});
  const TensorId scores =
      builder.add("linear", "projection", {x},
                  {{"out", Sizes{vocabulary}}, {"bias", 0}, {"transpose_weight", 1}, {"uneven", 1}},
                  {"word_embedding.w"});
  const TensorId labels = builder.data("labels", {batch, sequence}, DataType::Int64);
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
