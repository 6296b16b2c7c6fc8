/** API key of the server, stored until the tab is closed or, if the user chooses, permanently. */
import { signal } from "@preact/signals";

const NAME = "wf-key";

function stored(): string {
  try {
    return sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

export const apiKey = signal(stored());

export function setKey(key: string, remember: boolean): void {
  apiKey.value = key;
  try {
    sessionStorage.removeItem(NAME);
    localStorage.removeItem(NAME);
    if (key) (remember ? localStorage : sessionStorage).setItem(NAME, key);
  } catch {
    // Storage is disabled: the key lasts until the page is closed.
  }
}
