/** Turns thinking on or off, or limits it. Shown for models that think. */
import type { ThinkingInfo } from "../api/wire.ts";
import { props } from "../state/models.ts";
import { changeSettings, settings } from "../state/settings.ts";

export function ThinkingSelect() {
  const info = props.value?.thinking;
  if (!info) return null;
  const { thinking } = settings.value;
  const isKnown = info.efforts.some(({ name }) => name === thinking);
  return (
    <label class="thinking-select">
      Thinking
      <select
        value={isKnown ? thinking : ""}
        onChange={(event) => changeSettings({ thinking: event.currentTarget.value })}
      >
        <option value="">as the model does</option>
        {info.efforts.map((effort) => (
          <option key={effort.name} value={effort.name}>
            {labelOf(effort)}
          </option>
        ))}
      </select>
    </label>
  );
}

function labelOf({ name, max_tokens: max }: ThinkingInfo["efforts"][number]): string {
  if (max === 0) return "off";
  return max === null ? `${name} (no limit)` : `${name} (up to ${max} tokens)`;
}
