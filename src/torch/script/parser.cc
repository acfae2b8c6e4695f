#include "torch/script/parser.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "torch/script/lexer.h"

namespace ferry::torch::script {
namespace {

using Kind = Expression::Kind;

constexpr int kDeepestExpression = 256;
constexpr int kDeepestBlock = 100;

struct BinaryOperator {
  std::string_view symbol;
  int binding;  // tighter operators have higher numbers
  std::string_view function;
};
constexpr BinaryOperator kBinaryOperators[] = {
    {"or", 1, "__or__"},    {"and", 2, "__and__"},   {"==", 4, "eq"},         {"!=", 4, "ne"},
    {"<", 4, "lt"},         {"<=", 4, "le"},         {">", 4, "gt"},          {">=", 4, "ge"},
    {"is", 4, "__is__"},    {"in", 4, "in"},         {"|", 5, "__or__"},      {"^", 6, "__xor__"},
    {"&", 7, "__and__"},    {"<<", 8, "__lshift__"}, {">>", 8, "__rshift__"}, {"+", 9, "add"},
    {"-", 9, "sub"},        {"*", 10, "mul"},        {"/", 10, "div"},        {"//", 10, "floordiv"},
    {"%", 10, "remainder"}, {"@", 10, "matmul"},     {"**", 12, "pow"},
};
constexpr int kNotBinding = 3, kUnaryBinding = 11;

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : tokens_(Tokenize(text)), name_(name) {}

  SourceFile ParseFile() {
    SourceFile file;
    while (Now().kind != Token::Kind::kEnd) {
      if (TakeWord("class"))
        file.classes.push_back(ParseClass());
      else if (TakeWord("def"))
        file.functions.push_back(ParseFunction());
      else if (TakeWord("op_version_set"))  // old files begin with it
        SkipLine();
      else
        Wrong("expected a class or a function, found ", Shown(Now()));
    }
    return file;
  }

 private:
  // --- words

  template <class... Parts>
  [[noreturn]] void Wrong(const Parts&... parts) const {
    Fail(ErrorCode::kInvalidModel, "line ", Now().line, ": ", parts...);
  }
  static std::string Shown(const Token& token) {
    switch (token.kind) {
      case Token::Kind::kNewline: return "the end of a line";
      case Token::Kind::kIndent: return "a deeper block";
      case Token::Kind::kDedent: return "the end of a block";
      case Token::Kind::kEnd: return "the end";
      case Token::Kind::kString: return "a string";
      case Token::Kind::kInteger:
      case Token::Kind::kFloat:
      case Token::Kind::kImaginary: return "a number";
      default: return Cat("'", Printable(token.text, 40), "'");
    }
  }
  const Token& Now() const { return tokens_[at_]; }
  const Token& Take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Is(Token::Kind kind, std::string_view text) const { return Now().kind == kind && Now().text == text; }
  bool TakeSymbol(std::string_view text) {
    if (!Is(Token::Kind::kSymbol, text)) return false;
    Take();
    return true;
  }
  bool TakeWord(std::string_view text) {
    if (!Is(Token::Kind::kName, text)) return false;
    Take();
    return true;
  }
  void Expect(std::string_view symbol) {
    if (!TakeSymbol(symbol)) Wrong("expected '", symbol, "', found ", Shown(Now()));
  }
  std::string ExpectName() {
    if (Now().kind != Token::Kind::kName) Wrong("expected a name, found ", Shown(Now()));
    return Take().text;
  }
  void ExpectNewline() {
    if (TakeSymbol(";")) return;
    if (Now().kind != Token::Kind::kNewline && Now().kind != Token::Kind::kEnd)
      Wrong("expected the end of the line, found ", Shown(Now()));
    Take();
  }
  void SkipLine() {
    while (Now().kind != Token::Kind::kNewline && Now().kind != Token::Kind::kEnd) Take();
    Take();
  }

  // --- expressions

  ExpressionPtr Make(Kind kind) const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = Now().line;
    return made;
  }
  void AddPart(Expression& to, ExpressionPtr part) const {
    to.depth = std::max(to.depth, part->depth + 1);
    if (to.depth > kDeepestExpression)
      Fail(ErrorCode::kLimit, "line ", Now().line, ": expressions nest more than ", kDeepestExpression, " deep");
    to.parts.push_back(std::move(part));
  }

  struct Deeper {
    explicit Deeper(const Parser& parser, int& depth, int limit) : depth(depth) {
      if (++depth > limit)
        Fail(ErrorCode::kLimit, "line ", parser.Now().line, ": the code nests more than ", limit, " deep");
    }
    ~Deeper() { --depth; }
    int& depth;
  };

