/** Settings that are lists, written as text. What is not in its form is marked, and not sent. */
import { useState } from "preact/hooks";
import { props } from "../state/connection.ts";
import { biasOf, tokensOf } from "../state/lists.ts";
import { changeSettings, settings } from "../state/settings.ts";

interface ListFieldProps {
  label: string;
  help: string;
  placeholder?: string;
  text: string;
  /** Whether the text has its form. */
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

export function StopTexts() {
  return (
    <ListField
      label="Texts that end a reply"
      help={`One on each line, at most ${props.value?.limits.stop ?? 16}.`}
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
      label="Tokens that end a reply"
      help="Their numbers, with spaces between."
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
  const lines = Object.entries(settings.value.logitBias).map(([token, add]) => `${token}: ${add}`);
  return (
    <ListField
      label="Bias of tokens"
      help="A token's number and what is added to its score, from -100 to 100, on each line."
      placeholder="128: -100"
      text={lines.join("\n")}
      onChange={(text) => {
        const logitBias = biasOf(text);
        if (logitBias) changeSettings({ logitBias });
        return logitBias !== undefined;
      }}
    />
  );
}
