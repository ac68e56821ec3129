#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph_builder.h"
#include "models/zoo/options.h"

namespace pipesim {

/// The state of one LSTM layer between two steps.
struct LstmState {
  TensorId h, c;
};

/// The tensors that the attention of every decoder step reads.
struct EncodedSentence {
  TensorId values;  ///< [n, s, hidden], the last encoder layer's outputs
  TensorId keys;    ///< [n, s, hidden], projected once per sentence
};

/// A network unrolled over the steps of a sequence: every step has operators of its own, and they share the
/// weights of their layer. Options batch, dtype, steps, hidden, embedded and vocab. Words, labels and states
/// are tensors of one step, [n] or [n, hidden]. Operators are named within the repeat of their step.
class UnrolledNetwork {
 public:
  explicit UnrolledNetwork(const ZooValues& values);

  /// A data input of word or label numbers, one per sample.
  TensorId words(const std::string& name) { return builder.data(name, {batch}, DataType::Int64); }
  /// Inputs `name`.h0 and `name`.c0, which are zeros in training.
  LstmState initial_state(const std::string& name);
  /// The states of `count` layers, `prefix`lstm1, …
  std::vector<LstmState> initial_states(const std::string& prefix, std::int64_t count);

  /// "embedding" with the table `prefix`embedding.w.
  TensorId embed(const std::string& prefix, TensorId word);
  /// One step of the layer `prefix``layer`; changes the state and returns its h.
  TensorId lstm(const std::string& prefix, const std::string& layer, TensorId x, LstmState& state);
  /// One word through the embedding and the LSTM layers `prefix`lstm1, …; the last layer's output.
  TensorId step(const std::string& prefix, TensorId word, std::vector<LstmState>& states);

  /// One step's output as a row of the sentence, "row": [n, 1, hidden].
  TensorId row(TensorId h);
  EncodedSentence encoded(const std::vector<TensorId>& rows);
  /// Additive attention with a query made of h, "query" and "attention": [n, hidden].
  TensorId context(const EncodedSentence& source, TensorId h);

  /// The step's scores of all words and its loss, "projection" and "loss".
  void predict(TensorId x, TensorId label);

  GraphBuilder builder;
  const std::int64_t batch, steps, hidden, embedded, vocabulary;
};

/// "source3" of "source" and 3.
std::string of_step(const std::string& name, std::int64_t step);

/// Options of unrolled networks. `layers`: option layers.
ZooOptions recurrent_options(const ZooOption& layers, std::int64_t hidden, std::int64_t vocabulary,
                             const std::string& vocabulary_help);
ZooOption lstm_layers_option(std::int64_t value, std::int64_t lowest, const std::string& help);

}  // namespace pipesim
