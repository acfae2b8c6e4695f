#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/utf8.h"
#include "generate/tokenizer.h"

// A tokenizer.json; what it makes of a text must be text again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto tokenizer = ferry::Tokenizer::Parse({reinterpret_cast<const char*>(data), size});
    for (const char* text : {"", "Hello,  wörld's 123\n\n <s>x</s>", "\xff\xe4\xb8\xad e\u0301 \U0001F44D"}) try {
        const auto ids = tokenizer->Encode(text);
        if (!ferry::IsValidUtf8(tokenizer->Decode(ids, false))) std::abort();
        ferry::TextStream stream(tokenizer);
        for (ferry::TokenId id : ids)
          if (!ferry::IsValidUtf8(stream.Add(id))) std::abort();
        stream.Finish();
      } catch (const ferry::Error&) {
      }
  } catch (const ferry::Error&) {
  }
  return 0;
}
