#include "tests/torch/script_archive.h"

#include "base/text.h"
#include "base/zip.h"
#include "tests/support/temporary_folder.h"

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

std::vector<testing::ZipPart> ScriptArchive::Parts() const {
  std::vector<testing::ZipPart> parts;
  std::string pickled =
      "\x80\x02"
      "c__torch__\nM\n)\x81}(" +
      Text("training") + (training ? "\x88" : "\x89");
  for (size_t i = 0; i < weights.size(); ++i) {
    pickled += Text(weights[i].first) + Vector(i, weights[i].second.size());
    parts.push_back(
        {Cat("m/data/", i),
         {reinterpret_cast<const char*>(weights[i].second.data()), weights[i].second.size() * sizeof(float)}});
  }
  parts.push_back({"m/data.pkl", data.empty() ? pickled + "ub." : data});
  parts.push_back({"m/constants.pkl", "\x80\x02)."});
  parts.push_back({"m/code/__torch__.py", code});
  parts.push_back({"m/version", version});
  return parts;
}

std::string ScriptArchive::Write(const std::string& name) const {
  std::string path = testing::TemporaryPath(name + ".pt");
  ZipWriter zip(path);
  for (const testing::ZipPart& part : Parts()) zip.Add(part.name, part.contents);
  zip.Finish();
  return path;
}

}  // namespace ferry::torch
