/** Keys, where things are kept, and whose work this is made with. */
import { openWindow } from "../state/open.ts";
import { SHORTCUTS } from "../state/shortcuts.ts";
import { Dialog } from "./Dialog.tsx";

export function HelpDialog() {
  const template = document.getElementById("licences") as HTMLTemplateElement | null;
  return (
    <Dialog title="Help" onClose={() => (openWindow.value = null)}>
      <h3>Keys</h3>
      <dl class="keys">
        {SHORTCUTS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <h3>Where things are</h3>
      <p>
        Chats and settings are kept in this browser. The server keeps no conversation: each message
        sends the whole of it again. The API is described at <a href="/docs">/docs</a>.
      </p>
      <details>
        <summary>Licences of what this page is made with</summary>
        <pre class="licences" tabIndex={0}>
          {template?.content.textContent}
        </pre>
      </details>
    </Dialog>
  );
}
