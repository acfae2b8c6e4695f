#include "tests/torch/script_run.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/session.h"
#include "tests/torch/script_archive.h"

namespace ferry::torch {

Exported ExportBody(const std::string& body, int opset) {
  ScriptArchive archive;
  archive.code =
      "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
      "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" +
      body;
  archive.version = "10\n";
  ExportOptions options;
  options.opset = opset;
  options.input_types = {{"x", DType::kFloat, {Dim::Named("n")}}};
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return ExportFile(archive.Write(std::string("body_") + test->name()), options);
}

std::vector<float> RunBody(const std::string& body, const std::vector<float>& x, int opset) {
  std::shared_ptr<Session> session = Session::FromModel(ExportBody(body, opset).model, {.threads = 1});
  std::vector<Value> outputs = session->Run(std::vector<NamedValue>{{"x", Tensor::FromVector(x)}});
  const Tensor& tensor = outputs.at(0).tensor();
  return {tensor.Data<float>(), tensor.Data<float>() + tensor.size()};
}

std::string RefusalOf(const std::string& body) {
  try {
    ExportBody(body);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace ferry::torch
