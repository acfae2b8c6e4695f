// TorchScript's code as an archive holds it: a small subset of Python, as a tree.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ferry::torch::script {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : uint8_t {
    kNone,
    kTrue,
    kFalse,
    kInteger,
    kFloat,
    kImaginary,
    kString,
    kName,       // text
    kAttribute,  // parts[0].text
    kSubscript,  // parts[0][parts[1]]
    kCall,       // parts[0](parts[1] …); names are of the last arguments
    kList,
    kTuple,
    kDict,         // key, value, key, value …
    kOperator,     // text names the function: "add", "__not__"; parts are its arguments
    kConditional,  // parts[0] if parts[1] else parts[2]
  };

  Kind kind = Kind::kNone;
  int line = 0;
  int depth = 1;  // of expressions inside this one
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<ExpressionPtr> parts;
  std::vector<std::string> names;  // of a call's arguments by name: its last ones
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct FunctionParameter {
  std::string name;
  ExpressionPtr type;           // null when it is not said
  ExpressionPtr default_value;  // null when there is none
};

struct Function {
  std::string name;
  std::vector<FunctionParameter> parameters;
  Block body;
  int line = 0;
  std::string file;
};

struct Class {
  std::string name;
  std::string base;  // "Module", "NamedTuple", "Enum", "" …
  struct Field {
    std::string name;
    ExpressionPtr type, value;  // a value for constants of the class
  };
  std::vector<Field> fields;
  std::vector<std::unique_ptr<Function>> methods;
  std::vector<std::string> hooks;  // functions that run before or after forward

  const Function* FindMethod(std::string_view wanted) const;
  const Field* FindField(std::string_view wanted) const;
};

struct Statement {
  enum class Kind : uint8_t {
    kExpression,  // value
    kAssign,      // targets = value
    kReturn,      // value, may be null
    kIf,          // value, body, otherwise
    kWhile,       // value, body
    kFor,         // targets[0] in value, body
    kRaise,       // value
    kAssert,      // value
    kWith,        // body; value is what is entered
    kPass,
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kPass;
  int line = 0;
  std::vector<ExpressionPtr> targets;
  ExpressionPtr value;
  Block body, otherwise;
};

// A file of an archive's code: "code/__torch__/torch/nn/modules/linear.py".
struct SourceFile {
  std::vector<std::unique_ptr<Class>> classes;
  std::vector<std::unique_ptr<Function>> functions;
};

}  // namespace ferry::torch::script
