// Needles in a haystack. In prose a needle stands at one of 40 evenly spaced depths, between two
// sentences; in filler and among other needles at any place.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"
#include "eval/ruler/words.h"

namespace anchorage::eval::ruler {
namespace {

constexpr uint64_t kDepths = 40;
constexpr int64_t kParagraph = 8;  // sentences
constexpr int64_t kFillerParagraph = 5;
constexpr int kManyNeedles = 4;

enum class Kind { kWord, kNumber, kUuid };

const char* Plural(Kind kind) { return kind == Kind::kUuid ? "uuids" : "numbers"; }
const char* Singular(Kind kind) { return kind == Kind::kUuid ? "uuid" : "number"; }

std::string DrawToken(Random& random, Kind kind) {
  switch (kind) {
    case Kind::kWord:
      return absl::StrCat(std::string(random.Pick(Adjectives())), "-",
                          std::string(AnyNoun(random)));
    case Kind::kNumber:
      return absl::StrCat(random.Between(1'000'000, 9'999'999));
    case Kind::kUuid:
      break;
  }
  const uint64_t a = random.Next();
  const uint64_t b = random.Next();
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", a >> 32, (a >> 16) & 0xffff, a & 0xffff,
                         b >> 48, b & 0xffffffffffff);
}

// Keys and values that are all different.
class NeedleMaker {
 public:
  NeedleMaker(Random random, Kind key, Kind value) : random_(random), key_(key), value_(value) {}

  std::string Key() {
    return DrawNew(used_, [this] { return DrawToken(random_, key_); });
  }
  std::string Value() {
    return DrawNew(used_, [this] { return DrawToken(random_, value_); });
  }
  std::string Needle(const std::string& key, const std::string& value) const {
    return absl::StrFormat("One of the special magic %s for %s is: %s.", Plural(value_), key,
                           value);
  }

 private:
  Random random_;
  Kind key_;
  Kind value_;
  std::set<std::string> used_;
};

// `count` different depths in ascending order, as places between `units` sentences.
std::vector<int64_t> PlacesInProse(Random random, int count, int64_t units) {
  std::vector<int64_t> steps(kDepths);
  std::iota(steps.begin(), steps.end(), 0);
  random.Shuffle(steps);
  std::sort(steps.begin(), steps.begin() + count);
  std::vector<int64_t> places;
  for (int i = 0; i < count; ++i) {
    const double depth =
        static_cast<double>(steps[static_cast<size_t>(i)]) / static_cast<double>(kDepths - 1);
    places.push_back(std::llround(depth * static_cast<double>(units)));
  }
  return places;
}

double DepthOf(int64_t place, int64_t units) {
  return units == 0 ? 0 : static_cast<double>(place) / static_cast<double>(units);
}

// "a", "a and b", "a, b, and c"
std::string Listed(const std::vector<std::string>& items) {
  if (items.size() == 1) return items.front();
  const std::vector<std::string> first(items.begin(), items.end() - 1);
  return absl::StrCat(absl::StrJoin(first, ", "), items.size() > 2 ? "," : "", " and ",
                      items.back());
}

Draft Ask(const std::string& context, Kind value, const std::vector<std::string>& keys,
          std::vector<std::string> refs, double depth) {
  const bool one = refs.size() == 1;
  const std::string what = one ? Singular(value) : Plural(value);
  const std::string whose = Listed(keys);
  Draft draft;
  draft.prompt = absl::StrFormat(
      "%s special magic %s %s hidden within the following text. Make sure to memorize it. I will "
      "quiz you about the %s afterwards.\n%s\nWhat %s the special magic %s for %s mentioned in the "
      "provided text?",
      one ? "A" : "Some", what, one ? "is" : "are", what, context, one ? "is" : "are all", what,
      whose);
  draft.cue = absl::StrFormat("The special magic %s for %s mentioned in the provided text %s", what,
                              whose, one ? "is" : "are");
  draft.refs = std::move(refs);
  draft.depth = depth;
  return draft;
}

// One needle in prose.
Draft SingleInProse(const Brief& brief, Kind value_kind) {
  NeedleMaker maker(brief.Stream("needles"), Kind::kWord, value_kind);
  const std::string key = maker.Key();
  const std::string value = maker.Value();
  const std::vector<int64_t> places = PlacesInProse(brief.Stream("depths"), 1, brief.units);
  const std::string context = Hide(ProseSentences(brief.units, brief.Stream("haystack")),
                                   {maker.Needle(key, value)}, places, kParagraph);
  return Ask(context, value_kind, {key}, {value}, DepthOf(places[0], brief.units));
}

// Lines of needles, one of which is asked for.
Draft AmongNeedles(const Brief& brief, Kind key_kind, Kind value_kind) {
  NeedleMaker maker(brief.Stream("needles"), key_kind, value_kind);
  const std::string key = maker.Key();
  const std::string value = maker.Value();
  std::vector<std::string> lines;
  for (int64_t i = 0; i < brief.units; ++i) {
    const std::string other = maker.Key();
    lines.push_back(maker.Needle(other, maker.Value()));
  }
  const auto place =
      static_cast<int64_t>(brief.Stream("depths").Below(static_cast<uint64_t>(brief.units) + 1));
  lines.insert(lines.begin() + place, maker.Needle(key, value));
  return Ask(absl::StrJoin(lines, "\n"), value_kind, {key}, {value}, DepthOf(place, brief.units));
}

// Needles of a key each.
struct Needles {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<std::string> texts;
};

Needles ManyNeedles(const Brief& brief) {
  NeedleMaker maker(brief.Stream("needles"), Kind::kWord, Kind::kNumber);
  Needles needles;
  for (int i = 0; i < kManyNeedles; ++i) {
    needles.keys.push_back(maker.Key());
    needles.values.push_back(maker.Value());
    needles.texts.push_back(maker.Needle(needles.keys.back(), needles.values.back()));
  }
  return needles;
}

}  // namespace

