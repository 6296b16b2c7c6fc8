/** What a reply cost: tokens, speed, and how full the context is. */
import type { Stats } from "../history/tree.ts";

export function StatsLine({ stats }: { stats: Stats }) {
  // What a reply that was stopped had to read may never have been told.
  const isWhole = stats.promptTokens > 0;
  const used = stats.promptTokens + stats.replyTokens;
  return (
    <span class="stats">
      <span title={speeds(stats)}>{rate(stats.replyPerSecond)} tok/s</span>
      <span>{count(stats.replyTokens)} tokens</span>
      <Passes stats={stats} />
      {stats.drafted !== undefined && (
        <span title="Tokens that were guessed ahead and found right">
          drafts {count(stats.accepted ?? 0)} of {count(stats.drafted)}
        </span>
      )}
      {isWhole && (
        <span>
          prompt {count(stats.promptTokens)}
          {stats.cachedTokens > 0 && ` (${count(stats.cachedTokens)} cached)`}
        </span>
      )}
      {isWhole && stats.context > 0 && <Gauge used={used} room={stats.context} />}
    </span>
  );
}

/** Where tokens and runs of the model are not the same number. */
function Passes({ stats: { passes, replyTokens } }: { stats: Stats }) {
  if (!passes || passes === replyTokens) return null;
  return (
    <span title="Runs of the model that wrote the reply">
      {count(passes)} passes ({(replyTokens / passes).toFixed(1)} tokens each)
    </span>
  );
}

function Gauge({ used, room }: { used: number; room: number }) {
  const percent = Math.min(100, Math.round((used / room) * 100));
  const label = `Context: ${count(used)} of ${count(room)} tokens`;
  return (
    <span class="gauge" title={label}>
      <span
        class={percent >= 90 ? "gauge-bar full" : "gauge-bar"}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
      >
        <span style={{ width: `${percent}%` }} />
      </span>
      {percent}%
    </span>
  );
}

function speeds(stats: Stats): string {
  const parts = [`reply ${rate(stats.replyPerSecond)} tokens a second`];
  if (stats.promptPerSecond) parts.push(`prompt ${rate(stats.promptPerSecond)} tokens a second`);
  if (stats.queueMs >= 1) parts.push(`waited ${Math.round(stats.queueMs)} ms`);
  if (stats.seed !== undefined) parts.push(`seed ${stats.seed}`);
  return parts.join("\n");
}

export const count = (number: number): string => number.toLocaleString("en");
export const rate = (number: number): string =>
  number >= 100 ? Math.round(number).toLocaleString("en") : number.toFixed(1);
