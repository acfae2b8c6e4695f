#include "tests/torch/script_archive.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "base/zip.h"

namespace ferry::torch {
namespace {

std::string Text(const std::string& text) {
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(text.size() >> (8 * i)));
  return out + text;
}
std::string Number(size_t number) { return {'K', static_cast<char>(number)}; }

std::string Vector(size_t key, size_t size) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "ctorch\nFloatStorage\n" + Text(Cat(key)) +
         Text("cpu") + Number(size) + "tQ" + Number(0) + Number(size) + "\x85" + Number(1) + "\x85\x89" +
         "ccollections\nOrderedDict\n)RtR";
}

}  // namespace

std::string ScriptArchive::Write(const std::string& name) const {
  std::string path = testing::TempDir() + name + ".pt";
  ZipWriter zip(path);
  std::string pickled =
      "\x80\x02"
      "c__torch__\nM\n)\x81}(" +
      Text("training") + (training ? "\x88" : "\x89");
  for (size_t i = 0; i < weights.size(); ++i) {
    pickled += Text(weights[i].first) + Vector(i, weights[i].second.size());
    zip.Add(Cat("m/data/", i), {reinterpret_cast<const char*>(weights[i].second.data()), weights[i].second.size() * 4});
  }
  zip.Add("m/data.pkl", data.empty() ? pickled + "ub." : data);
  zip.Add("m/constants.pkl", "\x80\x02).");
  zip.Add("m/code/__torch__.py", code);
  zip.Add("m/version", version);
  zip.Finish();
  return path;
}

}  // namespace ferry::torch
