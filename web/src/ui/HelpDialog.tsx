/** Keyboard shortcuts, data storage and third-party licences. */
import { openDialog } from "../state/dialogs.ts";
import { SHORTCUTS } from "../state/shortcuts.ts";
import { Dialog } from "./Dialog.tsx";

export function HelpDialog() {
  const template = document.getElementById("licences") as HTMLTemplateElement | null;
  return (
    <Dialog title="Help" onClose={() => (openDialog.value = null)}>
      <h3>Keyboard shortcuts</h3>
      <dl class="keys">
        {SHORTCUTS.map(([keys, action]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
      <h3>Your data</h3>
      <p>
        Chats and settings are stored in this browser. The server stores no conversations: each
        request contains all messages so far. The API is documented at <a href="/docs">/docs</a>.
      </p>
      <details>
        <summary>Third-party licences</summary>
        <pre class="licences" tabIndex={0}>
          {template?.content.textContent}
        </pre>
      </details>
    </Dialog>
  );
}
