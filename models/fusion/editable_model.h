#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "models/graph_builder.h"
#include "models/operator_graph.h"

namespace pipesim {

/// An operator whose tensors are given by name.
struct EditableOperator {
  OperatorRequest request;  ///< without inputs; names of all outputs
  std::vector<std::string> inputs;
};

/// A graph as a list of operators that can be replaced. Tensors have names, and shapes as far as the graph
/// that it was made of has them.
class EditableModel {
 public:
  explicit EditableModel(const OperatorGraph& graph);

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  /// The operator at a place of the original graph, unless it was replaced.
  [[nodiscard]] const EditableOperator* at(std::size_t place) const;
  /// The place of the operator that makes the tensor; none of data, or where it was replaced.
  [[nodiscard]] std::optional<std::size_t> producer(const std::string& tensor) const;
  /// The place of the only operator that reads the tensor, once; none where there are more or none.
  [[nodiscard]] std::optional<std::size_t> only_reader(const std::string& tensor) const;
  /// Places of the operators that read the tensor, once for each time.
  [[nodiscard]] const std::vector<std::size_t>& readers(const std::string& tensor) const;
  [[nodiscard]] bool is_read(const std::string& tensor) const;
  [[nodiscard]] const std::vector<std::int64_t>& shape(const std::string& tensor) const;
  /// Whether several operators of the original graph have the weight.
  [[nodiscard]] bool shared(const std::string& weight) const;

  /// The name, with a number behind it if there is one of that name.
  std::string new_name(const std::string& name);

  /// Puts `others` in place of one operator; its outputs that are still read must be among theirs. Nothing
  /// else reads what they make in between.
  void replace(std::size_t place, std::vector<EditableOperator> others);
  void remove(std::size_t place) { replace(place, {}); }
  void change(std::size_t place, EditableOperator changed);

  [[nodiscard]] bool changed() const { return changed_; }
  /// Leaves out operators and data whose results were read before and no longer are.
  [[nodiscard]] OperatorGraph build();

 private:
  struct Place {
    std::vector<EditableOperator> operators;
    bool original = true;  ///< one operator, that of the graph
  };
  void set(std::size_t place, std::vector<EditableOperator> operators);
  void remove_unread();

  const OperatorGraph& graph_;
  bool changed_ = false;
  std::vector<Place> places_;
  std::unordered_map<std::string, TensorId> tensors_;       ///< of the original graph
  std::unordered_map<std::string, std::size_t> producers_;  ///< places
  std::unordered_map<std::string, std::vector<std::size_t>> readers_;
  std::unordered_set<std::string> names_;  ///< of operators and tensors
};

}  // namespace pipesim
