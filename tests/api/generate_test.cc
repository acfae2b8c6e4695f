// Language models through the C interface and ferry.hpp.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "ferry/ferry.hpp"

namespace {

const char kModel[] = "tests/data/generate/model.onnx";
const char kTokenizer[] = "tests/data/generate/tokenizer.json";

std::string MessageOf(ferry_status* status) {
  std::string message = status ? ferry_status_message(status) : "";
  ferry_status_free(status);
  return message;
}

TEST(GenerateApi, TextAndBackInC) {
  ferry_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(ferry_tokenizer_open(kTokenizer, &tokenizer), nullptr);
  EXPECT_EQ(ferry_tokenizer_size(tokenizer), 1024u);
  EXPECT_EQ(ferry_tokenizer_find(tokenizer, "<|endoftext|>"), 0);
  EXPECT_EQ(ferry_tokenizer_find(tokenizer, "nothing of the kind"), -1);
  ferry_value *ids = nullptr, *text = nullptr;
  ASSERT_EQ(ferry_tokenizer_encode(tokenizer, "Hello", 5, 1, &ids), nullptr);
  const int64_t wrong = 5000;
  EXPECT_EQ(ferry_tensor_dtype(ids), FERRY_INT64);
  ASSERT_EQ(ferry_tokenizer_decode(tokenizer, static_cast<const int64_t*>(ferry_tensor_data(ids)),
                                   static_cast<size_t>(ferry_tensor_size(ids)), 1, &text),
            nullptr);
  EXPECT_STREQ(ferry_tensor_string(text, 0, nullptr), "Hello");
  ferry_value* none = nullptr;
  EXPECT_NE(MessageOf(ferry_tokenizer_decode(tokenizer, &wrong, 1, 1, &none)), "");
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(MessageOf(ferry_tokenizer_open("no such file", &tokenizer)), "");
  EXPECT_NE(MessageOf(ferry_tokenizer_encode(nullptr, "x", 1, 1, &none)), "");
  ferry_value_free(ids);
  ferry_value_free(text);
  ferry_tokenizer_free(tokenizer);
}

TEST(GenerateApi, OptionsAreChecked) {
  ferry_generate_options* options = nullptr;
  ASSERT_EQ(ferry_generate_options_create(&options), nullptr);
  EXPECT_EQ(ferry_generate_options_set(options, "temperature", 0.5), nullptr);
  EXPECT_NE(MessageOf(ferry_generate_options_set(options, "temperature", -1)), "");
  EXPECT_NE(MessageOf(ferry_generate_options_set(options, "max_tokens", 1.5)), "");
  EXPECT_NE(MessageOf(ferry_generate_options_set(options, "heat", 1)), "");
  EXPECT_NE(MessageOf(ferry_generate_options_add_stop(options, "")), "");
  ferry_generate_options_free(options);
}

TEST(GenerateApi, ATextInC) {
  ferry_generator* generator = nullptr;
  ferry_generate_options* options = nullptr;
  ASSERT_EQ(ferry_generator_open(kModel, kTokenizer, nullptr, &generator), nullptr);
  ASSERT_EQ(ferry_generate_options_create(&options), nullptr);
  ASSERT_EQ(ferry_generate_options_set(options, "max_tokens", 8), nullptr);
  std::string streamed;
  auto add = [](void* user, const char* text, size_t length) -> int {
    static_cast<std::string*>(user)->append(text, length);
    return 1;
  };
  ASSERT_EQ(ferry_generate_options_set_on_text(options, add, &streamed), nullptr);
  ferry_generated* made = nullptr;
  ASSERT_EQ(ferry_generate(generator, options, "Return the", std::strlen("Return the"), &made), nullptr);
  size_t length = 0, count = 0;
  EXPECT_EQ(std::string(ferry_generated_text(made, &length)), streamed);
  EXPECT_EQ(length, streamed.size());
  EXPECT_NE(ferry_generated_ids(made, &count), nullptr);
  EXPECT_EQ(count, 8u);
  EXPECT_STREQ(ferry_generated_reason(made), "max-tokens");
  EXPECT_GT(ferry_generated_prompt_count(made), 0u);
  EXPECT_GT(ferry_generated_prompt_seconds(made), 0);
  EXPECT_GT(ferry_generated_seconds(made), 0);
  ferry_generated_free(made);
  ferry_generate_options_cancel(options);
  ferry_status* status = ferry_generate(generator, options, "a", 1, &made);
  EXPECT_EQ(ferry_status_code(status), FERRY_CANCELLED);
  ferry_status_free(status);
  ferry_generate_options_free(options);
  ferry_generator_free(generator);
}

TEST(GenerateApi, TheSameInCpp) {
  const ferry::Tokenizer tokenizer(kTokenizer);
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode("Grüße!")), "Grüße!");
  const ferry::Generator generator(kModel, kTokenizer, {.threads = 1});
  std::string streamed;
  ferry::GenerateOptions options;
  options.max_tokens = 30;
  options.temperature = 0.9;
  options.seed = 4;
  options.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const ferry::Generated made = generator.Generate("Return the", options);
  EXPECT_EQ(streamed, made.text);
  EXPECT_EQ(generator.Generate("Return the", options).ids, made.ids);
  EXPECT_THROW(ferry::Generator("missing.onnx", kTokenizer), ferry::Error);
}

}  // namespace
