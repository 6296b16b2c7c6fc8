/** Asks for the API key of the server. */
import { useState } from "preact/hooks";
import { check, connection } from "../state/connection.ts";
import { apiKey, setKey } from "../api/key.ts";
import { openDialog } from "../state/dialogs.ts";
import { Dialog } from "./Dialog.tsx";

export function KeyDialog() {
  const [key, set] = useState("");
  const [remember, setRemember] = useState(false);
  const isWrong = apiKey.value !== "";
  const submit = (event: Event) => {
    event.preventDefault();
    if (!key.trim()) return;
    setKey(key.trim(), remember);
    openDialog.value = null;
    connection.value = "connecting";
    void check();
  };
  return (
    <Dialog title="API key required" onClose={() => (openDialog.value = null)}>
      <form class="form" onSubmit={submit}>
        {isWrong && (
          <p class="problem" role="alert">
            The server rejected the key.
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
          Remember in this browser (otherwise until the tab is closed)
        </label>
        <button type="submit" class="button main" disabled={!key.trim()}>
          Unlock
        </button>
      </form>
    </Dialog>
  );
}
