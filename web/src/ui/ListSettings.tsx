/** Settings that are lists, entered as text. Invalid text is marked and not sent. */
import { useState } from "preact/hooks";
import type { SamplingParam } from "../api/wire.ts";
import { props } from "../state/models.ts";
import { biasOf, tokensOf } from "../state/lists.ts";
import { changeSettings, settings } from "../state/settings.ts";

interface ListFieldProps {
  label: string;
  help: string;
  placeholder?: string;
  text: string;
  /** Returns true if the text is valid. */
  onChange: (text: string) => boolean;
}

function ListField({ label, help, placeholder, text, onChange }: ListFieldProps) {
  const [isWrong, setWrong] = useState(false);
  return (
    <label class="field">
      <span>{label}</span>
      <textarea
        class="grows"
        rows={2}
        placeholder={placeholder}
        aria-invalid={isWrong}
        defaultValue={text}
        onInput={(event) => setWrong(!onChange(event.currentTarget.value))}
      />
      <small>{help}</small>
    </label>
  );
}

const isLogitBias = ({ name }: SamplingParam) => name === "logit_bias";

export function StopStrings() {
  return (
    <ListField
      label="Stop strings"
      help={`One per line${props.value ? `, at most ${props.value.limits.stop}` : ""}. The response ends before the first match.`}
      text={settings.value.stop.join("\n")}
      onChange={(text) => {
        changeSettings({ stop: text.split("\n").filter((line) => line !== "") });
        return true;
      }}
    />
  );
}

export function StopTokens() {
  return (
    <ListField
      label="Stop token ids"
      help="Separated by spaces or commas."
      text={settings.value.stopTokens.join(" ")}
      onChange={(text) => {
        const stopTokens = tokensOf(text);
        if (stopTokens) changeSettings({ stopTokens });
        return stopTokens !== undefined;
      }}
    />
  );
}

export function LogitBias() {
  const { min, max } = props.value?.sampling_params.find(isLogitBias) ?? {};
  const range = min == null || max == null ? "" : `, from ${min} to ${max}`;
  const lines = Object.entries(settings.value.logitBias).map(
    ([token, bias]) => `${token}: ${bias}`,
  );
  return (
    <ListField
      label="Logit bias"
      help={`One token id and the value added to its logit${range}, per line.`}
      placeholder="128: -100"
      text={lines.join("\n")}
      onChange={(text) => {
        const logitBias = biasOf(text, { min, max });
        if (logitBias) changeSettings({ logitBias });
        return logitBias !== undefined;
      }}
    />
  );
}
