// Stand-ins for questions over retrieved documents: short made-up documents, one or two of which
// hold the answer.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "eval/ruler/families.h"
#include "eval/ruler/haystack.h"
#include "eval/ruler/words.h"

namespace anchorage::eval::ruler {
namespace {

// Names that are all different.
class Register {
 public:
  explicit Register(Random random) : random_(random) {}

  std::string Person() { return New(&PersonName); }
  std::string Town() { return New(&TownName); }
  std::string Company() { return New(&CompanyName); }
  std::string Job() { return std::string(random_.Pick(People())); }
  std::string Possession() {
    return absl::StrCat(std::string(random_.Pick(Adjectives())), " ",
                        std::string(random_.Pick(Things())));
  }

 private:
  std::string New(std::string (*draw)(Random&)) {
    return DrawNew(used_, [this, draw] { return draw(random_); });
  }

  Random random_;
  std::set<std::string> used_;
};

std::string Life(Register& names, const std::string& person, const std::string& town) {
  return absl::StrFormat(
      "%s was born in the town of %s. %s worked there as a %s for many years and never sold the "
      "%s.",
      person, town, person, names.Job(), names.Possession());
}

std::string Employment(Register& names, const std::string& person, const std::string& company) {
  return absl::StrFormat("%s works for the company %s. Before that, %s was a %s.", person, company,
                         person, names.Job());
}

std::string Seat(Register& names, const std::string& company, const std::string& town) {
  return absl::StrFormat("The company %s has its seat in the town of %s. It is known for the %s.",
                         company, town, names.Possession());
}

std::string Prompt(Random order, std::vector<std::string> documents, const std::string& question) {
  order.Shuffle(documents);
  std::string listed;
  for (size_t i = 0; i < documents.size(); ++i) {
    absl::StrAppend(&listed, "Document ", i + 1, ":\n", documents[i], "\n\n");
  }
  constexpr const char* kTask =
      "Answer the question based on the given documents. Only give me the answer and do not output "
      "any other words.";
  return absl::StrCat(kTask, "\n\nThe following are given documents.\n\n", listed, kTask,
                      "\n\nQuestion: ", question);
}

}  // namespace

Draft OneHopQuestion(const Brief& brief) {
  Register names(brief.Stream("facts"));
  const std::string person = names.Person();
  const std::string town = names.Town();
  std::vector<std::string> documents = {Life(names, person, town)};
  for (int64_t i = 0; i < brief.units; ++i) {
    const std::string other = names.Person();
    documents.push_back(Life(names, other, names.Town()));
  }
  Draft draft;
  draft.prompt = Prompt(brief.Stream("order"), std::move(documents),
                        absl::StrFormat("In which town was %s born?", person));
  draft.cue = absl::StrFormat("Answer: %s was born in the town of", person);
  draft.refs = {town};
  return draft;
}

Draft TwoHopQuestion(const Brief& brief) {
  Register names(brief.Stream("facts"));
  const std::string person = names.Person();
  const std::string company = names.Company();
  const std::string town = names.Town();
  std::vector<std::string> documents = {Employment(names, person, company),
                                        Seat(names, company, town)};
  for (int64_t i = 0; i < brief.units; ++i) {
    const std::string other = names.Person();
    const std::string other_company = names.Company();
    documents.push_back(Employment(names, other, other_company));
    documents.push_back(Seat(names, other_company, names.Town()));
  }
  Draft draft;
  draft.prompt = Prompt(
      brief.Stream("order"), std::move(documents),
      absl::StrFormat("In which town is the seat of the company that %s works for?", person));
  draft.cue =
      absl::StrFormat("Answer: The company that %s works for has its seat in the town of", person);
  draft.refs = {town};
  return draft;
}

}  // namespace anchorage::eval::ruler
