// The compiled part of the Python package `pipesim`: commands, models and topologies.
// python/_pipesim.pyi says what it has.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "models/model_json.h"
#include "models/onnx/onnx_writer.h"
#include "python/module/command_call.h"
#include "python/module/json_to_python.h"
#include "python/module/needs_execution.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/out_of_memory.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/version.h"
#include "tools/cli/commands/model_work.h"
#include "topologies/files/topology_json.h"

namespace pipesim {
namespace {

namespace py = pybind11;

// A class of pipesim/errors.py, for errors of this kind.
void raise(const char* name, const std::exception& error) {
  PyErr_SetObject(py::module_::import("pipesim.errors").attr(name).ptr(), utf8(error.what()).ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    raise("InputError", error);
  } catch (const UsageError& error) {
    raise("UsageError", error);
  } catch (const DeviceError& error) {
    raise("DeviceError", error);
  } catch (const OutOfMemory& error) {
    raise("OutOfMemory", error);
  } catch (const InternalError& error) {
    raise("InternalError", error);
  }
}

// What each option of a command takes: its argument ("" for a flag), whether it may stand without it, and
// whether it may be given several times.
py::dict options_of(const std::string& command) {
  py::dict options;
  for (const Option& option : command_named(command).options)
    options[py::str(option.name)] = py::make_tuple(option.argument, !option.implied.empty(), option.repeated);
  return options;
}

py::list operators_of(const OperatorGraph& graph) {
  py::list list;
  const std::vector<OperatorWork> work = work_of_operators(graph);
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Operator& op = graph.operators()[i];
    py::dict factors;
    for (const Factor& factor : op.factors) factors[py::str(factor.name)] = factor.size;
    list.append(py::make_tuple(op.name, op.kind, work[i].parameters, work[i].forward.value, factors));
  }
  return list;
}

py::list devices_of(const Topology& topology) {
  py::list list;
  for (std::size_t i = 0; i < topology.num_devices(); ++i) {
    const DeviceId id(i);
    const DeviceKind& kind = topology.kind(id);
    py::dict peaks;
    for (const auto& [type, rate] : kind.peak) peaks[py::str(name_of(type))] = rate.value;
    list.append(py::make_tuple(topology.device(id).name, kind.name, kind.memory.value,
                               kind.memory_bandwidth.value, peaks));
  }
  return list;
}

}  // namespace
}  // namespace pipesim

PYBIND11_MODULE(_pipesim, m) {
  using namespace pipesim;
  using pybind11::arg;
  using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;
  pybind11::register_exception_translator(translate);
  pybind11::register_exception<NeedsExecution>(m, "NeedsExecution");

  m.def("version", &version_text);
  m.def("options_of", &options_of, arg("command"));
  m.def(
      "write_file", [](const std::string& file, const std::string& text) { write_file(file, text); },
      arg("file"), arg("text"));
  m.def("call_command", &call_command, arg("name"), arg("words"), arg("progress"));

  pybind11::class_<OperatorGraph>(m, "OperatorGraph")
      .def(pybind11::init(&open_model), arg("text"), Unlocked())
      .def_property_readonly("name", &OperatorGraph::name)
      .def_property_readonly("batch", &OperatorGraph::batch)
      .def_property_readonly("parameters", &OperatorGraph::parameter_count)
      .def_property_readonly("frozen_parameters", &OperatorGraph::frozen_parameter_count)
      .def_property_readonly("forward_flops", [](const OperatorGraph& g) { return g.forward_flops().value; })
      .def_property_readonly("fingerprint", &OperatorGraph::fingerprint)
      .def("operators", &operators_of)
      .def(
          "to_json", [](const OperatorGraph& g) { return to_json(g); }, Unlocked())
      .def(
          "write_onnx", [](const OperatorGraph& g, const std::string& file) { write_file(file, to_onnx(g)); },
          arg("file"), Unlocked());
  m.def(
      "model_text",
      [](const std::string& text, const std::vector<std::string>& settings) {
        return model_of_config(with_settings(text, settings));
      },
      arg("text"), arg("settings"));

  pybind11::class_<Topology>(m, "Topology")
      .def(pybind11::init(&open_topology), arg("text"), Unlocked())
      .def_property_readonly("name", &Topology::name)
      .def_property_readonly("nodes", &Topology::num_nodes)
      .def_property_readonly("fingerprint", &Topology::fingerprint)
      .def("devices", &devices_of)
      .def(
          "to_json", [](const Topology& t) { return to_compact_json(t); }, Unlocked());
}
