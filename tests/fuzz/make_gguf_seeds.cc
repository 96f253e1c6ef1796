// Writes the files that the GGUF fuzzer starts from: make_gguf_seeds FOLDER.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/files/gguf_builder.h"
#include "tests/text/tiny_vocabulary.h"

namespace anchorage {
namespace {

using files::GgufBuilder;
using files::GgufValueType;
using files::TensorType;

GgufBuilder EveryValueType() {
  const std::string strings[] = {"a", ""};
  const float floats[] = {1.5f};
  const uint8_t bytes[] = {1, 2, 3};
  GgufBuilder builder;
  builder.AddU32("general.alignment", 64)
      .Add("u8", GgufValueType::kUint8, uint8_t{1})
      .Add("i16", GgufValueType::kInt16, int16_t{-1})
      .Add("u64", GgufValueType::kUint64, ~uint64_t{0})
      .Add("f64", GgufValueType::kFloat64, 1.0)
      .AddBool("bool", true)
      .AddString("string", "text")
      .AddStrings("strings", strings)
      .AddArray<float>("floats", GgufValueType::kFloat32, floats)
      .AddArray<uint8_t>("bytes", GgufValueType::kUint8, bytes);
  return builder;
}

GgufBuilder Tensors() {
  GgufBuilder builder;
  builder.AddTensor("f32", TensorType::kF32, {4, 2}, std::string(32, '\1'))
      .AddTensor("q4_1", TensorType::kQ4_1, {32}, std::string(20, '\2'))
      .AddTensor("q8_0", TensorType::kQ8_0, {32, 1, 1, 1}, std::string(34, '\3'));
  return builder;
}

GgufBuilder Template(const std::string& source) {
  GgufBuilder builder;
  builder.AddString("tokenizer.chat_template", source);
  return builder;
}

GgufBuilder Vocabulary() {
  text::TinyVocabulary vocabulary;
  vocabulary.AddToken("[user]", /*type=*/4);
  vocabulary.chat_template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
  return vocabulary.Builder();
}

constexpr std::string_view kTemplates[] = {
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m.content | trim }}{% endfor "
    "%}",
    "{%- if messages[0].role == 'system' -%}{% set r = messages[1:] %}{% else %}{{ raise_exception"
    "('x') }}{% endif %}{% for m in r if m.content is defined %}{{ loop.index0 % 2 }}{% endfor %}",
    "{% set ns = namespace(n=0, l=[]) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% set "
    "ns.l = "
    "ns.l + [i] %}{% endfor %}{{ ns.n ~ ns.l | join(',') }}{# note #}",
    "{{ messages[1].content.split('<')[-1] | replace('e', 'ee') | title }}{{ {'a': 'b'}.items() | "
    "length }}{{ 'x' if not 1 < 2 or 'a' in 'abc' else -3 // 2 }}",
};

void Write(const std::filesystem::path& path, const GgufBuilder& builder) {
  std::ofstream(path, std::ios::binary) << builder.Build();
}

}  // namespace
}  // namespace anchorage

int main(int argc, char** argv) {
  using namespace anchorage;
  if (argc != 2) {
    std::cerr << "usage: make_gguf_seeds FOLDER\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  Write(folder / "empty.gguf", GgufBuilder());
  Write(folder / "values.gguf", EveryValueType());
  Write(folder / "tensors.gguf", Tensors());
  Write(folder / "vocabulary.gguf", Vocabulary());
  int number = 0;
  for (const std::string_view source : kTemplates) {
    Write(folder / ("template" + std::to_string(number++) + ".gguf"),
          Template(std::string(source)));
  }
  return 0;
}
