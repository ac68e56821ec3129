#include "models/zoo/recurrent_network.h"

namespace pipesim {

UnrolledNetwork::UnrolledNetwork(const ZooValues& values)
    : builder(values.name(), values.integer("batch"), values.data_type()),
      batch(values.integer("batch")),
      steps(values.integer("steps")),
      hidden(values.integer("hidden")),
      embedded(values.integer("embedded")),
      vocabulary(values.integer("vocab")) {}

LstmState UnrolledNetwork::initial_state(const std::string& name) {
  return {builder.data(name + ".h0", {batch, hidden}), builder.data(name + ".c0", {batch, hidden})};
}

std::vector<LstmState> UnrolledNetwork::initial_states(const std::string& prefix, std::int64_t count) {
  std::vector<LstmState> states;
  for (std::int64_t layer = 1; layer <= count; ++layer) {
    states.push_back(initial_state(of_step(prefix + "lstm", layer)));
  }
  return states;
}

TensorId UnrolledNetwork::embed(const std::string& prefix, TensorId word) {
  return builder.add("embedding", "embedding", {word}, {{"rows", vocabulary}, {"width", embedded}},
                     {prefix + "embedding.w"});
}

TensorId UnrolledNetwork::lstm(const std::string& prefix, const std::string& layer, TensorId x,
                               LstmState& state) {
  const std::string weights = prefix + layer;
  const auto next = builder.add_all("lstm_cell", layer, {x, state.h, state.c}, {{"hidden", hidden}},
                                    {weights + ".wx", weights + ".wh", weights + ".b"});
  state = {next[0], next[1]};
  return state.h;
}

TensorId UnrolledNetwork::step(const std::string& prefix, TensorId word, std::vector<LstmState>& states) {
  TensorId x = embed(prefix, word);
  for (std::size_t i = 0; i < states.size(); ++i) {
    x = lstm(prefix, of_step("lstm", static_cast<std::int64_t>(i) + 1), x, states[i]);
  }
  return x;
}

TensorId UnrolledNetwork::row(TensorId h) {
  return builder.add("reshape", "row", {h}, {{"shape", Sizes{batch, 1, hidden}}});
}

EncodedSentence UnrolledNetwork::encoded(const std::vector<TensorId>& rows) {
  const TensorId values = builder.add("concat", "encoder.rows", rows, {{"axis", 1}});
  const Attributes keys = {{"out", Sizes{hidden}}, {"bias", 0}};
  return {values, builder.add("linear", "attention.keys", {values}, keys)};
}

TensorId UnrolledNetwork::context(const EncodedSentence& source, TensorId h) {
  const TensorId query =
      builder.add("linear", "query", {h}, {{"out", Sizes{hidden}}, {"bias", 0}}, {"attention.query.w"});
  return builder.add("bahdanau_attention", "attention", {query, source.keys, source.values}, {},
                     {"attention.v"});
}

void UnrolledNetwork::predict(TensorId x, TensorId label) {
  const TensorId scores =
      builder.add("linear", "projection", {x}, {{"out", Sizes{vocabulary}}, {"uneven", 1}},
                  {"projection.w", "projection.b"});
  builder.add("cross_entropy", "loss", {scores, label});
}

std::string of_step(const std::string& name, std::int64_t step) { return name + std::to_string(step); }

ZooOption lstm_layers_option(std::int64_t value, std::int64_t lowest, const std::string& help) {
  return ZooOption::integer("layers", value, lowest, 64, help);
}

ZooOptions recurrent_options(const ZooOption& layers, std::int64_t hidden, std::int64_t vocabulary,
                             const std::string& vocabulary_help) {
  return {batch_option(1024, "64 for each of 16 devices"),
          dtype_option(),
          ZooOption::integer("steps", 40, 1, 1000, "unrolled steps, the length of a sentence"),
          layers,
          ZooOption::integer("hidden", hidden, 1, 1 << 18, "width of an LSTM layer"),
          ZooOption::integer("embedded", hidden, 1, 1 << 18, "width of a word's embedding"),
          ZooOption::integer("vocab", vocabulary, 2, 1000000, vocabulary_help)};
}

}  // namespace pipesim
