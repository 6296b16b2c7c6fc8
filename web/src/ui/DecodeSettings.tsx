/** How tokens are found, as far as the server has a choice. */
import type { DecodeFacts } from "../api/wire.ts";
import { props } from "../state/connection.ts";
import { type Decoding, MODES, decodeNumbers, fillsBlocks, modeOf } from "../state/decoding.ts";
import { changeSettings, settings } from "../state/settings.ts";
import { NumberInput } from "./NumberInput.tsx";

function change(changes: Partial<Decoding>): void {
  changeSettings({ decoding: { ...settings.peek().decoding, ...changes } });
}

export function DecodeSettings() {
  const server = props.value?.decode;
  if (!server) return null;
  const { decoding } = settings.value;
  const mode = modeOf(decoding, server);
  const fields = decodeNumbers(decoding, server);
  return (
    <fieldset class="decoding">
      <legend>Decoding</legend>
      <Choice
        label="Mode"
        help={MODES[mode] ?? ""}
        value={mode === decoding.mode ? mode : ""}
        names={server.modes}
        byDefault={`the server's choice (${server.default})`}
        onChange={(mode) => change({ mode })}
      />
      {fillsBlocks(mode) && server.rules.length > 0 && (
        <Choice
          label="Rule"
          help={`Which guesses of a pass stay.${blocksOf(server)}`}
          value={server.rules.includes(decoding.rule) ? decoding.rule : ""}
          names={server.rules}
          byDefault="the server's choice"
          // A number of another rule means something else.
          onChange={(rule) => {
            const { threshold: _, ...numbers } = settings.peek().decoding.numbers;
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
      {fillsBlocks(mode) && (
        <label class="check">
          <input
            type="checkbox"
            checked={decoding.showsBlocks}
            onChange={(event) => change({ showsBlocks: event.currentTarget.checked })}
          />
          Show blocks while they are filled
        </label>
      )}
    </fieldset>
  );
}

function blocksOf({ block_size: size, sub_block_size: part }: DecodeFacts): string {
  if (!size) return "";
  const parts = part && part < size ? `, filled ${part} at a time` : "";
  return ` The model's blocks have ${size} tokens${parts}.`;
}

interface ChoiceProps {
  label: string;
  help: string;
  value: string;
  names: string[];
  byDefault: string;
  onChange: (name: string) => void;
}

function Choice({ label, help, value, names, byDefault, onChange }: ChoiceProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{byDefault}</option>
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
