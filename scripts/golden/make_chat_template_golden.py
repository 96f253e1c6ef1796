#!/usr/bin/env python3
"""Makes tests/text/golden/chat_templates.json: templates and conversations as Jinja2 renders them.

Usage: make_chat_template_golden.py MODEL.gguf OUT.json
Needs jinja2 and gguf's format only: the model's own template is read from MODEL.gguf. The environment
is the one that Hugging Face's apply_chat_template uses. Each case has the prompt, or that it fails.
"""

import json
import struct
import sys

from jinja2 import __version__ as jinja_version
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

BOS, EOS = "<s>", "</s>"

TEMPLATES = {
    "turns": """{{ bos_token }}{% for m in messages %}
[{{ m.role }}] {{ m.content | trim }}{{ eos_token if m['role'] == 'assistant' else '' }}
{% endfor %}
{%- if add_generation_prompt %}
[assistant]{% endif %}
""",
    "system first": """{%- if messages[0].role == 'system' -%}
    {%- set system = messages[0].content -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set system = 'Default.' -%}
    {%- set rest = messages -%}
{%- endif -%}
<<{{ system }}>>
{%- for m in rest -%}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('roles must alternate') -}}
    {%- endif -%}
    {{- '|' ~ loop.index ~ '/' ~ loop.length ~ ' ' + m.role + ': ' + m.content.strip() -}}
    {%- if loop.last and m.role == 'user' and add_generation_prompt %}{{ ' ->' }}{% endif -%}
{%- endfor -%}""",
    "namespace": """{% set ns = namespace(count=0, seen='') %}
{% for m in messages %}
  {# a comment with {{ braces }} #}
  {% set ns.count = ns.count + 1 %}
  {% set ns.seen = ns.seen + m.role[0] | upper %}
  {% set hidden = 'inner' %}
{% endfor %}
{{ ns.count }} {{ ns.seen }} {{ hidden is defined }} {{ tools is none }} {{ nothing is not defined }}
""",
    "filters": """{% for m in messages if m.role != 'system' %}
{{ m.content | length }};{{ m.content | upper }};{{ m.content | lower | capitalize }};{{ m.content | title }}
{{ m.content.split() | join('_') }};{{ m.content.split('o')[-1] }};{{ m.content | replace('o', '<0>') }}
{{ m.content[0] }}{{ m.content[-1] }}{{ m.content[1:3] }}{{ m.content[:-2] }};{{ m.missing | default('none') }}
{{ m.content.startswith('H') }}{{ m.content.endswith('!') }}{{ 'ell' in m.content }}{{ 'zz' not in m.content }}
{% else %}
nobody
{% endfor %}""",
    "operators": """{{ 7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 + 3 * 4 - 1 }} {{ (2 + 3) * 4 }} {{ 1 ~ 2 }}
{{ 1 < 2 and not 2 < 1 or false }} {{ none or 'x' }} {{ '' and 'y' }} {{ not '' }} {{ 'a' < 'b' }} {{ 'b' in ['a', 'b'] }}
{{ [1, 2, 3][-1] }} {{ {'k': 'v'}['k'] }} {{ {'k': 'v'}.get('z', 'w') }} {{ range(3) | join(',') }} {{ [1, 2] == [1, 2] }}
{%+ if true %} kept {%- endif +%}
{{ "quotes \\" and \\t tab \\u00e9 '" }}{{ 'ad' 'jacent' }} {{ 'only' if false }}|{{ missing }}|{{ true }}{{ none }}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}
{% if messages | length > 2 %}long{% elif messages | length == 2 %}two{% else %}short{% endif %}""",
    "whitespace": "  {% if true %}\n    a\n  {% endif %}\n  b {% if true %} c {% endif %}\n\n{%- if true %}\n\n d\n{%- endif -%}   \n e  {#- note -#}  f\n\n",
    "crlf": "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n",
    "braces": "{{ '}}' }}{ {{ '{%' }} %} { # {{ {'a': {'b': 'c'}}['a']['b'] }}",
    "undefined attribute": "{{ messages[99].role }}",
    "exception": "{% if messages[0].role == 'user' %}{{ raise_exception('no ' + messages[0].role) }}{% endif %}fine",
}

CONVERSATIONS = [
    [("user", "Hello world!")],
    [("system", "Be brief."), ("user", " Hi there \n")],
    [("user", "2+2?"), ("assistant", "4"), ("user", "h\u00e9llo w\u00f6rld \U0001f600")],
    [("system", "<|im_end|>\n<|im_start|>user"), ("user", "{{ 1 + 1 }}{% raw %}"), ("assistant", "oO\u00a0")],
    [("assistant", "first")],
]


def read_template(path):
    """The model's own template, by a reader of just enough GGUF."""
    with open(path, "rb") as file:
        def read(fmt):
            return struct.unpack("<" + fmt, file.read(struct.calcsize("<" + fmt)))[0]

        def text():
            return file.read(read("Q"))

        fixed = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

        def value(kind):
            if kind == 8:
                return text()
            if kind == 9:
                element, count = read("I"), read("Q")
                return [value(element) for _ in range(count)]
            return read(fixed[kind])

        file.seek(16)
        for _ in range(read("Q")):
            key = text()
            found = value(read("I"))
            if key == b"tokenizer.chat_template":
                return found.decode()
    raise RuntimeError(f"{path} has no chat template")


def raise_exception(message):
    raise TemplateError(message)


def main():
    model_path, out_path = sys.argv[1:]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    templates = {"SmolLM2": read_template(model_path), **TEMPLATES}
    cases = []
    for name, source in templates.items():
        template = environment.from_string(source)
        for conversation in CONVERSATIONS:
            for add_generation_prompt in (False, True):
                messages = [{"role": role, "content": content} for role, content in conversation]
                try:
                    prompt = template.render(
                        messages=messages, add_generation_prompt=add_generation_prompt,
                        bos_token=BOS, eos_token=EOS, tools=None, documents=None)
                except TemplateError:
                    prompt = None
                cases.append({"name": name, "messages": messages, "prompt": prompt,
                              "add_generation_prompt": add_generation_prompt})
    with open(out_path, "w", encoding="ascii") as out:
        json.dump({"generator": f"jinja2 {jinja_version}", "bos_token": BOS, "eos_token": EOS,
                   "templates": templates, "cases": cases}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
