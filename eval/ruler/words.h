// The words that prompts are made of. Plain everyday English, written for this repository.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "eval/random.h"

namespace anchorage::eval::ruler {

std::span<const std::string_view> Adjectives();
std::span<const std::string_view> People();  // "baker"
std::span<const std::string_view> Things();  // "lantern"
std::span<const std::string_view> Places();  // "harbour"
std::span<const std::string_view> Verbs();   // past tense, with an object: "carried"

// Any of people, things and places.
std::string_view AnyNoun(Random& random);

// Invented names. They may repeat.
std::string PersonName(Random& random);   // "Marta Quill"
std::string TownName(Random& random);     // "Brinmoor"
std::string CompanyName(Random& random);  // "Veltrano"

}  // namespace anchorage::eval::ruler