  // "a, b" without brackets is a tuple.
  ExpressionPtr ParseExpressions() {
    ExpressionPtr first = ParseExpression();
    if (!Is(Token::Kind::kSymbol, ",")) return first;
    ExpressionPtr tuple = Make(Kind::kTuple);
    AddPart(*tuple, std::move(first));
    while (TakeSymbol(",")) {
      if (Now().kind == Token::Kind::kNewline || Is(Token::Kind::kSymbol, "=")) break;
      AddPart(*tuple, ParseExpression());
    }
    return tuple;
  }

  ExpressionPtr ParseExpression() {
    Deeper deeper(*this, depth_, kDeepestExpression);
    ExpressionPtr value = ParseBinary(0);
    if (!TakeWord("if")) return value;
    ExpressionPtr choice = Make(Kind::kConditional);
    AddPart(*choice, std::move(value));
    AddPart(*choice, ParseBinary(0));
    if (!TakeWord("else")) Wrong("expected 'else', found ", Shown(Now()));
    AddPart(*choice, ParseExpression());
    return choice;
  }

  ExpressionPtr Operation(std::string_view function, ExpressionPtr left, ExpressionPtr right = nullptr) const {
    ExpressionPtr made = Make(Kind::kOperator);
    made->text = function;
    AddPart(*made, std::move(left));
    if (right) AddPart(*made, std::move(right));
    return made;
  }

  const BinaryOperator* NextOperator() const {
    if (Now().kind != Token::Kind::kSymbol && Now().kind != Token::Kind::kName) return nullptr;
    for (const BinaryOperator& op : kBinaryOperators)
      if (op.symbol == Now().text) return &op;
    return nullptr;
  }

  ExpressionPtr ParseBinary(int loosest) {
    Deeper deeper(*this, depth_, kDeepestExpression);
    ExpressionPtr left = ParseUnary();
    for (;;) {
      bool negated_in = Is(Token::Kind::kName, "not");
      const BinaryOperator* op = NextOperator();
      if (negated_in && loosest < 4) {
        Take();
        if (!TakeWord("in")) Wrong("expected 'in', found ", Shown(Now()));
        left = Operation("__not__", Operation("in", std::move(left), ParseBinary(4)));
        continue;
      }
      if (!op || op->binding <= loosest) return left;
      Take();
      std::string_view function = op->function;
      if (function == "__is__" && TakeWord("not")) function = "__isnot__";
      left = Operation(function, std::move(left), ParseBinary(op->binding));
    }
  }

  ExpressionPtr ParseUnary() {
    Deeper deeper(*this, depth_, kDeepestExpression);
    if (TakeWord("not")) return Operation("__not__", ParseBinary(kNotBinding));
    if (TakeSymbol("~")) return Operation("bitwise_not", ParseBinary(kUnaryBinding));
    if (TakeSymbol("-")) {
      ExpressionPtr value = ParseBinary(kUnaryBinding);
      if (value->kind == Kind::kInteger) {
        value->integer = static_cast<int64_t>(-static_cast<uint64_t>(value->integer));
        value->number = -value->number;
        return value;
      }
      if (value->kind == Kind::kFloat || value->kind == Kind::kImaginary) {
        value->number = -value->number;
        return value;
      }
      return Operation("neg", std::move(value));
    }
    return ParsePostfix();
  }

