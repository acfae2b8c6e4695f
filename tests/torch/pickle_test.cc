#include "torch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry::torch {
namespace {

using Kind = PickleValue::Kind;
using testing::HasSubstr;

std::string ErrorOf(std::string_view bytes, const PickleLimits& limits = {}) {
  try {
    Pickle::Load(bytes, limits);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::string Text(std::string_view text) {
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(text.size() >> (8 * i)));
  return out.append(text);
}

// A tensor of shape [2, 3] in a dict, as torch.save writes it.
std::string PickledTensor() {
  std::string storage = "(" + Text("storage") + "ctorch\nFloatStorage\n" + Text("0") + Text("cpu") + "K\x06tQ";
  return std::string("\x80\x02}") + Text("w") + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
         std::string("K\x00K\x02K\x03\x86K\x03K\x01\x86\x89", 13) + "ccollections\nOrderedDict\n)RtRs.";
}

TEST(Pickle, ReadsPlainValues) {
  Pickle pickle =
      Pickle::Load(std::string_view("\x80\x02(NK\x05M\x01\x02J\xff\xff\xff\xff\x88G\x3f\xf8\0\0\0\0\0\0]t.", 27));
  const auto& items = pickle.root().AsSequence();
  ASSERT_EQ(items.size(), 7u);
  EXPECT_TRUE(items[0]->is_none());
  EXPECT_EQ(items[1]->AsInt(), 5);
  EXPECT_EQ(items[2]->AsInt(), 513);
  EXPECT_EQ(items[3]->AsInt(), -1);
  EXPECT_TRUE(items[4]->AsBool());
  EXPECT_EQ(items[5]->number, 1.5);
  EXPECT_THROW(items[6]->AsInt(), Error);
}

TEST(Pickle, ReadsLongIntegers) {
  EXPECT_EQ(Pickle::Load(std::string_view("\x8a\x01\xff.", 4)).root().AsInt(), -1);
  EXPECT_EQ(Pickle::Load(std::string_view("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\0.", 12)).root().AsInt(),
            INT64_MAX);
  EXPECT_NE(ErrorOf(std::string_view("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.", 12)), "");
}

TEST(Pickle, ReadsTensors) {
  Pickle pickle = Pickle::Load(PickledTensor());
  const PickleValue* value = pickle.root().Find("w");
  ASSERT_TRUE(value && value->is(Kind::kTensor));
  EXPECT_EQ(value->tensor->dtype, DType::kFloat);
  EXPECT_EQ(value->tensor->sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(value->tensor->storage.key, "0");
}

TEST(Pickle, RefusesEveryCut) {
  std::string whole = PickledTensor();
  ASSERT_EQ(ErrorOf(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) EXPECT_NE(ErrorOf(whole.substr(0, length)), "") << length;
}

TEST(Pickle, SurvivesEveryChangedByte) {
  std::string whole = PickledTensor();
  for (size_t at = 0; at < whole.size(); ++at)
    for (int value : {0, 1, int{'('}, int{'.'}, int{'R'}, int{'K'}, int{'q'}, 0x80, 0x8a, 0x94, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      ErrorOf(changed);
    }
}

TEST(Pickle, CallsNothingItDoesNotKnow) {
  EXPECT_THAT(ErrorOf("cos\nsystem\n(" + Text("rm -rf /") + "tR."), HasSubstr("'os.system'"));
  EXPECT_THAT(ErrorOf("cbuiltins\neval\n(" + Text("1") + "tR."), HasSubstr("'builtins.eval'"));
  EXPECT_THAT(ErrorOf("\x80\x04" + Text("posix") + Text("system") + "\x93."), HasSubstr("'posix.system'"));
  EXPECT_THAT(ErrorOf("cnumpy.core.multiarray\n_reconstruct\n."), HasSubstr("numpy.core"));
  // Names that are types are not functions.
  EXPECT_NE(ErrorOf("ctorch\nFloatStorage\n)R."), "");
  EXPECT_NE(ErrorOf("K\x01)R."), "");
}

TEST(Pickle, RefusesOpcodesThatRunCode) {
  for (std::string_view opcodes : {"(ios\nsystem\n.", "(cos\nsystem\no.", "\x82\x01.", "P0\n."})
    EXPECT_NE(ErrorOf(opcodes), "");
}

TEST(Pickle, RefusesValuesThatContainThemselves) {
  EXPECT_THAT(ErrorOf(std::string_view("]q\0h\0a.", 7)), HasSubstr("contains itself"));
}

TEST(Pickle, RefusesDeepNesting) {
  std::string deep(1'000'000, ']');
  deep += std::string(999'999, 'a') + ".";
  EXPECT_THAT(ErrorOf(deep), HasSubstr("deep"));
  std::string marks(1'000'000, '(');
  EXPECT_NE(ErrorOf(marks), "");
}

TEST(Pickle, RefusesSharingThatUnfoldsWithoutEnd) {
  std::string laughs = ")";
  for (int i = 0; i < 60; ++i) laughs += "2\x86";
  EXPECT_THAT(ErrorOf(laughs + "."), HasSubstr("without end"));
}

TEST(Pickle, RefusesTensorsThatContradictThemselves) {
  std::string bad = PickledTensor();
  size_t sizes = bad.find("K\x03K\x01\x86");
  EXPECT_NE(ErrorOf(bad.replace(sizes, 5, "K\x03N\x86\x85")), "");
}

}  // namespace
}  // namespace ferry::torch
