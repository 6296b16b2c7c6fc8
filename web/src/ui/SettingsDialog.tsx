/** Generation settings: system prompt, sampling, decoding. Empty fields use the server's defaults. */
import { changeChat, currentChat } from "../state/chats.ts";
import { props } from "../state/connection.ts";
import { openDialog } from "../state/dialogs.ts";
import { changeSettings, numberFields, resetSettings, settings } from "../state/settings.ts";
import { DecodeSettings } from "./DecodeSettings.tsx";
import { Dialog } from "./Dialog.tsx";
import { LogitBias, StopStrings, StopTokens } from "./ListSettings.tsx";
import { NumberInput } from "./NumberInput.tsx";

export function SettingsDialog() {
  return (
    <Dialog title="Settings" kind="side" onClose={() => (openDialog.value = null)}>
      <div class="form">
        <SystemPrompt />
        <fieldset class="numbers">
          <legend>Sampling</legend>
          {!props.value && <p class="quiet">Waiting for the server.</p>}
          {(props.value ? numberFields(props.value) : []).map((field) => (
            <NumberInput
              key={field.name}
              field={field}
              numbers={settings.value.numbers}
              onChange={(numbers) => changeSettings({ numbers })}
            />
          ))}
        </fieldset>
        <DecodeSettings />
        <StopStrings />
        <StopTokens />
        <LogitBias />
        <label class="check">
          <input
            type="checkbox"
            checked={settings.value.ignoreEos}
            onChange={(event) => changeSettings({ ignoreEos: event.currentTarget.checked })}
          />
          Ignore the end-of-sequence token
        </label>
        <button type="button" class="button" onClick={resetSettings}>
          Reset to server defaults
        </button>
      </div>
    </Dialog>
  );
}

function SystemPrompt() {
  const chat = currentChat.value;
  const isOfChat = chat !== undefined && chat.messages.length > 0;
  const change = (system: string) => {
    if (isOfChat) changeChat(chat.id, (chat) => ({ ...chat, system }));
    else changeSettings({ system });
  };
  return (
    <label class="field">
      <span>System prompt {isOfChat ? "of this chat" : "for new chats"}</span>
      <textarea
        class="grows"
        rows={3}
        dir="auto"
        value={isOfChat ? chat.system : settings.value.system}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}
