/** Colour theme: light, dark or that of the system. */
import { effect, signal } from "@preact/signals";
import { load, save } from "../browser/storage.ts";

export type Theme = "system" | "light" | "dark";

const NAME = "wf-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(ORDER.find((one) => one === load<string>(NAME, "")) ?? "system");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? "system";
  save(NAME, theme.value);
}
