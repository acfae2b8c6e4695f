// A model to hold requests against.
#pragma once

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/process.h"
#include "graph/model.h"
#include "onnx/writer.h"
#include "server/served_model.h"
#include "server/shared_memory.h"

namespace ferry::server {

struct FuzzModel {
  FuzzModel() {
    host.wide = host.narrow = std::make_shared<Runtime>(1);
    const std::string path =
        (std::filesystem::temp_directory_path() / Cat("ferry-fuzz-", ProcessNumber(), ".onnx")).string();
    Model model;
    model.ir_version = 8;
    model.has_graph = true;
    model.opsets.push_back({"", 17, {}});
    for (auto [input, output, type] :
         {std::tuple{"a", "x", DType::kFloat}, {"b", "y", DType::kString}, {"c", "z", DType::kBool}}) {
      ValueInfo info;
      info.type = Type::Tensor(type, {Dim::Named("n"), 2});
      info.name = input;
      model.graph.inputs.push_back(info);
      info.name = output;
      model.graph.outputs.push_back(info);
      Node node;
      node.op_type = "Identity";
      node.inputs = {input};
      node.outputs = {output};
      model.graph.nodes.push_back(std::move(node));
    }
    WriteModel(model, path);
    served = std::make_unique<ServedModel>("m", 1, ".", path, Json(Json::Object{}), host);
    std::filesystem::remove(path);
  }

  ModelHost host;
  SharedMemory memory{true};
  std::unique_ptr<ServedModel> served;
};

}  // namespace ferry::server
