/** Dark, light, or as the system is. */
import { effect, signal } from "@preact/signals";
import { keep, recall } from "../browser/kept.ts";

export type Theme = "system" | "light" | "dark";

const NAME = "wf-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>(
  ORDER.find((one) => one === recall<string>(NAME, "")) ?? "system",
);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? "system";
  keep(NAME, theme.value);
}
