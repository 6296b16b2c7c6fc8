/** Files of the next message and of messages that were sent. */
import type { TextFile } from "../history/files.ts";
import { draftFiles, filesProblem, removeFile } from "../state/files.ts";
import { IconButton } from "./IconButton.tsx";
import { Close } from "./icons.tsx";
import { count } from "./units.ts";

export function DraftFiles() {
  if (!draftFiles.value.length) return null;
  return (
    <div class="draft-files">
      <ul class="files" aria-label="Attached files">
        {draftFiles.value.map((file) => (
          <li class="file" key={file}>
            <span class="file-name">{file.name}</span>
            <span class="quiet">{sizeOf(file)}</span>
            <IconButton label={`Remove ${file.name}`} onClick={() => removeFile(file)}>
              <Close />
            </IconButton>
          </li>
        ))}
      </ul>
      {filesProblem.value && (
        <p class="problem" role="alert">
          {filesProblem.value}
        </p>
      )}
    </div>
  );
}

/** Files of a message that was sent, which unfold to their text. */
export function SentFiles({ files }: { files: TextFile[] }) {
  return (
    <div class="sent-files">
      {files.map((file) => (
        <details class="sent-file" key={file}>
          <summary>
            <span class="file-name">{file.name}</span> <span class="quiet">{sizeOf(file)}</span>
          </summary>
          <pre tabIndex={0}>{file.text}</pre>
        </details>
      ))}
    </div>
  );
}

function sizeOf({ tokens, text }: TextFile): string {
  return tokens === undefined
    ? `${count(text.length)} characters`
    : `${count(tokens)} ${tokens === 1 ? "token" : "tokens"}`;
}
