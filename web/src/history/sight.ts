/** What a chat tells about the context: that it nears its end, or that its beginning is out of sight. */
import { type Chat, type Message, type Stats, pathTo } from "./tree.ts";

/** Share of the context from which on a chat is told to near its end. */
const NEAR = 0.9;

/** Returns the number of tokens in sight of the model. */
export function inSight(stats: Stats): number {
  return stats.promptTokens + stats.replyTokens - (stats.outOfSight ?? 0);
}

/** Returns what is to be said below a response about the context, or nothing. */
export function contextNote(chat: Chat, message: Message): string | undefined {
  const { stats } = message;
  if (!stats?.promptTokens || !stats.context) return undefined;
  if (stats.outOfSight) {
    const above = pathTo(chat, message.id).slice(0, -1);
    if (above.some(({ stats }) => stats?.outOfSight)) return undefined;
    return "Earlier messages are out of sight of the model: its window has moved on.";
  }
  if (stats.slides || inSight(stats) < NEAR * stats.context) return undefined;
  const window = Math.floor(stats.context / 2);
  return (
    "This chat nears the end of the context. A server with " +
    `--attention window=${window},sinks=4 goes on past it and forgets the beginning.`
  );
}
