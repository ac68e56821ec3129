#include "models/onnx/reader/model_writer.h"

#include <algorithm>
#include <utility>

#include "models/fusion.h"
#include "models/onnx/reader/operator_names.h"

namespace pipesim {

ModelWriter::ModelWriter(std::string name, std::int64_t batch, DataType type)
    : name_(std::move(name)), batch_(batch), type_(type), draft_(name_, batch, type) {}

std::string ModelWriter::unique(const std::string& name) {
  std::string result = name;
  while (!names_.insert(result).second) {
    int& number = numbers_.try_emplace(name, 1).first->second;
    result = name + "_" + std::to_string(++number);
  }
  return result;
}

TensorId ModelWriter::data(const std::string& name, const OnnxShape& shape, DataType type) {
  auto& known = inputs_by_name_[name];
  for (const TensorId tensor : known) {
    const Input& input = inputs_.at(tensor);
    if (input.shape == shape && input.type == type) return tensor;
  }
  Input input{unique(name), shape, type};
  const TensorId tensor = draft_.data(input.name, shape, type);
  inputs_.emplace(tensor, std::move(input));
  known.push_back(tensor);
  return tensor;
}

const std::vector<TensorId>& ModelWriter::add(OperatorRequest request) {
  request.name = unique(request.name);
  std::vector<TensorId> outputs = draft_.add_operator(request);
  for (const TensorId output : outputs) makers_.emplace(output, operators_.size());
  operators_.push_back({std::move(request), std::move(outputs)});
  return operators_.back().outputs;
}

const ModelWriter::Written* ModelWriter::maker(TensorId tensor) const {
  const auto found = makers_.find(tensor);
  return found == makers_.end() ? nullptr : &operators_[found->second];
}

std::vector<std::size_t> ModelWriter::needed(const std::vector<TensorId>& results) const {
  std::vector<bool> alive(operators_.size());
  const auto mark = [&](TensorId tensor) {
    if (const auto made = makers_.find(tensor); made != makers_.end()) alive[made->second] = true;
  };
  for (const TensorId result : results) mark(result);
  for (std::size_t i = operators_.size(); i-- > 0;) {
    if (!alive[i]) continue;
    for (const TensorId input : operators_[i].request.inputs) mark(input);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < alive.size(); ++i) {
    if (alive[i]) order.push_back(i);
  }
  return order;
}

OperatorGraph ModelWriter::build(const std::vector<TensorId>& results) const {
  const std::vector<std::size_t> order = needed(results);
  std::vector<OperatorRequest> requests;
  requests.reserve(order.size());
  for (const std::size_t i : order) requests.push_back(operators_[i].request);
  label_repeats(requests);
  GraphBuilder builder(name_, batch_, type_);
  std::unordered_map<TensorId, TensorId> built;
  std::set<std::string> causal;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (TensorId& input : requests[i].inputs) {
      const auto known = built.find(input);
      if (known == built.end()) {
        const Input& own = inputs_.at(input);
        if (own.causal) causal.insert(own.name);
        input = built[input] = builder.data(own.name, own.shape, own.type);
      } else {
        input = known->second;
      }
    }
    const std::vector<TensorId> outputs = builder.add_operator(requests[i]);
    for (std::size_t o = 0; o < outputs.size(); ++o) built[operators_[order[i]].outputs[o]] = outputs[o];
  }
  return fuse(builder.build(), causal);
}

}  // namespace pipesim
