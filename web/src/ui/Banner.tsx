/** What is wrong with the server, where that is so. */
import { type Connection, check, connection } from "../state/connection.ts";
import { notice, spoken } from "../state/notice.ts";
import { openWindow } from "../state/open.ts";

const TEXTS: Partial<Record<Connection, string>> = {
  loading: "The model is being loaded.",
  draining: "The server is stopping: it finishes what it has begun and takes nothing new.",
  offline: "The server cannot be reached. Trying again every second.",
  locked: "This server wants a key.",
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

/** What a person can do about it. */
function Remedy() {
  switch (connection.value) {
    case "offline":
      return (
        <button type="button" class="text-button" onClick={() => void check()}>
          Try now
        </button>
      );
    case "locked":
      return (
        <button type="button" class="text-button" onClick={() => (openWindow.value = "key")}>
          Enter a key
        </button>
      );
    default:
      return null;
  }
}

/** Says aloud what can otherwise only be seen. */
export function Spoken() {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {spoken.value}
    </div>
  );
}
