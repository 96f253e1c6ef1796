// How the prompts of each task are written; AllTasks() in task.h has the table. Every function is
// pure: see Brief.
#pragma once

#include "eval/ruler/task.h"

namespace anchorage::eval::ruler {

// niah.cc: a needle is "One of the special magic numbers for KEY is: VALUE."
Draft NiahSingle1(const Brief& brief);     // word key, number; in filler
Draft NiahSingle2(const Brief& brief);     // word key, number; in prose
Draft NiahSingle3(const Brief& brief);     // word key, uuid; in prose
Draft NiahMultikey1(const Brief& brief);   // four keys, one asked for; in prose
Draft NiahMultikey2(const Brief& brief);   // in nothing but needles
Draft NiahMultikey3(const Brief& brief);   // uuid to uuid, in nothing but needles
Draft NiahMultivalue(const Brief& brief);  // four values of one key; in prose
Draft NiahMultiquery(const Brief& brief);  // four keys, all asked for; in prose

// variable_tracking.cc: a chain of four assignments in filler; which variables have the value?
Draft VariableTracking(const Brief& brief);

// common_words.cc: which ten words of a list come up most often?
Draft CommonWords(const Brief& brief);

// frequent_words.cc: which three made-up words come up most often, their counts falling by Zipf's
// law?
Draft FrequentWords(const Brief& brief);

// question_answering.cc: a fact in one document, or in one document and another it points to.
Draft OneHopQuestion(const Brief& brief);
Draft TwoHopQuestion(const Brief& brief);

// passkey.cc: a number of 64 digits, told twice, in prose.
Draft Passkey(const Brief& brief);

}  // namespace anchorage::eval::ruler
