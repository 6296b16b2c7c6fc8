/** A choice among the models of the server. */
import { models } from "../state/models.ts";

interface ModelSelectProps {
  /** Name of the chosen model; any other text stands for the first. */
  value: string;
  onChange: (name: string) => void;
  /** Accessible name, where no label has one. */
  label?: string;
  disabled?: boolean;
}

export function ModelSelect({ value, onChange, label, disabled = false }: ModelSelectProps) {
  const all = models.value;
  return (
    <select
      class="model-select"
      aria-label={label}
      disabled={disabled}
      value={all.includes(value) ? value : all[0]}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      {all.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
