#include "eval/ruler/words.h"

#include <iterator>

namespace anchorage::eval::ruler {
namespace {

constexpr std::string_view kAdjectives[] = {
    "amber",    "ancient", "bitter", "bright",  "broad",   "broken",   "calm",    "careful",
    "cheerful", "clever",  "cloudy", "cold",    "copper",  "crooked",  "curious", "dark",
    "deep",     "distant", "dry",    "dusty",   "early",   "empty",    "faded",   "faithful",
    "famous",   "fierce",  "foggy",  "fragile", "frozen",  "gentle",   "golden",  "grey",
    "happy",    "heavy",   "hollow", "honest",  "humble",  "idle",     "iron",    "jolly",
    "late",     "lazy",    "lively", "lonely",  "long",    "loud",     "lucky",   "mellow",
    "modest",   "muddy",   "narrow", "noisy",   "old",     "pale",     "patient", "plain",
    "polite",   "proud",   "quick",  "quiet",   "rare",    "restless", "rough",   "round",
    "rusty",    "salty",   "sharp",  "shiny",   "silent",  "silver",   "simple",  "sleepy",
    "slender",  "small",   "smooth", "solemn",  "steady",  "stormy",   "strange", "stubborn",
    "sturdy",   "sunny",   "tall",   "thin",    "thirsty", "tidy",     "tiny",    "tired",
    "velvet",   "warm",    "weary",  "wide",    "wild",    "windy",    "wooden",  "yellow"};

constexpr std::string_view kPeople[] = {
    "actor",   "archer",    "baker",     "barber",    "boatman",  "brewer",    "butcher",
    "captain", "carpenter", "clerk",     "cobbler",   "cook",     "dancer",    "doctor",
    "farmer",  "ferryman",  "fiddler",   "fisherman", "gardener", "glazier",   "grocer",
    "guard",   "hunter",    "innkeeper", "jeweller",  "judge",    "locksmith", "mason",
    "mayor",   "merchant",  "messenger", "miller",    "miner",    "musician",  "neighbour",
    "nurse",   "painter",   "pilot",     "plumber",   "poet",     "porter",    "potter",
    "printer", "sailor",    "shepherd",  "singer",    "smith",    "student",   "tailor",
    "teacher", "traveller", "uncle",     "watchman",  "weaver",   "widow",     "woodcutter"};

constexpr std::string_view kThings[] = {
    "anchor",  "apple",    "apron",    "arrow",    "barrel",  "basket", "bell",   "blanket",
    "boat",    "book",     "boot",     "bottle",   "bowl",    "bread",  "brick",  "broom",
    "bucket",  "button",   "candle",   "carpet",   "cart",    "chair",  "cheese", "chisel",
    "clock",   "cloth",    "coat",     "coin",     "compass", "cradle", "cup",    "curtain",
    "drum",    "engine",   "envelope", "feather",  "fence",   "flag",   "flute",  "fork",
    "glove",   "hammer",   "harp",     "hat",      "helmet",  "honey",  "hook",   "horn",
    "jacket",  "jar",      "kettle",   "key",      "kite",    "knife",  "ladder", "lamp",
    "lantern", "lemon",    "letter",   "map",      "marble",  "mask",   "mirror", "nail",
    "needle",  "notebook", "oar",      "onion",    "oven",    "parcel", "pear",   "pencil",
    "pepper",  "piano",    "pillow",   "pipe",     "plank",   "plate",  "plough", "pocket",
    "pot",     "pumpkin",  "quilt",    "ribbon",   "ring",    "rope",   "saddle", "sail",
    "saw",     "scarf",    "shirt",    "shoe",     "shovel",  "sledge", "soap",   "spoon",
    "stamp",   "stove",    "sugar",    "table",    "teapot",  "thread", "ticket", "tile",
    "towel",   "trumpet",  "trunk",    "umbrella", "vase",    "violin", "wagon",  "wallet",
    "wheel",   "whistle",  "window",   "wool"};

constexpr std::string_view kPlaces[] = {
    "attic",      "bakery", "barn",     "beach",    "bridge",   "canal",    "castle",    "cave",
    "cellar",     "chapel", "city",     "coast",    "corner",   "cottage",  "courtyard", "desert",
    "farm",       "ferry",  "field",    "forest",   "fort",     "fountain", "garden",    "gate",
    "harbour",    "hill",   "hospital", "inn",      "island",   "kitchen",  "lake",      "library",
    "lighthouse", "market", "meadow",   "mill",     "mountain", "museum",   "office",    "orchard",
    "palace",     "park",   "pond",     "port",     "prison",   "quarry",   "river",     "road",
    "school",     "shop",   "square",   "stable",   "station",  "street",   "theatre",   "tower",
    "tunnel",     "valley", "village",  "vineyard", "wharf",    "workshop"};

constexpr std::string_view kVerbs[] = {
    "admired",  "borrowed",  "bought",     "carried",  "cleaned",  "collected", "counted",
    "covered",  "described", "dropped",    "emptied",  "examined", "fetched",   "filled",
    "followed", "forgot",    "found",      "guarded",  "hid",      "ignored",   "inherited",
    "kept",     "lifted",    "lost",       "measured", "mended",   "moved",     "noticed",
    "opened",   "packed",    "painted",    "passed",   "polished", "praised",   "promised",
    "pulled",   "pushed",    "remembered", "repaired", "returned", "sold",      "sketched",
    "tied",     "traded",    "turned",     "unpacked", "visited",  "washed",    "watched",
    "weighed",  "wrapped"};

constexpr std::string_view kFirstNames[] = {
    "Ada",   "Anton", "Bela",  "Bruno", "Carla", "Clara", "Daria", "Edgar", "Elsa",   "Emil",
    "Fabia", "Felix", "Greta", "Hanna", "Hugo",  "Ida",   "Ivan",  "Jonas", "Julia",  "Karl",
    "Lena",  "Linus", "Lotte", "Marta", "Milo",  "Nadia", "Nils",  "Olga",  "Oscar",  "Paula",
    "Petra", "Quinn", "Rita",  "Robin", "Selma", "Simon", "Tessa", "Tilda", "Victor", "Wanda"};

constexpr std::string_view kLastNames[] = {
    "Abbot", "Alder",   "Barrow",  "Birch",  "Bolt",   "Bramble", "Brook",    "Carver", "Chalk",
    "Clay",  "Cooper",  "Crane",   "Dale",   "Drake",  "Elm",     "Falconer", "Fenn",   "Finch",
    "Flint", "Forrest", "Gale",    "Glover", "Grove",  "Harker",  "Hawthorn", "Hazel",  "Heron",
    "Holm",  "Ives",    "Kestrel", "Lark",   "Linden", "Marsh",   "Merle",    "Moss",   "Nettle",
    "Oakes", "Parr",    "Pike",    "Quill",  "Reed",   "Ridge",   "Rowan",    "Sedge",  "Sharp",
    "Stone", "Swift",   "Tarn",    "Thorne", "Vale",   "Wade",    "Warren",   "Wells",  "Wren"};

constexpr std::string_view kTownBegins[] = {"Ald", "Bar", "Brin", "Cald", "Dun", "East", "Fal",
                                            "Gar", "Hel", "Kel",  "Lin",  "Mar", "Nor",  "Old",
                                            "Pen", "Rav", "Sel",  "Tor",  "Wes", "Yar"};
constexpr std::string_view kTownMiddles[] = {"",   "ber", "den", "er", "ing",
                                             "le", "min", "o",   "ten"};
constexpr std::string_view kTownEnds[] = {
    "bridge", "bury", "combe", "croft", "dale",  "field", "ford",  "gate", "ham",  "haven",
    "hurst",  "ley",  "mere",  "moor",  "mouth", "port",  "stead", "ton",  "well", "worth"};

constexpr std::string_view kCompanyBegins[] = {"Al",   "Bor", "Cor", "Del", "Fin", "Gal", "Hex",
                                               "Jor",  "Kal", "Lum", "Mer", "Nov", "Or",  "Pol",
                                               "Quan", "Sol", "Tal", "Vel", "Xan", "Zen"};
constexpr std::string_view kCompanyMiddles[] = {"a", "ba", "do", "e", "i", "li", "mo", "tra"};
constexpr std::string_view kCompanyEnds[] = {"can", "dex", "gen", "lis", "mar", "nix",
                                             "no",  "ra",  "rix", "tec", "via", "xo"};

template <typename Begins, typename Middles, typename Ends>
std::string Joined(Random& random, const Begins& begins, const Middles& middles, const Ends& ends) {
  std::string name(random.Pick(begins));
  name += random.Pick(middles);
  name += random.Pick(ends);
  return name;
}

}  // namespace

std::span<const std::string_view> Adjectives() { return kAdjectives; }
std::span<const std::string_view> People() { return kPeople; }
std::span<const std::string_view> Things() { return kThings; }
std::span<const std::string_view> Places() { return kPlaces; }
std::span<const std::string_view> Verbs() { return kVerbs; }

std::string_view AnyNoun(Random& random) {
  const size_t people = std::size(kPeople);
  const size_t things = std::size(kThings);
  const size_t index = random.Below(people + things + std::size(kPlaces));
  if (index < people) return kPeople[index];
  if (index < people + things) return kThings[index - people];
  return kPlaces[index - people - things];
}

std::string PersonName(Random& random) {
  std::string name(random.Pick(kFirstNames));
  name += " ";
  name += random.Pick(kLastNames);
  return name;
}

std::string TownName(Random& random) {
  return Joined(random, kTownBegins, kTownMiddles, kTownEnds);
}

std::string CompanyName(Random& random) {
  return Joined(random, kCompanyBegins, kCompanyMiddles, kCompanyEnds);
}

}  // namespace anchorage::eval::ruler
