/** How replies are written: system prompt, sampling, decoding. Empty fields are the server's. */
import { changeChat, currentChat } from "../state/chats.ts";
import { openWindow } from "../state/open.ts";
import { NUMBER_FIELDS, changeSettings, resetSettings, settings } from "../state/settings.ts";
import { DecodeSettings } from "./DecodeSettings.tsx";
import { Dialog } from "./Dialog.tsx";
import { LogitBias, StopTexts, StopTokens } from "./ListSettings.tsx";
import { NumberInput } from "./NumberInput.tsx";

export function SettingsDialog() {
  return (
    <Dialog title="Settings" kind="side" onClose={() => (openWindow.value = null)}>
      <div class="form">
        <SystemPrompt />
        <fieldset class="numbers">
          <legend>Sampling</legend>
          {NUMBER_FIELDS.map((field) => (
            <NumberInput
              key={field.name}
              field={field}
              numbers={settings.value.numbers}
              onChange={(numbers) => changeSettings({ numbers })}
            />
          ))}
        </fieldset>
        <DecodeSettings />
        <StopTexts />
        <StopTokens />
        <LogitBias />
        <label class="check">
          <input
            type="checkbox"
            checked={settings.value.ignoreEos}
            onChange={(event) => changeSettings({ ignoreEos: event.currentTarget.checked })}
          />
          Go on past the model's own end
        </label>
        <button type="button" class="button" onClick={resetSettings}>
          Leave all to the server
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
      <span>System prompt {isOfChat ? "of this chat" : "of new chats"}</span>
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
