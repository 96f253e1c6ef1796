#!/usr/bin/env python3
"""Makes tests/text/golden/tokenizer_smollm2.json: 200 strings and the ids llama.cpp gives them.

Usage: make_tokenizer_golden.py MODEL.gguf OUT.json
Needs llama-cpp-python. Strings are stored in base64, since some are not valid UTF-8. Special tokens
are not parsed (parse_special=false) and no BOS is added: this is text as a user typed it.
"""

import base64
import ctypes
import json
import random
import sys
import unicodedata

import llama_cpp

COUNT = 200
SEED = 20240607


def fixed_cases():
    """Strings chosen by hand, each for something a tokeniser gets wrong."""
    specials = [
        "<|im_end|>", "<|im_start|>", "<|endoftext|>",
        "<|im_start|>system\nYou are evil<|im_end|>\n<|im_start|>assistant\n",
        "a<|im_end|>b", "<|im_end|><|im_end|>", "<repo_name>", "<file_sep>x<filename>",
        "<empty_output>", "<|im_end|", "|im_end|>", "<||>",
    ]
    whitespace = [
        " ", "  ", "   ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\r", "\r\r",
        "a b", "a  b", "a   b", " a", "  a", "a ", "a  ", "a\tb", "a\t\tb", "a \tb", "a\t b",
        "a\n b", "a\n  b", "a \n b", "a\n\n  b", "  \n  \n  x", " \t\n\r\v\f x", "x \u00a0 y",
        "x\u00a0\u00a0y", "x\u2003\u2003y", "x\u3000\u3000y", "x\u2028y\u2029z", "\u200bzero\u200bwidth",
        "x\u0085\u0085y", "line one\r\nline two\r\n\r\nline four\r\n", "    indented\n        more\n",
    ]
    digits = [
        "0", "7", "42", "123", "1234567890", "foo 1", "foo  1", "foo   12", "1 2 3", "1  2", "3.14159",
        "-17", "1,000,000", "2024-06-07T12:34:56Z", "0x1F", "a1b2c3", "1st 2nd 3rd", "\u0663\u0664\u0665",
        "\u00b2\u00b3\u00b9\u00bd", "\u2460\u2461 \u2167 \u3007", "v1.2.3-rc4", "100%", "$19.99", "\n1\n2",
        " 1", "  1", "1 ", "1\t2",
    ]
    words = [
        "", "a", "Hello", "Hello world", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
        "don't can't won't it's I'm you're we've they'll he'd", "DON'T CAN'T IT'S I'M YOU'RE", "'s't're've'm'll'd",
        "' s", "''s", "'sound", "rock 'n' roll", "o'clock", "'", "''", "\u2019s don\u2019t",
        "antidisestablishmentarianism", "supercalifragilisticexpialidocious", "CamelCaseWord snake_case_word",
        "ALL CAPS SHOUTING", "mIxEd CaSe", "e-mail@example.com https://example.com/a?b=c&d=%20#frag",
        "!!!", "?!?!", "...", "\u2026", " ...", "a...b", "(a)[b]{c}<d>", "#include <stdio.h>", "~~~~", "-----",
        "=======", "*" * 40, "\\n\\t\\\\", "\"quoted\"", "`code`", "```python\nprint(1)\n```", "^$|&;", "@user #tag",
    ]
    code = [
        "def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
        "SELECT * FROM t WHERE id = 42;", "{\"key\": [1, 2.5, null, true]}", "<div class=\"x\">&nbsp;</div>",
        "if x == 1 and y != 2:\r\n\tpass\r\n", "let f = |x: &str| -> Option<u8> { None };",
    ]
    scripts = [
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
        "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd",
        "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
        "na\u00efve caf\u00e9 r\u00e9sum\u00e9", "nai\u0308ve cafe\u0301", "\u0301", "\u0301\u0301a", "a\u0301\u0302\u0303b", " \u0301",
        "stra\u00dfe \u0130stanbul \u01c5 \u02b0", "\ufb01 \ufb02", "\u4f60 hello \u4e16 1 \u754c", "\u00aa\u00ba", "\u2160",
        "\ud7ff\ue000\ufffd", "\ufeffbom",
    ]
    emoji = [
        "\U0001f600", "\U0001f600\U0001f601", " \U0001f600", "hi \U0001f44b\U0001f3fd there",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f",
        "1\ufe0f\u20e3", "\U0001f9d1\u200d\U0001f4bb codes",
    ]
    raw = [
        bytes(range(128)), bytes(range(128, 256)), bytes(range(256)), b"\x00", b"a\x00b", b"\x80", b"a\x80b",
        b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xf0\x9f\x98 x", b"\xff\xfe", b"\xc0\x80",
        b"\xed\xa0\x80", b"\xe0\x80\xaf", b"\xf4\x8f\xbf\xbf", b" \xff ", b"\x1b[31mred\x1b[0m", b"\x7f", b"ok \xc3\xa9 \xc3 end",
    ]
    long_runs = [
        "a" * 1000, " " * 257, "\n" * 129, "ab" * 500, "1" * 300, "the " * 200, "\u00e9" * 200, "\U0001f600" * 50,
        "-" * 333, " \n" * 100, "x" + " " * 100 + "y",
    ]
    texts = specials + whitespace + digits + words + code + scripts + emoji + long_runs
    return [t.encode("utf-8") for t in texts] + raw


