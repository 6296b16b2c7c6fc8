/** What is wrong with the server, where that is so. */
import { type Connection, check, connection } from "../state/connection.ts";
import { notice, spoken } from "../state/notice.ts";

const TEXTS: Partial<Record<Connection, string>> = {
  loading: "The model is being loaded.",
  draining: "The server is stopping: it finishes what it has begun and takes nothing new.",
  offline: "The server cannot be reached. Trying again every second.",
};

export function Banner() {
  const text = TEXTS[connection.value];
  return (
    <div class="banners" role="status">
      {text && (
        <p class={`banner ${connection.value}`}>
          {text}
          {connection.value === "offline" && (
            <button type="button" class="text-button" onClick={() => void check()}>
              Try now
            </button>
          )}
        </p>
      )}
      {notice.value && <p class="banner">{notice.value}</p>}
    </div>
  );
}

/** Says aloud what can otherwise only be seen. */
export function Spoken() {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {spoken.value}
    </div>
  );
}
