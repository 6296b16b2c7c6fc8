/** Settings of the decoding modes that the server supports. */
import type { DecodeInfo } from "../api/wire.ts";
import { props } from "../state/models.ts";
import {
  type Decoding,
  decodeNumbers,
  usesDiffusion,
  modeHelp,
  modeOf,
} from "../state/decoding.ts";
import { NumberInput } from "./NumberInput.tsx";

interface DecodeSettingsProps {
  decoding: Decoding;
  onChange: (decoding: Decoding) => void;
}

export function DecodeSettings({ decoding, onChange }: DecodeSettingsProps) {
  const server = props.value?.decode;
  if (!server) return null;
  const change = (changes: Partial<Decoding>) => onChange({ ...decoding, ...changes });
  const mode = modeOf(decoding, server);
  const fields = decodeNumbers(decoding, server);
  return (
    <fieldset class="decoding">
      <legend>Decoding</legend>
      <Choice
        label="Mode"
        help={modeHelp(mode, server)}
        value={mode === decoding.mode ? mode : ""}
        names={server.modes}
        placeholder={`server default (${server.default})`}
        onChange={(mode) => change({ mode })}
      />
      {usesDiffusion(mode) && server.rules.length > 0 && (
        <Choice
          label="Rule"
          help={`Selects the predictions that each pass keeps.${blocksOf(server)}`}
          value={server.rules.includes(decoding.rule) ? decoding.rule : ""}
          names={server.rules}
          placeholder="server default"
          // The threshold has another meaning in each rule.
          onChange={(rule) => {
            const { threshold: _, ...numbers } = decoding.numbers;
            change({ rule, numbers });
          }}
        />
      )}
      {fields.length > 0 && (
        <div class="numbers">
          {fields.map((field) => (
            <NumberInput
              key={field.name}
              field={field}
              numbers={decoding.numbers}
              onChange={(numbers) => change({ numbers })}
            />
          ))}
        </div>
      )}
      {usesDiffusion(mode) && (
        <label class="check">
          <input
            type="checkbox"
            checked={decoding.showsBlocks}
            onChange={(event) => change({ showsBlocks: event.currentTarget.checked })}
          />
          Show blocks while they are being filled
        </label>
      )}
    </fieldset>
  );
}

function blocksOf({ block_size: size, sub_block_size: part }: DecodeInfo): string {
  if (!size) return "";
  const parts = part && part < size ? `, filled ${part} at a time` : "";
  return ` Blocks have ${size} tokens${parts}.`;
}

interface ChoiceProps {
  label: string;
  help: string;
  value: string;
  names: string[];
  placeholder: string;
  onChange: (name: string) => void;
}

function Choice({ label, help, value, names, placeholder, onChange }: ChoiceProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{placeholder}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <small>{help}</small>
    </label>
  );
}