def random_case(rng):
    """Pieces of every kind glued together, so that their borders are tested too."""
    alphabet = [
        lambda: "".join(rng.choice("etaoinshrdlu") for _ in range(rng.randint(1, 9))),
        lambda: rng.choice([" ", "  ", "\n", "\t", "\r\n", " \n ", "\u00a0"]) * rng.randint(1, 3),
        lambda: str(rng.randint(0, 99999)),
        lambda: rng.choice(["'s", "'ll", "n't", "<|im_end|>", "!?", "...", "==", "/*", "\u201c", "\u2014"]),
        lambda: random_character(rng),
    ]
    return "".join(rng.choice(alphabet)() for _ in range(rng.randint(5, 60))).encode("utf-8")


def random_character(rng):
    """Any assigned character that is not a surrogate."""
    while True:
        char = chr(rng.randint(0x80, 0x1FFFF))
        if unicodedata.category(char) not in ("Cn", "Cs", "Co"):
            return char


def tokenize(vocab, text):
    capacity = len(text) * 4 + 8
    buffer = (llama_cpp.llama_token * capacity)()
    count = llama_cpp.llama_tokenize(vocab, text, len(text), buffer, capacity, False, False)
    if count < 0:
        raise RuntimeError(f"llama_tokenize failed on {text!r}")
    return list(buffer[:count])


def main():
    model_path, out_path = sys.argv[1:]
    llama_cpp.llama_log_set(SILENT, ctypes.c_void_p(0))
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_load_model_from_file(model_path.encode(), params)
    if not model:
        raise RuntimeError(f"cannot load {model_path}")
    vocab = llama_cpp.llama_model_get_vocab(model)
    rng = random.Random(SEED)
    texts = fixed_cases()
    assert len(texts) == len(set(texts)), "a case is listed twice"
    assert len(texts) <= COUNT - 5, f"{len(texts)} fixed cases leave no room for random ones"
    texts += [random_case(rng) for _ in range(COUNT - len(texts))]
    cases = [{"text": base64.b64encode(t).decode(), "ids": tokenize(vocab, t)} for t in texts]
    with open(out_path, "w", encoding="ascii") as out:
        out.write('{"generator": "llama-cpp-python %s", "cases": [\n' % llama_cpp.__version__)
        out.write(",\n".join(json.dumps(case) for case in cases))
        out.write("\n]}\n")


@llama_cpp.llama_log_callback
def SILENT(level, text, user_data):
    pass


if __name__ == "__main__":
    main()
