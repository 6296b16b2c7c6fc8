/** The key of the server, if it wants one: kept until the tab is closed, or longer if asked to. */
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
    // Then it holds until the page is left.
  }
}
