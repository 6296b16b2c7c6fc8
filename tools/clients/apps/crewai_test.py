"""crewai: its model, and a crew of one agent with one task."""

from bench import STORY, Bench, ok
from crewai import LLM, Agent, Crew, Task

with Bench() as bench:
    model = LLM("openai/wf-demo", base_url=bench.base_url, api_key="none", temperature=0, max_tokens=24)
    messages = [{"role": "user", "content": STORY}]
    assert model.call(messages).strip() == bench.chat(messages).strip()
    agent = Agent(role="Teller", goal="Tell stories", backstory="Old", llm=model, max_iter=1, max_retry_limit=0)
    task = Task(description=STORY, expected_output="A story", agent=agent)
    assert Crew(agents=[agent], tasks=[task], verbose=False).kickoff().raw.strip()
    bench.none_refused("/v1/chat/completions")
ok("crewai")
