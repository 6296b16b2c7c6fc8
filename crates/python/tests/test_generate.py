"""Completions are those of ``wf run``, bit for bit, alone and in batches."""

from __future__ import annotations

import json
from typing import Any

from conftest import Program

from wrinklefree import LLM, Completion

QUESTION = "Tell me a story about a dragon."
SAMPLING: dict[str, Any] = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "seed": 7, "max_tokens": 40}
FLAGS = ["--temperature", "0.8", "--top-p", "0.9", "--top-k", "40", "--seed", "7", "--max-tokens", "40"]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def assert_same(completion: Completion, run: dict[str, Any]) -> None:
    fields = ("text", "ids", "prompt_ids", "finish_reason")
    assert {name: getattr(completion, name) for name in fields} == {name: run[name] for name in fields}


def test_a_chat_is_a_run(llm: LLM, wf: Program) -> None:
    assert_same(llm.chat(user(QUESTION)), wf.json("run", "--json", QUESTION))
    sampled = llm.chat(user(QUESTION), **SAMPLING)
    assert_same(sampled, wf.json("run", "--json", QUESTION, *FLAGS))
    assert sampled.seed == 7


def test_a_system_message_is_that_of_the_flag(llm: LLM, wf: Program) -> None:
    system = {"role": "system", "content": "Be brief."}
    run = wf.json("run", "--json", QUESTION, "--system", "Be brief.", "-n", "20")
    assert_same(llm.chat([system, *user(QUESTION)], max_tokens=20), run)


def test_a_prompt_is_a_raw_run(llm: LLM, wf: Program) -> None:
    run = wf.json("run", "--json", "--raw", "Once upon a time", *FLAGS)
    assert_same(llm.generate("Once upon a time", **SAMPLING), run)
    assert_same(llm.generate(run["prompt_ids"], **SAMPLING), run)
    text = "Hi<|eot_id|>"
    run = wf.json("run", "--json", "--raw", "--specials", text, "-n", "8")
    assert_same(llm.generate(text, specials=True, max_tokens=8), run)
    assert llm.generate(text, max_tokens=1).prompt_ids != run["prompt_ids"]


def test_a_batch_gives_the_completions_of_its_prompts(llm: LLM) -> None:
    prompts = [f"Story number {number}:" for number in range(40)]
    together = llm.generate(prompts, **SAMPLING)
    alone = [llm.generate(prompt, **SAMPLING) for prompt in prompts]
    assert [one.ids for one in together] == [one.ids for one in alone]
    chats = llm.chat([user(prompt) for prompt in prompts[:3]], max_tokens=5)
    assert [one.ids for one in chats] == [llm.chat(user(p), max_tokens=5).ids for p in prompts[:3]]
    none: list[str] = []
    assert llm.generate(none) == []
    assert len(llm.generate([[1, 2], [3]], max_tokens=1)) == 2


def test_settings_do_not_change_completions(llm: LLM) -> None:
    expected = llm.generate("The cat", max_tokens=30).ids
    for settings in ({"threads": 1}, {"threads": 3, "chunk": 2}, {"max_running": 1}):
        with LLM(**settings) as other:  # type: ignore[arg-type]
            assert other.generate("The cat", max_tokens=30).ids == expected, settings


def test_limits_and_stops(llm: LLM) -> None:
    whole = llm.chat(user(QUESTION), max_tokens=30)
    assert (whole.finish_reason, len(whole.ids)) == ("length", 30)
    stop = whole.text.split()[4]
    stopped = llm.chat(user(QUESTION), max_tokens=30, stop=[stop, "never in it"])
    assert stopped.finish_reason == "stop"
    assert stopped.text == whole.text.partition(stop)[0]
    assert llm.chat(user(QUESTION), max_tokens=30, stop=stop).text == stopped.text
    first = whole.ids[0]
    banned = llm.chat(user(QUESTION), max_tokens=1, logit_bias={first: -100})
    assert banned.ids != [first]
    longer = llm.chat(user(QUESTION), max_tokens=400, ignore_eos=True)
    assert len(longer.ids) == 400


def test_constraints(llm: LLM) -> None:
    assert llm.chat(user("Are cats animals?"), regex="yes|no").text in ("yes", "no")
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    assert isinstance(json.loads(llm.chat(user("How old?"), json_schema=schema).text)["age"], int)
    assert llm.chat(user("Say it"), grammar='start: "cat" | "dog"').text in ("cat", "dog")


def test_log_probabilities_of_sampled_and_of_given_tokens_are_the_same(llm: LLM) -> None:
    sampled = llm.generate("Once upon", max_tokens=12, logprobs=2)
    assert sampled.logprobs is not None
    assert [token.id for token in sampled.logprobs] == sampled.ids
    assert all(token.top[0] == (token.id, token.logprob) for token in sampled.logprobs)
    given = llm.logprobs("Once upon", sampled.ids, top=2)
    shown = [(token.id, token.text, token.logprob, token.top) for token in given]
    assert shown == [(token.id, token.text, token.logprob, token.top) for token in sampled.logprobs]
    assert llm.generate("Once upon", max_tokens=1).logprobs is None


def test_log_probabilities_of_texts_in_batches(llm: LLM) -> None:
    likely, unlikely = llm.logprobs(["Once upon"] * 2, [" a time", " zebra quantum"])
    total = sum(token.logprob for token in likely)
    assert total > sum(token.logprob for token in unlikely)
    assert "".join(token.text for token in likely) == " a time"
    assert sum(token.logprob for token in llm.logprobs("Once upon", " a time")) == total
    assert llm.logprobs(user("Hi"), "Hello")[0].logprob < 0
    assert llm.logprobs("Once upon", "") == []


def test_tokens_and_text(llm: LLM) -> None:
    ids = llm.tokenize("The cat sat.")
    assert llm.detokenize(ids) == "The cat sat."
    assert llm.generate("The cat sat.", max_tokens=1).prompt_ids[-len(ids) :] == ids
    assert max(ids) < llm.vocab_len


def test_facts_about_the_model(llm: LLM) -> None:
    assert llm.context_len == 2048
    assert repr(llm).startswith("LLM(")
    assert len(llm.embed("x")) == llm.embedding_len
