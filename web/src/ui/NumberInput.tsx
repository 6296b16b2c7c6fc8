/** Numeric setting. A value out of range is marked and not sent. */
import { props } from "../state/models.ts";
import { type NumberField, resets } from "../state/settings.ts";

interface NumberInputProps {
  field: NumberField;
  /** All values that are set, by field name. */
  numbers: Record<string, number>;
  onChange: (numbers: Record<string, number>) => void;
}

export function NumberInput({ field, numbers, onChange }: NumberInputProps) {
  const value = numbers[field.name];
  const set = (input: HTMLInputElement) => {
    const isTooSmall = field.isMinExclusive && input.valueAsNumber <= (field.min ?? -Infinity);
    input.setCustomValidity(isTooSmall ? `must be greater than ${field.min}` : "");
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
        placeholder={props.value ? field.placeholder(props.value) : ""}
        defaultValue={value === undefined ? "" : String(value)}
        key={resets.value}
        onInput={(event) => set(event.currentTarget)}
      />
      <small>{field.help}</small>
    </label>
  );
}
