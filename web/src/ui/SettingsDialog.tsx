/** Generation settings: system prompt, sampling, decoding. Empty fields use the server's defaults. */
import { props } from "../state/models.ts";
import { openDialog } from "../state/dialogs.ts";
import { changeSettings, numberFields, resetSettings, settings } from "../state/settings.ts";
import { DecodeSettings } from "./DecodeSettings.tsx";
import { Dialog } from "./Dialog.tsx";
import { LogitBias, StopStrings, StopTokens } from "./ListSettings.tsx";
import { McpSettings } from "./McpSettings.tsx";
import { NumberInput } from "./NumberInput.tsx";

export function SettingsDialog() {
  return (
    <Dialog title="Settings" kind="side" onClose={() => (openDialog.value = null)}>
      <div class="form">
        <DefaultSystemPrompt />
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
        <DecodeSettings
          decoding={settings.value.decoding}
          onChange={(decoding) => changeSettings({ decoding })}
        />
        <McpSettings />
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

function DefaultSystemPrompt() {
  return (
    <label class="field">
      <span>System prompt for new chats</span>
      <textarea
        class="grows"
        rows={3}
        dir="auto"
        value={settings.value.system}
        onInput={(event) => changeSettings({ system: event.currentTarget.value })}
      />
      <small>Each chat shows its own above its first message.</small>
    </label>
  );
}
