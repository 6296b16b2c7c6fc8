/** First messages that the welcome screen suggests. */

/** The built-in model, which answers these well: docs/demo-model.md lists what it knows. */
const DEMO = "wf-demo";
const FOR_DEMO = [
  "Who are you?",
  "Tell me a story about a dragon",
  "Why is the sky blue?",
  "Count from one to ten",
];

const GENERAL = [
  "Tell me a story",
  "Explain how a rainbow forms",
  "Write a short poem about the sea",
  "Suggest a plan for a rainy day",
];

export function suggestionsFor(model: string | undefined): string[] {
  return model === DEMO ? FOR_DEMO : GENERAL;
}
