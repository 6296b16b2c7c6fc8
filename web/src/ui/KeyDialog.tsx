/** Asks for the key of the server. */
import { useState } from "preact/hooks";
import { check, connection } from "../state/connection.ts";
import { apiKey, setKey } from "../api/key.ts";
import { openWindow } from "../state/open.ts";
import { Dialog } from "./Dialog.tsx";

export function KeyDialog() {
  const [key, set] = useState("");
  const [remember, setRemember] = useState(false);
  const isWrong = apiKey.value !== "";
  const submit = (event: Event) => {
    event.preventDefault();
    if (!key.trim()) return;
    setKey(key.trim(), remember);
    openWindow.value = null;
    connection.value = "connecting";
    void check();
  };
  return (
    <Dialog title="This server wants a key" onClose={() => (openWindow.value = null)}>
      <form class="form" onSubmit={submit}>
        {isWrong && (
          <p class="problem" role="alert">
            The key was not accepted.
          </p>
        )}
        <label class="field">
          <span>API key</span>
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={key}
            onInput={(event) => set(event.currentTarget.value)}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={remember}
            onChange={(event) => setRemember(event.currentTarget.checked)}
          />
          Remember it in this browser; otherwise it is forgotten with the tab
        </label>
        <button type="submit" class="button main" disabled={!key.trim()}>
          Unlock
        </button>
      </form>
    </Dialog>
  );
}