  ExpressionPtr ParsePostfix() {
    ExpressionPtr value = ParseAtom();
    for (;;) {
      if (TakeSymbol(".")) {
        ExpressionPtr attribute = Make(Kind::kAttribute);
        attribute->text = ExpectName();
        AddPart(*attribute, std::move(value));
        value = std::move(attribute);
      } else if (TakeSymbol("(")) {
        value = ParseArguments(std::move(value));
      } else if (TakeSymbol("[")) {
        ExpressionPtr subscript = Make(Kind::kSubscript);
        AddPart(*subscript, std::move(value));
        ExpressionPtr index = Make(Kind::kTuple);
        bool several = ParseItems(*index, "]");
        AddPart(*subscript, index->parts.size() == 1 && !several ? std::move(index->parts[0]) : std::move(index));
        value = std::move(subscript);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr ParseArguments(ExpressionPtr callee) {
    ExpressionPtr call = Make(Kind::kCall);
    AddPart(*call, std::move(callee));
    while (!TakeSymbol(")")) {
      bool named = Now().kind == Token::Kind::kName && at_ + 1 < tokens_.size() &&
                   tokens_[at_ + 1].kind == Token::Kind::kSymbol && tokens_[at_ + 1].text == "=";
      if (named) {
        call->names.push_back(Take().text);
        Take();
      } else if (!call->names.empty()) {
        Wrong("an argument without a name follows one with a name");
      }
      AddPart(*call, ParseExpression());
      if (!TakeSymbol(",") && !Is(Token::Kind::kSymbol, ")")) Wrong("expected ',' or ')', found ", Shown(Now()));
    }
    return call;
  }

  // Items up to the bracket, which is taken; whether a comma was among them.
  bool ParseItems(Expression& into, std::string_view closing) {
    bool comma = false;
    while (!TakeSymbol(closing)) {
      AddPart(into, ParseExpression());
      if (TakeSymbol(","))
        comma = true;
      else if (!Is(Token::Kind::kSymbol, closing))
        Wrong("expected ',' or '", closing, "', found ", Shown(Now()));
    }
    return comma;
  }

  ExpressionPtr ParseAtom() {
    const Token& token = Now();
    switch (token.kind) {
      case Token::Kind::kName: return ParseWord();
      case Token::Kind::kInteger: return Literal(Kind::kInteger);
      case Token::Kind::kFloat: return Literal(Kind::kFloat);
      case Token::Kind::kImaginary: return Literal(Kind::kImaginary);
      case Token::Kind::kString: return Literal(Kind::kString);
      default: break;
    }
    if (TakeSymbol("(")) {
      ExpressionPtr tuple = Make(Kind::kTuple);
      bool comma = ParseItems(*tuple, ")");
      return tuple->parts.size() == 1 && !comma ? std::move(tuple->parts[0]) : std::move(tuple);
    }
    if (TakeSymbol("[")) {
      ExpressionPtr list = Make(Kind::kList);
      ParseItems(*list, "]");
      return list;
    }
    if (TakeSymbol("{")) return ParseDict();
    Wrong("expected a value, found ", Shown(token));
  }

  ExpressionPtr Literal(Kind kind) {
    ExpressionPtr made = Make(kind);
    const Token& token = Take();
    made->integer = token.integer;
    made->number = token.number;
    made->text = token.text;
    return made;
  }

  ExpressionPtr ParseWord() {
    ExpressionPtr made = Make(Kind::kName);
    made->text = Take().text;
    if (made->text == "None") made->kind = Kind::kNone;
    if (made->text == "True") made->kind = Kind::kTrue;
    if (made->text == "False") made->kind = Kind::kFalse;
    return made;
  }

  ExpressionPtr ParseDict() {
    ExpressionPtr dict = Make(Kind::kDict);
    while (!TakeSymbol("}")) {
      AddPart(*dict, ParseExpression());
      Expect(":");
      AddPart(*dict, ParseExpression());
      if (!TakeSymbol(",") && !Is(Token::Kind::kSymbol, "}")) Wrong("expected ',' or '}', found ", Shown(Now()));
    }
    return dict;
  }

  // --- statements

  Block ParseBlock() {
    Deeper deeper(*this, block_depth_, kDeepestBlock);
    Expect(":");
    Block block;
    if (Now().kind != Token::Kind::kNewline) {
      block.push_back(ParseStatement());
      return block;
    }
    Take();
    if (Now().kind != Token::Kind::kIndent) Wrong("expected a block, found ", Shown(Now()));
    Take();
    while (Now().kind != Token::Kind::kDedent && Now().kind != Token::Kind::kEnd) block.push_back(ParseStatement());
    Take();
    return block;
  }

  std::unique_ptr<Statement> ParseStatement() {
    auto made = std::make_unique<Statement>();
    made->line = Now().line;
    using Kind = Statement::Kind;
    if (TakeWord("if")) {
      ParseIf(*made);
    } else if (TakeWord("while")) {
      made->kind = Kind::kWhile;
      made->value = ParseExpression();
      made->body = ParseBlock();
    } else if (TakeWord("for")) {
      made->kind = Kind::kFor;
      made->targets.push_back(ParsePostfix());
      if (!TakeWord("in")) Wrong("expected 'in', found ", Shown(Now()));
      made->value = ParseExpression();
      made->body = ParseBlock();
    } else if (TakeWord("with")) {
      made->kind = Kind::kWith;
      made->value = ParseExpression();
      if (TakeWord("as")) made->targets.push_back(ParsePostfix());
      made->body = ParseBlock();
    } else {
      ParseSimple(*made);
      ExpectNewline();
    }
    return made;
  }

  void ParseIf(Statement& made) {
    Deeper deeper(*this, block_depth_, kDeepestBlock);
    made.kind = Statement::Kind::kIf;
    made.value = ParseExpression();
    made.body = ParseBlock();
    if (Is(Token::Kind::kName, "elif")) {
      auto inner = std::make_unique<Statement>();
      inner->line = Take().line;
      ParseIf(*inner);
      made.otherwise.push_back(std::move(inner));
    } else if (TakeWord("else")) {
      made.otherwise = ParseBlock();
    }
  }

  void ParseSimple(Statement& made) {
    using Kind = Statement::Kind;
    if (TakeWord("pass")) {
      made.kind = Kind::kPass;
    } else if (TakeWord("break")) {
      made.kind = Kind::kBreak;
    } else if (TakeWord("continue")) {
      made.kind = Kind::kContinue;
    } else if (TakeWord("return")) {
      made.kind = Kind::kReturn;
      if (Now().kind != Token::Kind::kNewline) made.value = ParseExpressions();
    } else if (TakeWord("raise")) {
      made.kind = Kind::kRaise;
      made.value = ParseExpressions();
    } else if (TakeWord("assert")) {
      made.kind = Kind::kAssert;
      made.value = ParseExpressions();
    } else {
      ParseAssignment(made);
    }
  }

  void ParseAssignment(Statement& made) {
    made.value = ParseExpressions();
    if (TakeSymbol(":")) ParseExpression();  // an annotation
    while (TakeSymbol("=")) {
      made.kind = Statement::Kind::kAssign;
      made.targets.push_back(std::move(made.value));
      made.value = ParseExpressions();
    }
    if (made.targets.empty()) made.kind = Statement::Kind::kExpression;
  }

  // --- definitions

  std::unique_ptr<Function> ParseFunction() {
    auto function = std::make_unique<Function>();
    function->line = Now().line;
    function->file = name_;
    function->name = ExpectName();
    Expect("(");
    while (!TakeSymbol(")")) {
      FunctionParameter parameter;
      parameter.name = ExpectName();
      if (TakeSymbol(":")) parameter.type = ParseExpression();
      if (TakeSymbol("=")) parameter.default_value = ParseExpression();
      function->parameters.push_back(std::move(parameter));
      if (!TakeSymbol(",") && !Is(Token::Kind::kSymbol, ")")) Wrong("expected ',' or ')', found ", Shown(Now()));
    }
    if (TakeSymbol("->")) ParseExpression();
    function->body = ParseBlock();
    return function;
  }

  std::unique_ptr<Class> ParseClass() {
    auto made = std::make_unique<Class>();
    made->name = ExpectName();
    if (TakeSymbol("(")) {
      made->base = ExpectName();
      while (!TakeSymbol(")")) Take().kind == Token::Kind::kEnd ? Wrong("a bracket is not closed") : void();
    }
    Expect(":");
    ExpectNewline();
    if (Now().kind != Token::Kind::kIndent) return made;  // an empty class
    Take();
    while (Now().kind != Token::Kind::kDedent && Now().kind != Token::Kind::kEnd) ParseMember(*made);
    Take();
    return made;
  }

  void ParseMember(Class& made) {
    if (TakeWord("def")) {
      made.methods.push_back(ParseFunction());
      return;
    }
    if (TakeWord("pass")) return ExpectNewline();
    ExpressionPtr target = ParsePostfix();
    Class::Field field;
    field.name = FieldName(*target);
    if (TakeSymbol(":")) field.type = ParseExpression();
    if (TakeSymbol("=")) field.value = ParseExpressions();
    ExpectNewline();
    if (field.value && (field.name == "__forward_hooks__" || field.name == "__forward_pre_hooks__"))
      for (const ExpressionPtr& hook : field.value->parts) made.hooks.push_back(hook->text);
    if (!field.name.starts_with("__")) made.fields.push_back(std::move(field));
  }

  // A name, or __annotations__["0"] for one that Python does not take.
  std::string FieldName(const Expression& target) const {
    if (target.kind == Kind::kName) return target.text;
    bool annotation = target.kind == Kind::kSubscript && target.parts[0]->text == "__annotations__" &&
                      target.parts[1]->kind == Kind::kString;
    if (!annotation) Wrong("this is no attribute of a class");
    return target.parts[1]->text;
  }

  std::vector<Token> tokens_;
  std::string name_;
  size_t at_ = 0;
  int depth_ = 0, block_depth_ = 0;
};

}  // namespace

const Function* Class::FindMethod(std::string_view wanted) const {
  for (const auto& method : methods)
    if (method->name == wanted) return method.get();
  return nullptr;
}

const Class::Field* Class::FindField(std::string_view wanted) const {
  for (const Field& field : fields)
    if (field.name == wanted) return &field;
  return nullptr;
}

SourceFile ParseSource(std::string_view text, const std::string& name) {
  try {
    return Parser(text, name).ParseFile();
  } catch (Error& error) {
    throw error.At(Printable(name));
  }
}

}  // namespace ferry::torch::script
