/** Shows problems with the server connection, and notices. */
import { type Connection, check, connection } from "../state/connection.ts";
import { notice, announcement } from "../state/notice.ts";
import { openDialog } from "../state/dialogs.ts";

const TEXTS: Partial<Record<Connection, string>> = {
  loading: "The model is loading.",
  draining: "The server is shutting down: running requests finish, new ones are rejected.",
  offline: "The server cannot be reached. Retrying every second.",
  locked: "This server requires an API key.",
};

export function Banner() {
  const text = TEXTS[connection.value];
  return (
    <div class="banners" role="status">
      {text && (
        <p class={`banner ${connection.value}`}>
          {text}
          <Remedy />
        </p>
      )}
      {notice.value && <p class="toast">{notice.value}</p>}
    </div>
  );
}

/** Button that resolves the problem, if there is one. */
function Remedy() {
  switch (connection.value) {
    case "offline":
      return (
        <button type="button" class="text-button" onClick={() => void check()}>
          Retry now
        </button>
      );
    case "locked":
      return (
        <button type="button" class="text-button" onClick={() => (openDialog.value = "key")}>
          Enter key
        </button>
      );
    default:
      return null;
  }
}

/** Announces status changes to screen readers. */
export function Announcement() {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {announcement.value}
    </div>
  );
}
