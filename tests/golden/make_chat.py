#!/usr/bin/env python3
"""Makes tokenizers/chat.json: chat templates and the prompts Jinja2 renders from them.

    python3 -m venv venv && venv/bin/pip install jinja2==3.1.6
    venv/bin/python tests/golden/make_chat.py [FOLDER]

The templates here say, in the fewest words, what those of the families' models say. With a FOLDER
of real ones (*.jinja, as model files carry them) these are rendered too, for a look before a
release; what is committed was made without.

One case: `template`, `family`, `thinking` ("default", "on", "off"), `system` (may be empty), the
`users` and `answers` of a conversation, `date` (today), and `prompt`: the whole conversation up to
the answer to the last user. BOS and EOS are "<s>" and "</s>".
"""

import datetime
import json
import pathlib
import sys

import jinja2

FOLDER = pathlib.Path(__file__).resolve().parent / "tokenizers"
DATE = datetime.date(2026, 3, 7)
OPEN = "<|im_start|>"
CHATML = """{% for message in messages %}SYSTEM{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}ANSWER{% endif %}"""
QWEN3 = r"""{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role != 'system' %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""
QWEN2 = r"""{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\nYou answer well.<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""
ALWAYS = QWEN2.replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")
SMOLLM3 = r"""{%- set mode = "/no_think" if enable_thinking is defined and not enable_thinking else "/think" -%}
{{- "<|im_start|>system\n" -}}
{{- "## Metadata\n\n" -}}
{{- "Knowledge Cutoff Date: June 2025\n" -}}
{%- set today = strftime_now("%d %B %Y") -%}
{{- "Today Date: " ~ today ~ "\n" -}}
{{- "Reasoning Mode: " + mode + "\n\n" -}}
{{- "## Custom Instructions\n\n" -}}
{%- if messages[0].role == 'system' -%}
    {{- messages[0].content + "\n\n" -}}
{%- elif mode == "/think" -%}
    {{- "Think, then answer.\n\n" -}}
{%- else -%}
    {{- "Answer at once.\n\n" -}}
{%- endif -%}
{{- "<|im_end|>\n" -}}
{%- for message in messages -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {%- if mode == "/think" -%}
            {{ "<|im_start|>assistant\n" + message.content + "<|im_end|>\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + message.content + "<|im_end|>\n" }}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\n" + ("" if mode == "/think" else "<think>\n\n</think>\n") }}
{%- endif -%}"""
LLAMA3 = r"""{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}"""
DATED = r"""{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: " }}
{{- DATE + "\n\n" + system_message + "<|eot_id|>" }}
""" + LLAMA3.split("\n", 1)[1]
GEMMA = r"""{{ bos_token }}{% set ns = namespace(prefix='') %}{% for message in messages %}{% if message['role'] == 'system' %}{% set ns.prefix = message['content'] + '\n\n' %}{% else %}{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' + ns.prefix }}{% set ns.prefix = '' %}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""
EXAONE4 = r"""{%- set roles = {'user': '[|user|]\n', 'assistant': '[|assistant|]\n', 'system': '[|system|]\n', 'tool': '[|tool|]\n'} %}
{%- set ways = namespace(thoughts="<think>\n\n</think>\n\n") %}
{%- for message in messages %}
    {{- roles[message.role] + (ways.thoughts if message.role == 'assistant' else '') + message.content + '[|endofturn|]\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- roles['assistant'] }}
    {%- if enable_thinking is defined and enable_thinking is true %}
        {{- "<think>\n" }}
    {%- else %}
        {{- ways.thoughts }}
    {%- endif %}
{%- endif %}"""
LLAMA2 = r"""{% set ns = namespace(prefix='') %}{% for message in messages %}{% if message['role'] == 'system' %}{% set ns.prefix = '<<SYS>>\n' + message['content'] + '\n<</SYS>>\n\n' %}{% elif message['role'] == 'user' %}{{ bos_token + '[INST] ' + ns.prefix + message['content'].strip() + ' [/INST]' }}{% set ns.prefix = '' %}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"""
MISTRAL = r"""{{ bos_token }}{% set ns = namespace(prefix='') %}{% for message in messages %}{% if message['role'] == 'system' %}{% set ns.prefix = message['content'] + '\n\n' %}{% elif message['role'] == 'user' %}{{ OPEN + ns.prefix + message['content'] + CLOSE }}{% set ns.prefix = '' %}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"""
MISTRAL7 = r"""{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST]' + message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}"""
SMOLLM2 = CHATML.replace("SYSTEM", "{% if loop.first and messages[0]['role'] != 'system' %}{{ "
                         "'<|im_start|>system\nYou are kind<|im_end|>\n' }}{% endif %}")
TEMPLATES = [
    ("chatml", CHATML.replace("SYSTEM", "").replace("ANSWER", ""), ["default"]),
    ("chatml", SMOLLM2.replace("ANSWER", ""), ["default"]),
    ("chatml", QWEN2, ["default"]),
    ("chatml", QWEN3, ["default", "on", "off"]),
    ("chatml", ALWAYS, ["default"]),
    ("smollm3", SMOLLM3, ["default", "on", "off"]),
    ("llama3", LLAMA3, ["default"]),
    ("llama3", DATED.replace("DATE", "\"26 Jul 2024\""), ["default"]),
    ("llama3", DATED.replace("DATE", "strftime_now(\"%d %b %Y\")"), ["default"]),
    ("gemma", GEMMA, ["default"]),
    ("exaone4", EXAONE4, ["default", "on", "off"]),
    ("llama2", LLAMA2, ["default"]),
    ("mistral", MISTRAL.replace("OPEN", "'[INST] '").replace("CLOSE", "' [/INST]'"), ["default"]),
    ("mistral", MISTRAL.replace("OPEN", "'[INST] '").replace("CLOSE", "'[/INST]'"), ["default"]),
    ("mistral", MISTRAL.replace("OPEN", "'[INST]'").replace("CLOSE", "'[/INST]'"), ["default"]),
    ("mistral", MISTRAL7, ["default"]),
]
REAL = {  # file name in FOLDER -> what it must be taken for
    "Qwen-Qwen3-0.6B": ("chatml", ["default", "on", "off"]),
    "Qwen-Qwen2.5-7B-Instruct": ("chatml", ["default"]),
    "HuggingFaceTB-SmolLM3-3B": ("smollm3", ["default", "on", "off"]),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama3", ["default"]),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama3", ["default"]),
    "google-gemma-2-2b-it": ("gemma", ["default"]),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral", ["default"]),
}
CONVERSATIONS = [
    ("", ["Hello"], []),
    ("", ["  spaces around \n", "and again"], ["Yes."]),
    ("Be brief.", ["What is 2 + 2?", "Sure?\n\nReally?", "Thanks"], ["4", "Yes, really."]),
]


def render(template, conversation, thinking):
    system, users, answers = conversation
    messages = [{"role": "system", "content": system}] if system else []
    for user, answer in zip(users, answers + [None]):
        messages.append({"role": "user", "content": user})
        if answer is not None:
            messages.append({"role": "assistant", "content": answer})
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True,
                                     extensions=["jinja2.ext.loopcontrols"])

    def refuse(text):
        raise ValueError(text)

    environment.globals.update(strftime_now=DATE.strftime, raise_exception=refuse)
    switch = {} if thinking == "default" else {"enable_thinking": thinking == "on"}
    return environment.from_string(template).render(
        messages=messages, bos_token="<s>", eos_token="</s>", add_generation_prompt=True, **switch)


def main():
    templates = list(TEMPLATES)
    if len(sys.argv) > 1:
        for name, (family, modes) in REAL.items():
            text = (pathlib.Path(sys.argv[1]) / f"{name}.jinja").read_text()
            templates.append((family, text, modes))
    cases = []
    for family, template, modes in templates:
        for thinking in modes:
            for conversation in CONVERSATIONS:
                try:
                    prompt = render(template, conversation, thinking)
                except ValueError as error:
                    print(family, "refuses:", error)
                    continue
                cases.append({"family": family, "template": template, "thinking": thinking,
                              "system": conversation[0], "users": conversation[1],
                              "answers": conversation[2], "date": DATE.isoformat(),
                              "prompt": prompt})
    path = FOLDER / "chat.json"
    path.write_text(json.dumps(cases, ensure_ascii=True, indent=0) + "\n")
    print(path, len(cases), "cases", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
