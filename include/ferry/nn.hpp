// Networks in C++: define them as in PyTorch, load their weights, run them, and export them to ONNX by tracing.
//
//   SimpleNet model;                                   // see nn/module.hpp
//   model.load_state_dict("simple_net.pt");
//   model.eval();
//   nn::Tensor y = model(nn::randn({1, 10}));
//   nn::export_onnx(model, nn::randn({1, 10}), "simple_net.onnx",
//                   {.input_names = {"x"}, .output_names = {"y"}, .opset_version = 14,
//                    .dynamic_axes = {{"x", {{0, "batch"}}}}});
//
// Names follow PyTorch. Errors are thrown as ferry::Error and name the module. docs/nn.md has the whole of it.
#pragma once

#include "ferry/nn/export.hpp"
