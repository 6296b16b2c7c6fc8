/** Statistics of a response: speed, tokens and context use. */
import { inSight } from "../history/sight.ts";
import type { Stats } from "../history/tree.ts";
import { count, rate } from "./units.ts";

export function StatsLine({ stats }: { stats: Stats }) {
  // A response stopped before its first event has no prompt statistics.
  const hasPrompt = stats.promptTokens > 0;
  return (
    <span class="stats">
      <span title={speeds(stats)}>{rate(stats.replyPerSecond)} tok/s</span>
      <span>{count(stats.replyTokens)} tokens</span>
      <Passes stats={stats} />
      {stats.drafted !== undefined && (
        <span title="Accepted draft tokens">
          drafts {count(stats.accepted ?? 0)} of {count(stats.drafted)}
        </span>
      )}
      {hasPrompt && (
        <span>
          prompt {count(stats.promptTokens)}
          {stats.cachedTokens > 0 && ` (${count(stats.cachedTokens)} cached)`}
        </span>
      )}
      {hasPrompt && stats.context > 0 && <Gauge stats={stats} />}
    </span>
  );
}

/** Number of forward passes, if it differs from the number of tokens. */
function Passes({ stats: { passes, replyTokens } }: { stats: Stats }) {
  if (!passes || passes === replyTokens) return null;
  return (
    <span title="Forward passes of the model">
      {count(passes)} passes ({(replyTokens / passes).toFixed(1)} tokens each)
    </span>
  );
}

function Gauge({ stats }: { stats: Stats }) {
  const [used, limit] = [inSight(stats), stats.context];
  const percent = Math.min(100, Math.round((used / limit) * 100));
  const out = stats.outOfSight ? `, ${count(stats.outOfSight)} out of sight` : "";
  const what = stats.slides ? "In sight" : "Context";
  const label = `${what}: ${count(Math.min(used, limit))} of ${count(limit)} tokens${out}`;
  return (
    <span class="gauge" title={label}>
      <span
        class={percent >= 90 && !stats.slides ? "gauge-bar full" : "gauge-bar"}
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
  const parts = [`response: ${rate(stats.replyPerSecond)} tokens/s`];
  if (stats.promptPerSecond) parts.push(`prompt: ${rate(stats.promptPerSecond)} tokens/s`);
  if (stats.queueMs >= 1) parts.push(`queue: ${Math.round(stats.queueMs)} ms`);
  if (stats.seed !== undefined) parts.push(`seed: ${stats.seed}`);
  return parts.join("\n");
}