Draft NiahSingle1(const Brief& brief) {
  NeedleMaker maker(brief.Stream("needles"), Kind::kWord, Kind::kNumber);
  const std::string key = maker.Key();
  const std::string value = maker.Value();
  const auto place =
      static_cast<int64_t>(brief.Stream("depths").Below(static_cast<uint64_t>(brief.units) + 1));
  const std::string context =
      Hide(FillerSentences(brief.units), {maker.Needle(key, value)}, {place}, kFillerParagraph);
  return Ask(context, Kind::kNumber, {key}, {value}, DepthOf(place, brief.units));
}

Draft NiahSingle2(const Brief& brief) { return SingleInProse(brief, Kind::kNumber); }
Draft NiahSingle3(const Brief& brief) { return SingleInProse(brief, Kind::kUuid); }

Draft NiahMultikey1(const Brief& brief) {
  const Needles needles = ManyNeedles(brief);
  const std::vector<int64_t> places =
      PlacesInProse(brief.Stream("depths"), kManyNeedles, brief.units);
  const size_t asked = brief.Stream("asked").Below(kManyNeedles);
  const std::string context = Hide(ProseSentences(brief.units, brief.Stream("haystack")),
                                   needles.texts, places, kParagraph);
  return Ask(context, Kind::kNumber, {needles.keys[asked]}, {needles.values[asked]},
             DepthOf(places[asked], brief.units));
}

Draft NiahMultikey2(const Brief& brief) { return AmongNeedles(brief, Kind::kWord, Kind::kNumber); }
Draft NiahMultikey3(const Brief& brief) { return AmongNeedles(brief, Kind::kUuid, Kind::kUuid); }

Draft NiahMultivalue(const Brief& brief) {
  NeedleMaker maker(brief.Stream("needles"), Kind::kWord, Kind::kNumber);
  const std::string key = maker.Key();
  std::vector<std::string> values;
  std::vector<std::string> needles;
  for (int i = 0; i < kManyNeedles; ++i) {
    values.push_back(maker.Value());
    needles.push_back(maker.Needle(key, values.back()));
  }
  const std::string context =
      Hide(ProseSentences(brief.units, brief.Stream("haystack")), needles,
           PlacesInProse(brief.Stream("depths"), kManyNeedles, brief.units), kParagraph);
  return Ask(context, Kind::kNumber, {key}, std::move(values), kNoDepth);
}

Draft NiahMultiquery(const Brief& brief) {
  const Needles needles = ManyNeedles(brief);
  const std::string context =
      Hide(ProseSentences(brief.units, brief.Stream("haystack")), needles.texts,
           PlacesInProse(brief.Stream("depths"), kManyNeedles, brief.units), kParagraph);
  return Ask(context, Kind::kNumber, needles.keys, needles.values, kNoDepth);
}

}  // namespace anchorage::eval::ruler
