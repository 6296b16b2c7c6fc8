/** The model that requests use, where the server has several. */
import { computed, signal } from "@preact/signals";
import type { Props } from "../api/wire.ts";
import { load, save } from "../browser/storage.ts";

const NAME = "wf-model";

/** Facts about the server and the model of requests. */
export const props = signal<Props | null>(null);

/** Names of the models to choose from; empty if there is only one. */
export const models = computed(() => {
  const all = props.value?.models ?? [];
  return all.length > 1 ? all : [];
});

/** Name of the chosen model; empty for the default of the server. */
export const chosenModel = signal(load<string>(NAME, ""));

export function chooseModel(name: string): void {
  chosenModel.value = name;
  save(NAME, name);
}

/** Returns the request fields for a model, or for the chosen one. */
export function modelFields(name: string = chosenModel.peek()): { model?: string } {
  return models.peek().includes(name) ? { model: name } : {};
}
