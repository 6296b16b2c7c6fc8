/** How replies are written: system prompt and sampling. Empty fields are the server's. */
import { changeChat, currentChat } from "../state/chats.ts";
import { props } from "../state/connection.ts";
import { openWindow } from "../state/open.ts";
import {
  NUMBER_FIELDS,
  type NumberField,
  changeSettings,
  resetSettings,
  settings,
} from "../state/settings.ts";
import { Dialog } from "./Dialog.tsx";
import { LogitBias, StopTexts, StopTokens } from "./ListSettings.tsx";

export function SettingsDialog() {
  return (
    <Dialog title="Settings" kind="side" onClose={() => (openWindow.value = null)}>
      <div class="form">
        <SystemPrompt />
        <fieldset class="numbers">
          <legend>Sampling</legend>
          {NUMBER_FIELDS.map((field) => (
            <NumberInput key={field.name} field={field} />
          ))}
        </fieldset>
        <DecodeChoice />
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

function NumberInput({ field }: { field: NumberField }) {
  const value = settings.value.numbers[field.name];
  const set = (input: HTMLInputElement) => {
    const { [field.name]: _, ...others } = settings.value.numbers;
    // What is out of bounds is shown as such, and not sent.
    const isSet = input.value !== "" && input.checkValidity();
    changeSettings({ numbers: isSet ? { ...others, [field.name]: input.valueAsNumber } : others });
  };
  return (
    <label class="field">
      <span>{field.label}</span>
      <input
        type="number"
        inputMode="decimal"
        name={field.name}
        min={field.min}
        max={field.max}
        step={field.step === 1 ? 1 : "any"}
        placeholder={props.value ? field.byDefault(props.value) : ""}
        defaultValue={value === undefined ? "" : String(value)}
        key={value === undefined ? "unset" : "set"}
        onInput={(event) => set(event.currentTarget)}
      />
      <small>{field.help}</small>
    </label>
  );
}

/** Only where the server says that there is a choice. */
function DecodeChoice() {
  const modes = props.value?.decode_modes;
  if (!modes || modes.length < 2) return null;
  return (
    <label class="field">
      <span>Decoding</span>
      <select
        value={settings.value.decode}
        onChange={(event) => changeSettings({ decode: event.currentTarget.value })}
      >
        <option value="">the server's choice</option>
        {modes.map((mode) => (
          <option key={mode} value={mode}>
            {mode}
          </option>
        ))}
      </select>
    </label>
  );
}
