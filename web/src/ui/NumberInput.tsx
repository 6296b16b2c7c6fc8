/** A setting that is a number. What is out of bounds is shown as such, and not sent. */
import { props } from "../state/connection.ts";
import type { NumberField } from "../state/settings.ts";

interface NumberInputProps {
  field: NumberField;
  /** The numbers that are set, by the names of their fields. */
  numbers: Record<string, number>;
  onChange: (numbers: Record<string, number>) => void;
}

export function NumberInput({ field, numbers, onChange }: NumberInputProps) {
  const value = numbers[field.name];
  const set = (input: HTMLInputElement) => {
    const { [field.name]: _, ...others } = numbers;
    const isSet = input.value !== "" && input.checkValidity();
    onChange(isSet ? { ...others, [field.name]: input.valueAsNumber } : others);
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
