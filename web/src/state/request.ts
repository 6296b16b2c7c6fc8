/** The request for the next response of a chat. */
import type { ChatRequest } from "../api/wire.ts";
import { type Round, messagesOf } from "../history/calls.ts";
import { promptOf } from "../history/files.ts";
import { type Message, pathTo } from "../history/tree.ts";
import { chatOf } from "./chats.ts";
import { toolFields } from "./mcp.ts";
import { modelFields, props } from "./models.ts";
import { requestFields, settings } from "./settings.ts";

/** Returns the request for a response to a message, of which `rounds` are there already. */
export function requestOf(chatId: string, question: string, rounds: Round[]): ChatRequest {
  const chat = chatOf(chatId);
  const messages = (chat ? pathTo(chat, question) : []).flatMap(inRequest);
  const system = chat?.system.trim() ? [{ role: "system" as const, content: chat.system }] : [];
  return {
    ...modelFields(),
    messages: [...system, ...messages, ...rounds.flatMap(messagesOf)],
    ...toolFields(),
    ...requestFields(settings.peek(), props.peek()),
  };
}

/** Returns the messages that a request has for one of the chat. Empty responses are left out. */
function inRequest(message: Message): ChatRequest["messages"] {
  const content = promptOf(message);
  const calls = (message.rounds ?? []).flatMap(messagesOf);
  return content ? [...calls, { role: message.role, content }] : calls;
}
